"""Things that were expensive to make, kept on disk under everything that they depend on."""
