"""How the range of an operator's integer result follows from the ranges of its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .interval import Interval

aten = torch.ops.aten

Arguments = Mapping[str, Any]
"""Arguments by their names in the operator's schema, defaults included."""

Lookup = Callable[[Any], Interval]
"""The range of a node or of a number."""

Rule = Callable[[Arguments, Lookup, torch.Tensor], Interval]
"""(arguments, ranges, described result) -> range of the result, before it wraps around in its type."""


def _moved(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    """Elements of the arguments that hold elements, not of those that say where."""
    found: list[Interval] = []
    for name in ("self", "tensors", "weight", "other", "src", "source", "values", "value"):
        argument = given.get(name, ())
        found.extend(of(one) for one in (argument if isinstance(argument, (list, tuple)) else [argument]))
    return Interval(min(one.low for one in found), max(one.high for one in found))


def _stored(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return Interval.of_dtype(result.dtype) if given["accumulate"] else _moved(given, of, result)


def _converted(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return of(given["self"] if "self" in given else given["a"])


def _added(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return of(given["self"]) + of(given["other"]) * of(given["alpha"])


def _subtracted(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return of(given["self"]) - of(given["other"]) * of(given["alpha"])


def _subtracted_from(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return of(given["other"]) - of(given["self"]) * of(given["alpha"])


def _multiplied(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return of(given["self"]) * of(given["other"])


def _negated(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return Interval(0, 0) - of(given["self"])


def _magnitude(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    value = of(given["self"])
    nearest = 0 if value.low <= 0 <= value.high else min(abs(value.low), abs(value.high))
    return Interval(nearest, max(abs(value.low), abs(value.high)))


def _divided(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    """Floor or truncation: for a divisor without zero, between the quotients of the ends."""
    value, divisor = of(given["self"]), of(given["other"])
    if divisor.low <= 0 <= divisor.high:
        return Interval.of_dtype(result.dtype)
    down, up = value.corners(divisor, lambda x, y: x // y), value.corners(divisor, lambda x, y: -(-x // y))
    return down if given.get("rounding_mode", "floor") == "floor" else down.union(up)


def _remainder(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    """With the sign of the divisor, as Python's %."""
    value, divisor = of(given["self"]), of(given["other"])
    if divisor.low <= 0:
        largest = max(abs(divisor.low), abs(divisor.high))
        return Interval(-largest, largest)
    if value.low >= 0 and value.high < divisor.low:
        return value
    return Interval(0, divisor.high - 1)


def _limited(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    value = of(given["self"])
    if given.get("min") is not None:
        value = _largest_of(value, of(given["min"]))
    return value if given.get("max") is None else _smallest_of(value, of(given["max"]))


def _largest_of(one: Interval, other: Interval) -> Interval:
    return Interval(max(one.low, other.low), max(one.high, other.high))


def _smallest_of(one: Interval, other: Interval) -> Interval:
    return Interval(min(one.low, other.low), min(one.high, other.high))


def _larger(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return _largest_of(of(given["self"]), of(given["other"]))


def _smaller(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return _smallest_of(of(given["self"]), of(given["other"]))


def _masked_bits(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    """An ``and`` is no larger than an operand that is not negative."""
    operands = [of(given["self"]), of(given["other"])]
    limits = [one.high for one in operands if one.low >= 0]
    return Interval(0, min(limits)) if limits else _combined_bits(given, of, result)


def _combined_bits(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    """Bitwise operators stay within the power of two that holds both operands."""
    both = of(given["self"]).union(of(given["other"]))
    bound = 1 << max(both.high.bit_length(), (-both.low - 1).bit_length() if both.low < 0 else 0)
    return Interval(0 if both.low >= 0 else -bound, bound - 1)


def _shifted_left(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return _shifted(given, of, result, lambda value, bits: value << bits)


def _shifted_right(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    return _shifted(given, of, result, lambda value, bits: value >> bits)


def _shifted(given: Arguments, of: Lookup, result: torch.Tensor, shift: Callable[[int, int], int]) -> Interval:
    bits = of(given["other"])
    if bits.low < 0 or bits.high >= 8 * result.dtype.itemsize:
        return Interval.of_dtype(result.dtype)
    return of(given["self"]).corners(bits, shift)


def _summed(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    """Between no element and all of them, so that it also holds for running sums."""
    size = given["self"].meta["val"].shape
    dims = given.get("dim")
    if not size or dims is None or dims == []:
        count = math.prod(size)
    else:
        count = math.prod(size[dim] for dim in ([dims] if isinstance(dims, int) else dims))
    value = of(given["self"])
    return Interval(min(value.low * count, value.low), max(value.high * count, value.high))


def _counted(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    """arange: from the start by steps to before the end."""
    start, step = given.get("start", 0), given.get("step", 1)
    numbers = [math.trunc(start), math.trunc(start + step * (result.numel() - 1))]
    return Interval.around(numbers)


def _filled(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    for name in ("fill_value", "value", "s"):
        if name in given:
            return of(given[name])
    raise AssertionError(f"no fill value among {list(given)}")


def _constant(number: int) -> Rule:
    return lambda given, of, result: Interval(number, number)


def _position(given: Arguments, of: Lookup, result: torch.Tensor) -> Interval:
    """A position along one dimension, or among all elements."""
    source, dim = given["self"].meta["val"], given["dim"]
    count = source.numel() if dim is None or not source.dim() else source.shape[dim]
    return Interval(0, max(count - 1, 0))


_MOVES = (
    *(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.clone.default, aten.detach.default),
    *(aten.alias.default, aten.lift_fresh_copy.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims),
    *(aten.unsqueeze.default, aten.permute.default, aten.transpose.int, aten.t.default, aten.expand.default),
    *(aten.repeat.default, aten.slice.Tensor, aten.select.int, aten.split.Tensor, aten.split_with_sizes.default),
    *(aten.unbind.int, aten.cat.default, aten.stack.default, aten.flip.default, aten.roll.default),
    *(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar, aten.as_strided.default),
    *(aten.index.Tensor, aten.index_select.default, aten.gather.default, aten.embedding.default),
    *(aten.index_copy.default, aten.scatter.src, aten.scatter.value, aten.select_scatter.default),
    *(aten.slice_scatter.default, aten.constant_pad_nd.default, aten.masked_fill.Scalar, aten.masked_fill.Tensor),
    *(aten.sort.default, aten.sort.stable, aten.topk.default, aten.max.dim, aten.min.dim, aten.amax.default),
    *(aten.amin.default, aten.max.default, aten.min.default, aten.diagonal.default),
)
_LEFT_SHIFTS = (
    *(aten.bitwise_left_shift.Tensor_Scalar, aten.bitwise_left_shift.Tensor),
    *(aten.__lshift__.Scalar, aten.__lshift__.Tensor),
)
_RIGHT_SHIFTS = (
    *(aten.bitwise_right_shift.Tensor_Scalar, aten.bitwise_right_shift.Tensor),
    *(aten.__rshift__.Scalar, aten.__rshift__.Tensor),
)
RULES: Mapping[Any, Rule] = {
    **dict.fromkeys(_MOVES, _moved),
    aten.index_put.default: _stored,
    aten._to_copy.default: _converted,
    torch.ops.prims.convert_element_type.default: _converted,
    aten.add.Tensor: _added,
    aten.add.Scalar: _added,
    aten.sub.Tensor: _subtracted,
    aten.sub.Scalar: _subtracted,
    aten.rsub.Tensor: _subtracted_from,
    aten.rsub.Scalar: _subtracted_from,
    aten.mul.Tensor: _multiplied,
    aten.mul.Scalar: _multiplied,
    aten.neg.default: _negated,
    aten.abs.default: _magnitude,
    aten.floor_divide.default: _divided,
    aten.div.Tensor_mode: _divided,
    aten.div.Scalar_mode: _divided,
    aten.remainder.Tensor: _remainder,
    aten.remainder.Scalar: _remainder,
    aten.clamp.default: _limited,
    aten.clamp.Tensor: _limited,
    aten.clamp_min.default: _limited,
    aten.clamp_max.default: _limited,
    aten.maximum.default: _larger,
    aten.minimum.default: _smaller,
    aten.bitwise_and.Tensor: _masked_bits,
    aten.bitwise_and.Scalar: _masked_bits,
    aten.bitwise_or.Tensor: _combined_bits,
    aten.bitwise_or.Scalar: _combined_bits,
    aten.bitwise_xor.Tensor: _combined_bits,
    aten.bitwise_xor.Scalar: _combined_bits,
    **dict.fromkeys(_LEFT_SHIFTS, _shifted_left),
    **dict.fromkeys(_RIGHT_SHIFTS, _shifted_right),
    aten.sum.default: _summed,
    aten.sum.dim_IntList: _summed,
    aten.cumsum.default: _summed,
    aten.arange.default: _counted,
    aten.arange.start: _counted,
    aten.arange.start_step: _counted,
    torch.ops.prims.iota.default: _counted,
    aten.full.default: _filled,
    aten.new_full.default: _filled,
    aten.full_like.default: _filled,
    aten.scalar_tensor.default: _filled,
    aten.zeros.default: _constant(0),
    aten.zeros_like.default: _constant(0),
    aten.new_zeros.default: _constant(0),
    aten.ones.default: _constant(1),
    aten.new_ones.default: _constant(1),
    aten.ones_like.default: _constant(1),
    aten.argmax.default: _position,
    aten.argmin.default: _position,
    aten.argsort.default: _position,
    aten.argsort.stable: _position,
}
"""How an operator's result follows from its arguments."""

POSITIONS: Mapping[Any, Rule] = dict.fromkeys(
    (aten.sort.default, aten.sort.stable, aten.topk.default, aten.max.dim, aten.min.dim), _position
)
"""Operators whose second result is positions."""
