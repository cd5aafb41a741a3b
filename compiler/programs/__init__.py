"""From a region to its program: key, lowering, store, compilation, and what is kept of a failure."""
