"""Parts that several recipes share."""
