"""Arithmetic on ranges of integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

import torch


@dataclass(frozen=True)
class Interval:
    """The integers from ``low`` to ``high``, both included."""

    low: int
    high: int

    @classmethod
    def of_dtype(cls, dtype: torch.dtype) -> Interval:
        """Every value of an integer type or of bool."""
        if dtype is torch.bool:
            return cls(0, 1)
        limits = torch.iinfo(dtype)
        return cls(limits.min, limits.max)

    @classmethod
    def around(cls, values: Iterable[int]) -> Interval:
        """The smallest interval with all of ``values``."""
        known = list(values)
        return cls(min(known), max(known))

    @classmethod
    def of_tensor(cls, tensor: torch.Tensor) -> Interval:
        """From the smallest to the largest element; just 0 for a tensor without elements."""
        if not tensor.numel():
            return cls(0, 0)
        low, high = torch.aminmax(tensor.detach())
        return cls(int(low), int(high))

    def within(self, other: Interval) -> bool:
        """Whether ``other`` holds all of these values."""
        return other.low <= self.low and self.high <= other.high

    def fits(self, dtype: torch.dtype) -> bool:
        """Whether ``dtype`` can represent all of these values."""
        return self.within(Interval.of_dtype(dtype))

    def union(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval) -> Interval:
        return self.corners(other, lambda one, two: one * two)

    def corners(self, other: Interval, function: Callable[[int, int], int]) -> Interval:
        """The range of a function that is monotone in each argument."""
        ends = product((self.low, self.high), (other.low, other.high))
        return Interval.around(function(one, two) for one, two in ends)

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}]"
