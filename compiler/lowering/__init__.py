"""FX graphs of aten operators to StableHLO modules."""
