"""What operators do to complex numbers, told by their real and imaginary parts.

The rules are those of PyTorch's ``ComplexTensor``; here are the ones that it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.complex_tensor import ComplexTensor
from torch._subclasses.complex_tensor._ops.common import COMPLEX_TO_REAL, lookup_complex
from torch.utils._pytree import tree_map

from .fourier import half_to_whole, scale_of, transform_all

aten = torch.ops.aten


def apply_by_parts(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a complex operator; complex tensors, and complex results, are ``ComplexTensor``.

    Raises:
        NotImplementedError: the operator has no rule.
    """
    if func in RULES:
        return RULES[func](*args, **kwargs)
    rule = lookup_complex(func)
    if rule is None:
        raise NotImplementedError(f"{func} has no rule for complex numbers")
    args, kwargs = tree_map(_number_as_tensor, (tuple(args), kwargs))
    return rule(*args, **kwargs)


def parts_of(value: Any) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts; those of a real tensor are itself and zeros."""
    return (value.re, value.im) if isinstance(value, ComplexTensor) else (value, torch.zeros_like(value))


def _number_as_tensor(argument: Any) -> Any:
    if not isinstance(argument, complex):
        return argument
    return ComplexTensor(torch.full((), argument.real), torch.full((), argument.imag))


def _unbind(x: Any, dim: int = 0) -> list[ComplexTensor]:
    return [ComplexTensor(*pair) for pair in zip(*(one.unbind(dim) for one in parts_of(x)), strict=True)]


def _convert(x: Any, *, dtype: torch.dtype | None = None, **placement: Any) -> Any:
    """A copy in another type: of a complex tensor as a real one, its real part."""
    real, imaginary = parts_of(x)
    wanted = x.dtype if dtype is None else dtype
    if wanted not in COMPLEX_TO_REAL:
        return real.to(wanted)
    return ComplexTensor(real.to(COMPLEX_TO_REAL[wanted]), imaginary.to(COMPLEX_TO_REAL[wanted]))


def _convert_element_type(x: Any, dtype: torch.dtype) -> Any:
    return _convert(x, dtype=dtype)


def _full(size: Sequence[int], value: complex, *, dtype: torch.dtype | None = None, **placement: Any) -> ComplexTensor:
    real = COMPLEX_TO_REAL[dtype or torch.complex64]
    number = complex(value)
    return ComplexTensor(torch.full(size, number.real, dtype=real), torch.full(size, number.imag, dtype=real))


def _scalar_tensor(value: complex, *, dtype: torch.dtype | None = None, **placement: Any) -> ComplexTensor:
    return _full((), value, dtype=dtype)


def _complex(real: Tensor, imaginary: Tensor) -> ComplexTensor:
    return ComplexTensor(*torch.broadcast_tensors(real, imaginary))


def _polar(length: Tensor, angle: Tensor) -> ComplexTensor:
    length, angle = torch.broadcast_tensors(length, angle)
    return ComplexTensor(length * angle.cos(), length * angle.sin())


def _scaled(parts: tuple[Tensor, Tensor], scale: float) -> ComplexTensor:
    return ComplexTensor(parts[0] * scale, parts[1] * scale)


def _fft_complex(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> ComplexTensor:
    parts = transform_all(parts_of(x), dim, forward)
    return _scaled(parts, scale_of(x.shape, dim, normalization))


def _fft_from_real(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> ComplexTensor:
    real, imaginary = transform_all(parts_of(x), dim, True)
    if onesided:
        last, half = dim[-1], x.shape[dim[-1]] // 2 + 1
        real, imaginary = real.narrow(last, 0, half), imaginary.narrow(last, 0, half)
    return _scaled((real, imaginary), scale_of(x.shape, dim, normalization))


def _fft_to_real(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    whole = half_to_whole(transform_all(parts_of(x), dim[:-1], False), dim[-1], last_dim_size)
    real, _ = transform_all(whole, dim[-1:], False)
    return real * scale_of(real.shape, dim, normalization)


RULES: dict[Any, Callable[..., Any]] = {
    aten._to_copy.default: _convert,
    torch.ops.prims.convert_element_type.default: _convert_element_type,
    aten.full.default: _full,
    aten.scalar_tensor.default: _scalar_tensor,
    aten.complex.default: _complex,
    aten.polar.default: _polar,
    aten.unbind.int: _unbind,
    aten._fft_c2c.default: _fft_complex,
    aten._fft_r2c.default: _fft_from_real,
    aten._fft_c2r.default: _fft_to_real,
}
