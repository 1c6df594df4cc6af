"""The curator, sensitivity checks, individual filters, and utilities of selection."""
