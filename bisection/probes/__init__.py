"""One run of a compiler on one candidate, and what its outcome says."""
