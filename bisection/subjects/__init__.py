"""What a search makes smaller: a graph or a module, as items that can be left out."""
