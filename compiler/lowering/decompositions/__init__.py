"""Meanings of operators, in other operators, for which PyTorch registers no decomposition that can be lowered."""
