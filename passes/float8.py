"""Three 8-bit float formats as bytes: how to read a byte as a number, and a number as a byte.

Written with integer operators on float32's bits, which every target has. Equal to ``torch.Tensor.to`` in every
bit, for all bytes and all float32 values; so bfloat16 and float16, which widen exactly, agree too. Only which of the
NaNs a wider NaN is may differ, as it does between eager PyTorch's own loops. e4m3fn and e5m2 follow "FP8 Formats for
Deep Learning" (Micikevicius et al. 2022), e8m0fnu the OCP Microscaling specification 1.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import fx

from .context import emit_before
from .target_facts import E4M3_MAX

aten = torch.ops.aten

_MAGNITUDE = 0x7FFFFFFF
_INFINITY = 0x7F800000
_HALF = 0x400000


@dataclass(frozen=True)
class SignedFormat:
    """Sign, exponent and mantissa in a byte.

    Attributes:
        mantissa: bits of the mantissa.
        bias: of the exponent.
        largest: code of the largest magnitude that a number is rounded to, infinities included.
        first_special: smallest magnitude code that is infinite or no number.
    """

    mantissa: int
    bias: int
    largest: int
    first_special: int

    @property
    def shift(self) -> int:
        """How far the code stands to the left in float32's bits."""
        return 23 - self.mantissa

    @property
    def first_normal(self) -> int:
        """float32 bits of the smallest normal number."""
        return (128 - self.bias) << 23

    @property
    def ulp(self) -> float:
        """The smallest subnormal number, and the distance between them."""
        return 2.0 ** (1 - self.bias - self.mantissa)


SIGNED = {
    torch.float8_e4m3fn: SignedFormat(mantissa=3, bias=7, largest=0x7E, first_special=0x7F),
    torch.float8_e5m2: SignedFormat(mantissa=2, bias=15, largest=0x7C, first_special=0x7C),
}
FORMATS = frozenset({*SIGNED, torch.float8_e8m0fnu})


def decode_before(anchor: fx.Node, codes: fx.Node, source: torch.dtype, result: torch.dtype) -> fx.Node:
    """Emit the numbers, of dtype ``result``, that uint8 ``codes`` stand for in the format ``source``."""
    emit = partial(emit_before, anchor)
    bits = emit(aten._to_copy.default, codes, dtype=torch.int32)
    bits = _power_bits(emit, bits) if source is torch.float8_e8m0fnu else _signed_bits(emit, bits, SIGNED[source])
    number = emit(aten.view.dtype, bits, torch.float32)
    return number if result is torch.float32 else emit(aten._to_copy.default, number, dtype=result)


def encode_before(anchor: fx.Node, value: fx.Node, target: torch.dtype, e4m3_max: float = E4M3_MAX) -> fx.Node:
    """Emit the uint8 codes of ``value`` in the format ``target``: nearest, ties to even, saturated as torch does.

    ``e4m3_max``: where e4m3fn saturates; the format of that name on Trainium 1 and 2 ends at 240.
    """
    emit = partial(emit_before, anchor)
    if value.meta["val"].dtype is not torch.float32:
        value = emit(aten._to_copy.default, value, dtype=torch.float32)
    bits = emit(aten.view.dtype, value, torch.int32)
    if target is torch.float8_e8m0fnu:
        codes = _power_codes(emit, bits)
    else:
        form = SIGNED[target]
        if target is torch.float8_e4m3fn:
            form = replace(form, largest=_code_of(e4m3_max))
        codes = _signed_codes(emit, bits, form)
    return emit(aten._to_copy.default, codes, dtype=torch.uint8)


Emit = Callable[..., fx.Node]


def _code_of(number: float) -> int:
    return int(torch.tensor(number).to(torch.float8_e4m3fn).view(torch.uint8))


