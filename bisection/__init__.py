"""From a compiler that fails on a graph to the few operations that make it fail."""
