"""A decode step for a ladder of batch sizes: captured, passed, cut, planned."""
