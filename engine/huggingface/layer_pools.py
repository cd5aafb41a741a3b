"""The memory of one layer's cache: pools with a row for each request, and one more that padding writes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ...runtime.memory import aligned_empty


@dataclass(frozen=True)
class TensorForm:
    """What one request keeps in one tensor, without the number of tokens."""

    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class LayerForm:
    """What a layer keeps of one request.

    Attributes:
        keys, values: [heads, width] of a token; None for a layer without attention.
        window: how many of the last tokens it keeps; None for all.
        convolutions, recurrences: states by the number that the layer gives them.
    """

    keys: TensorForm | None = None
    values: TensorForm | None = None
    window: int | None = None
    convolutions: Mapping[int, TensorForm] = field(default_factory=dict)
    recurrences: Mapping[int, TensorForm] = field(default_factory=dict)


class LayerPools(nn.Module):
    """Buffers ``keys`` and ``values`` [rows, places, heads, width], ``convolution_0`` and ``recurrence_0`` [rows, ...].

    A layer with a window that is shorter than ``max_context`` has as many places as the window, used as a ring.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, form: LayerForm, rows: int, max_context: int):
        super().__init__()
        self.form = form
        self.max_context = max_context
        self.is_sliding = form.window is not None
        places = min(form.window or max_context, max_context)
        for name, one in (("keys", form.keys), ("values", form.values)):
            if one is not None:
                self._add(name, (rows, places, *one.shape), one.dtype)
        for kind, forms in (("convolution", form.convolutions), ("recurrence", form.recurrences)):
            for index, one in forms.items():
                self._add(f"{kind}_{index}", (rows, *one.shape), one.dtype)

    @property
    def convolutions(self) -> dict[int, Tensor]:
        """The pool of each convolution state."""
        return {index: self.get_buffer(f"convolution_{index}") for index in self.form.convolutions}

    @property
    def recurrences(self) -> dict[int, Tensor]:
        """The pool of each recurrent state."""
        return {index: self.get_buffer(f"recurrence_{index}") for index in self.form.recurrences}

    def _add(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.register_buffer(name, aligned_empty(shape, dtype).zero_(), persistent=False)