def _signed_bits(emit: Emit, codes: fx.Node, form: SignedFormat) -> fx.Node:
    magnitude = emit(aten.bitwise_and.Scalar, codes, 0x7F)
    sign = emit(aten.bitwise_left_shift.Tensor_Scalar, emit(aten.bitwise_and.Scalar, codes, 0x80), 24)
    moved = emit(aten.bitwise_left_shift.Tensor_Scalar, magnitude, form.shift)
    normal = emit(aten.add.Tensor, moved, (127 - form.bias) << 23)
    counted = emit(aten.mul.Tensor, emit(aten._to_copy.default, magnitude, dtype=torch.float32), form.ulp)
    is_small = emit(aten.lt.Scalar, magnitude, 1 << form.mantissa)
    number = emit(aten.where.self, is_small, emit(aten.view.dtype, counted, torch.int32), normal)
    special = emit(aten.bitwise_or.Scalar, moved, _INFINITY)
    is_special = emit(aten.ge.Scalar, magnitude, form.first_special)
    return emit(aten.bitwise_or.Tensor, emit(aten.where.self, is_special, special, number), sign)


def _signed_codes(emit: Emit, bits: fx.Node, form: SignedFormat) -> fx.Node:
    magnitude = emit(aten.bitwise_and.Scalar, bits, _MAGNITUDE)
    sign = emit(aten.bitwise_and.Scalar, emit(aten.bitwise_right_shift.Tensor_Scalar, bits, 24), 0x80)
    is_nan = emit(aten.gt.Scalar, magnitude, _INFINITY)
    finite = emit(aten.clamp.default, magnitude, None, _INFINITY)
    odd = emit(aten.bitwise_and.Scalar, emit(aten.bitwise_right_shift.Tensor_Scalar, finite, form.shift), 1)
    nearest = emit(aten.add.Tensor, emit(aten.add.Tensor, finite, (1 << (form.shift - 1)) - 1), odd)
    moved = emit(aten.bitwise_right_shift.Tensor_Scalar, nearest, form.shift)
    normal = emit(
        aten.clamp.default, emit(aten.sub.Tensor, moved, (127 - form.bias) << form.mantissa), None, form.largest
    )
    is_small = emit(aten.lt.Scalar, magnitude, form.first_normal)
    code = emit(aten.where.self, is_small, _subnormal_codes(emit, finite, form), normal)
    code = emit(aten.where.ScalarSelf, is_nan, 0x7F, code)
    return emit(aten.bitwise_or.Tensor, code, sign)


def _subnormal_codes(emit: Emit, bits: fx.Node, form: SignedFormat) -> fx.Node:
    """Add the power of two whose last place is the format's: float32's own rounding then counts whole ulps."""
    offset = form.ulp * 2**23
    total = emit(aten.add.Tensor, emit(aten.view.dtype, bits, torch.float32), offset)
    offset_bits = torch.tensor(offset).view(torch.int32).item()
    return emit(aten.sub.Tensor, emit(aten.view.dtype, total, torch.int32), offset_bits)


def _power_bits(emit: Emit, codes: fx.Node) -> fx.Node:
    """2 ** (code - 127): the exponent's place, a subnormal for code 0, and torch's NaN for code 255."""
    power = emit(aten.bitwise_left_shift.Tensor_Scalar, codes, 23)
    power = emit(aten.where.ScalarSelf, emit(aten.eq.Scalar, codes, 0), _HALF, power)
    return emit(aten.where.ScalarSelf, emit(aten.eq.Scalar, codes, 255), _INFINITY + 1, power)


def _power_codes(emit: Emit, bits: fx.Node) -> fx.Node:
    """The nearest power of two without the sign; ties go up, but the subnormal tie is code 0 itself."""
    magnitude = emit(aten.bitwise_and.Scalar, bits, _MAGNITUDE)
    exponent = emit(aten.bitwise_right_shift.Tensor_Scalar, magnitude, 23)
    rest = emit(aten.bitwise_and.Scalar, magnitude, (1 << 23) - 1)
    is_subnormal = emit(aten._to_copy.default, emit(aten.eq.Scalar, exponent, 0), dtype=torch.int32)
    up = emit(aten.ge.Scalar, emit(aten.sub.Tensor, rest, is_subnormal), _HALF)
    rounded = emit(aten.add.Tensor, exponent, emit(aten._to_copy.default, up, dtype=torch.int32))
    return emit(aten.clamp.default, rounded, None, 255)
