"""Ratios against eager PyTorch and Inductor, each measured in one interleaved run."""
