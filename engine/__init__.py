"""Where a model and its compiled step meet."""
