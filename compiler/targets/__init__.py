"""Compilers for StableHLO modules."""
