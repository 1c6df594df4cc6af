"""What training leaves behind: immutable arrays of released values, nothing private."""
