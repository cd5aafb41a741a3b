"""Measurements of what lowering and compiling do to a graph: operator by operator, and segment by segment."""
