"""What a step is cut into, and which rows of caches each region takes."""
