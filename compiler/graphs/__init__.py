"""Graphs as files, and the values and versions in them."""
