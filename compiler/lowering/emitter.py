"""Emits StableHLO operations, one method for each primitive the rules are written in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ...errors import LoweringError
from ...passes.float8 import FORMATS
from .options import LoweringOptions
from .tensor import MLIR_NAMES, SATURATING, Tensor, computation_dtype, is_float

Scalar = int | float | bool
Operand = Tensor | Scalar


class Emitter:
    """Writes into one function body, at the current MLIR insertion point and location.

    ``runtime_zero`` is an int32 scalar that is zero at run time and unknown to the compiler; only exact
    numerics has it.
    """

    def __init__(self, options: LoweringOptions, runtime_zero: ir.Value | None = None):
        self.options = options
        self.runtime_zero = runtime_zero
        self._elements: dict[torch.dtype, ir.Type] = {}
        self._types: dict[tuple[torch.dtype, tuple[int, ...]], ir.Type] = {}

    def within(self, runtime_zero: ir.Value | None) -> Emitter:
        """An emitter for another function or region of the same module, where the zero is another value."""
        inner = Emitter(self.options, runtime_zero)
        inner._elements, inner._types = self._elements, self._types
        return inner

    # types and constants

    def element_type(self, dtype: torch.dtype) -> ir.Type:
        """The MLIR element type of a torch dtype, made once per module."""
        if dtype in FORMATS and not self.options.float8:
            raise LoweringError(f"the target has no {dtype}: view operands as torch.uint8 and decode them by a cast")
        if dtype not in self._elements:
            self._elements[dtype] = ir.Type.parse(MLIR_NAMES[dtype])
        return self._elements[dtype]

    def type(self, dtype: torch.dtype, shape: Sequence[int]) -> ir.Type:
        """The ranked tensor type, made once per module."""
        key = (dtype, tuple(shape))
        if key not in self._types:
            self._types[key] = ir.RankedTensorType.get(list(shape), self.element_type(dtype))
        return self._types[key]

    def constant(self, number: Scalar, dtype: torch.dtype, shape: Sequence[int] = ()) -> Tensor:
        """A splat of one Python number, rounded once to ``dtype``."""
        element = self.element_type(dtype)
        if is_float(dtype):
            attribute: ir.Attribute = ir.FloatAttr.get(element, _rounded(float(number), dtype))
        elif dtype is torch.bool:
            attribute = ir.IntegerAttr.get(element, int(bool(number)))
        else:
            attribute = ir.IntegerAttr.get(element, _wrapped(int(number), dtype))
        splat = ir.DenseElementsAttr.get_splat(self.type(dtype, shape), attribute)
        return Tensor(stablehlo.constant(splat), dtype, tuple(shape))

    def number(self, number: Scalar, dtype: torch.dtype, shape: Sequence[int] = ()) -> Tensor:
        """A splat of a number from the model; in exact numerics no sum of constants can be folded around it."""
        if not self.options.exact or not is_float(dtype):
            return self.constant(number, dtype, shape)
        return self.expand(self.barrier(self.constant(number, dtype)), shape)

    def constant_tensor(self, tensor: torch.Tensor) -> Tensor:
        """A literal copy of a small tensor."""
        contiguous = tensor.detach().cpu().contiguous()
        shape = tuple(tensor.shape)
        raw = np.frombuffer(contiguous.reshape(-1).view(torch.uint8).numpy().tobytes(), dtype=f"V{tensor.itemsize}")
        unsigned: Any = raw.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[tensor.itemsize])
        if tensor.dtype is torch.bool:
            unsigned = unsigned.astype(np.bool_)
        attribute = ir.DenseElementsAttr.get(unsigned, type=self.element_type(tensor.dtype), shape=list(shape))
        return Tensor(stablehlo.constant(attribute), tensor.dtype, shape)

    def integer_pairs(self, pairs: Sequence[tuple[int, int]]) -> ir.DenseElementsAttr:
        """An attribute int64 [len(pairs), 2], as windows describe their padding."""
        numbers: Any = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return ir.DenseElementsAttr.get(numbers)

    def iota(self, dtype: torch.dtype, shape: Sequence[int], dimension: int) -> Tensor:
        """Each element's index along ``dimension``."""
        return Tensor(stablehlo.iota(self.type(dtype, shape), dimension), dtype, tuple(shape))

    # conversions and shapes

    def convert(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Change the element type with PyTorch's rules (see ``cast.py`` for the fp8 saturation)."""
        if x.dtype is dtype:
            return x
        if dtype is torch.bool:
            return self.compare("NE", x, self.constant(0, x.dtype, x.shape))
        if x.dtype is torch.bool and is_float(dtype):
            # Not a conversion: XLA makes a choice of a product with one, and 0 * inf is not 0.
            one, zero = (self.constant(number, dtype, x.shape) for number in (1, 0))
            return self.select(x, one, zero)
        through_float32 = computation_dtype(dtype) is not dtype or computation_dtype(x.dtype) is not x.dtype
        if through_float32 and torch.float32 not in (x.dtype, dtype):
            return self.convert(self.convert(x, torch.float32), dtype)
        if dtype in SATURATING:
            x = self.clamp(x, -SATURATING[dtype], SATURATING[dtype])
        narrow = x if x.dtype is torch.bfloat16 and dtype is torch.float32 else None
        if self.options.pin_bfloat16 and x.dtype is torch.float32 and dtype is torch.bfloat16:
            x = Tensor(stablehlo.reduce_precision(x.value, 8, 7), x.dtype, x.shape)
        return Tensor(stablehlo.convert(self.type(dtype, x.shape), x.value), dtype, x.shape, narrow=narrow)

    def bitcast(self, x: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
        """Reinterpret the bytes; the last dimension absorbs a change of element size."""
        return Tensor(stablehlo.bitcast_convert(self.type(dtype, shape), x.value), dtype, tuple(shape))

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Same elements in row-major order."""
        if x.shape == tuple(shape):
            return x
        return Tensor(stablehlo.reshape(self.type(x.dtype, shape), x.value), x.dtype, tuple(shape))

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """Permute dimensions; the result remembers where it came from."""
        order = tuple(permutation)
        if order == tuple(range(x.rank)):
            return x
        shape = tuple(x.shape[axis] for axis in order)
        return Tensor(stablehlo.transpose(x.value, list(order)), x.dtype, shape, x, order)

    def broadcast(self, x: Tensor, shape: Sequence[int], dimensions: Sequence[int]) -> Tensor:
        """Place dimension i of ``x`` at ``dimensions[i]`` of ``shape`` and repeat along the others."""
        value = stablehlo.broadcast_in_dim(self.type(x.dtype, shape), x.value, list(dimensions))
        return Tensor(value, x.dtype, tuple(shape))

    def expand(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Broadcast with right-aligned dimensions."""
        if x.shape == tuple(shape):
            return x
        return self.broadcast(x, shape, range(len(shape) - x.rank, len(shape)))

    def slice(self, x: Tensor, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]) -> Tensor:
        """Static slice with exclusive limits."""
        shape = tuple(
            -(-(limit - start) // stride) for start, limit, stride in zip(starts, limits, strides, strict=True)
        )
        if shape == x.shape:
            return x
        return Tensor(stablehlo.slice(x.value, list(starts), list(limits), list(strides)), x.dtype, shape)

    def slice_axis(self, x: Tensor, axis: int, start: int, limit: int, stride: int = 1) -> Tensor:
        """Slice one dimension."""
        starts, limits, strides = [0] * x.rank, list(x.shape), [1] * x.rank
        starts[axis], limits[axis], strides[axis] = start, limit, stride
        return self.slice(x, starts, limits, strides)

    def select_axis(self, x: Tensor, axis: int, index: int) -> Tensor:
        """Take one index of a dimension and drop that dimension."""
        taken = self.slice_axis(x, axis, index, index + 1)
        return self.reshape(taken, x.shape[:axis] + x.shape[axis + 1 :])

    def concatenate(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Join along one dimension."""
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return Tensor(stablehlo.concatenate([part.value for part in parts], axis), parts[0].dtype, tuple(shape))

    def pad(self, x: Tensor, low: Sequence[int], high: Sequence[int], fill: Scalar) -> Tensor:
        """Pad with a constant; negative amounts crop."""
        shape = tuple(size + before + after for size, before, after in zip(x.shape, low, high, strict=True))
        value = self.constant(fill, x.dtype).value
        return Tensor(stablehlo.pad(x.value, value, list(low), list(high), [0] * x.rank), x.dtype, shape)

    # elementwise

    def operand(self, x: Operand, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
        """A tensor or number as a tensor of this type."""
        if not isinstance(x, Tensor):
            return self.number(x, dtype, shape)
        return self.expand(self.convert(x, dtype), shape)

    def unary(self, operation: Callable[..., Any], x: Tensor) -> Tensor:
        """Apply an operation that keeps the type."""
        return Tensor(operation(x.value), x.dtype, x.shape)

    def rounded_once(self, operation: Callable[..., Any], x: Tensor) -> Tensor:
        """A root or transcendental function; in exact numerics computed in float64, so that the result is the nearest.

        The pin keeps compilers from narrowing the computation to float32 again.
        """
        if not self.options.exact or x.dtype is not torch.float32:
            return self.unary(operation, x)
        wide = self.unary(operation, self.convert(x, torch.float64))
        return self.convert(self.pinned(wide), torch.float32)

    def multiply_add(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        """x * y + z, where eager PyTorch uses a fused multiply-add; in exact numerics through float64."""
        if not self.options.exact or x.dtype is not torch.float32:
            return self.add(self.multiply(x, y), z)
        wide_x, wide_y, wide_z = (self.convert(one, torch.float64) for one in (x, y, z))
        return self.convert(self.pinned(self.add(self.multiply(wide_x, wide_y), wide_z)), torch.float32)

    def binary(self, operation: Callable[..., Any], x: Tensor, y: Tensor) -> Tensor:
        """Apply an operation on two tensors of one type."""
        return Tensor(operation(x.value, y.value), x.dtype, x.shape)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y."""
        return self.binary(stablehlo.add, x, y)

    def is_zero(self, x: Tensor) -> bool:
        """Whether the value is written as the constant 0.0, of any shape."""
        value = x.value
        moves = (stablehlo.BroadcastInDimOp, stablehlo.ConvertOp, stablehlo.OptimizationBarrierOp)
        while isinstance(value, ir.OpResult) and isinstance(value.owner, moves):
            value = value.owner.operands[0]
        if not is_float(x.dtype) or not isinstance(value, ir.OpResult):
            return False
        literal = value.owner.value if isinstance(value.owner, stablehlo.ConstantOp) else None
        if not isinstance(literal, ir.DenseElementsAttr) or not literal.is_splat:
            return False
        number = ir.FloatAttr(literal.get_splat_value()).value
        return number == 0 and math.copysign(1, number) > 0

    def add_zero(self, x: Tensor) -> Tensor:
        """x + 0.0, which is x but for -0: compilers take it for x."""
        if not is_float(x.dtype):
            return x
        zero = self.constant(0.0, x.dtype, x.shape)
        return self.select(self.compare("EQ", x, zero), zero, x)

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y; in exact numerics the product is kept out of fused multiply-adds."""
        return self.pinned(self.binary(stablehlo.multiply, x, y))

    def divide(self, x: Tensor, y: Tensor) -> Tensor:
        """x / y; in exact numerics never by the reciprocal, nor joined with another quotient."""
        return self.pinned(self.binary(stablehlo.divide, x, self.barrier(y) if is_float(y.dtype) else y))

    def barrier(self, x: Tensor) -> Tensor:
        """Hide a value's origin from algebraic rewrites, in exact numerics."""
        if not self.options.exact:
            return x
        return Tensor(stablehlo.OptimizationBarrierOp([x.value]).results[0], x.dtype, x.shape)

    def pinned(self, x: Tensor) -> Tensor:
        """Xor the bits of a float with the run-time zero, in exact numerics.

        Nothing less stops LLVM from contracting a product and a sum to a fused multiply-add.
        """
        bits = {torch.float32: torch.int32, torch.float64: torch.int64}.get(x.dtype)
        if self.runtime_zero is None or bits is None:
            return x
        zero = self.expand(self.convert(Tensor(self.runtime_zero, torch.int32, ()), bits), x.shape)
        return self.bitcast(self.binary(stablehlo.xor, self.bitcast(x, bits, x.shape), zero), x.dtype, x.shape)

    def compare(self, direction: str, x: Tensor, y: Tensor, total_order: bool = False) -> Tensor:
        """Compare two tensors of one type (direction EQ NE LT LE GT GE)."""
        kind = None
        if total_order and is_float(x.dtype):
            kind = stablehlo.ComparisonTypeAttr.get("TOTALORDER")
        value = stablehlo.compare(x.value, y.value, stablehlo.ComparisonDirectionAttr.get(direction), compare_type=kind)
        return Tensor(value, torch.bool, x.shape)

    def select(self, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """x where the condition holds, else y."""
        return Tensor(stablehlo.select(condition.value, x.value, y.value), x.dtype, x.shape)

    def clamp(self, x: Tensor, low: float, high: float) -> Tensor:
        """Limit to [low, high]; NaN stays NaN."""
        lower, upper = self.constant(low, x.dtype, x.shape), self.constant(high, x.dtype, x.shape)
        return self.binary(stablehlo.minimum, self.binary(stablehlo.maximum, x, lower), upper)

    # reductions

    def reduce(self, x: Tensor, axes: Sequence[int], operation: type[ir.OpView], initial: Scalar) -> Tensor:
        """Fold dimensions away with an associative operation, in any order the compiler likes."""
        shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
        result = stablehlo.ReduceOp(
            [self.type(x.dtype, shape)], [x.value], [self.constant(initial, x.dtype).value], sorted(axes)
        )
        element = self.type(x.dtype, ())
        block = result.regions[0].blocks.append(element, element)
        with ir.InsertionPoint(block):
            folded = operation(block.arguments[0], block.arguments[1])
            stablehlo.return_([folded.result])
        return Tensor(result.results[0], x.dtype, shape)


def _rounded(number: float, dtype: torch.dtype) -> float:
    return _nearest(number, dtype) if number and math.isfinite(number) else number


@cache
def _nearest(number: float, dtype: torch.dtype) -> float:
    return float(torch.tensor(number, dtype=torch.float64).to(dtype))


def _wrapped(number: int, dtype: torch.dtype) -> int:
    bits = 8 * dtype.itemsize
    wrapped = number % (1 << bits)
    return wrapped - (1 << bits) if dtype.is_signed and wrapped >= 1 << (bits - 1) else wrapped
