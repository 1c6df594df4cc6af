"""Accountants: composition of privacy events."""
