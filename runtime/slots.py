"""The inputs of a decode step: declared slots and their static buffers.

A slot is one tensor with a row per request, ``[batch, *row_shape]``. A program has a fixed
batch size, so a smaller live batch leaves padded rows behind it. What those rows hold is the
slot's padding policy. A slot whose *values index something* (positions, cache rows, block
tables) must declare a value that is safe to index with; forgetting it is an error at
construction, never stale data from an earlier and larger batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .dtype_names import dtype_named, name_of
from .memory import aligned_empty


@dataclass(frozen=True)
class PaddingPolicy:
    """Padded rows are filled with ``value``."""

    value: int | float | bool

    @classmethod
    def fill(cls, value: int | float | bool) -> PaddingPolicy:
        """Padded rows hold ``value``."""
        return cls(value)


ZERO = PaddingPolicy(0)


@dataclass(frozen=True)
class SlotSpec:
    """One input of a decode step: ``[batch, *row_shape]`` of ``dtype``.

    Attributes:
        name: keyword of the model's ``forward``.
        dtype: exact dtype of the tensor; nothing is converted.
        row_shape: shape of one request's row, ``()`` for one number per request.
        padding: value of padded rows; may be left out for slots that index nothing (zero).
        index: the values address memory, so padded rows need a value that is safe to address.
        maximum: the values are in [0, maximum]. Steps are not checked for it; programs rely on it, those for devices
            to address only memory that is there and to compute int64 values in 32 bits.
    """

    name: str
    dtype: torch.dtype
    row_shape: tuple[int, ...] = ()
    padding: PaddingPolicy | None = None
    index: bool = False
    maximum: int | None = None

    def __post_init__(self) -> None:
        if self.index and self.padding is None:
            raise InputError(
                f"slot {self.name!r} holds indices but declares no padding: name the value that is safe to address, "
                f"such as PaddingPolicy.fill(scratch_row)"
            )
        if self.index and (self.dtype.is_floating_point or self.dtype.is_complex):
            raise InputError(f"slot {self.name!r} holds indices, so its dtype must be an integer, not {self.dtype}")
        if self.maximum is not None:
            self._check_maximum(self.maximum)

    def _check_maximum(self, maximum: int) -> None:
        if self.dtype.is_floating_point or self.dtype.is_complex:
            raise InputError(f"slot {self.name!r} declares a maximum, which integers have, not {self.dtype}")
        if not 0 <= self.pad_value <= maximum:
            raise InputError(
                f"slot {self.name!r} declares values in [0, {maximum}] and pads with {self.pad_value}: pad with a "
                "value in that range"
            )

    @property
    def pad_value(self) -> int | float | bool:
        """The value of padded rows."""
        return ZERO.value if self.padding is None else self.padding.value

    def to_json(self) -> dict[str, object]:
        """A JSON object from which ``from_json`` makes an equal slot."""
        padding = None if self.padding is None else self.padding.value
        return {
            "name": self.name,
            "dtype": name_of(self.dtype),
            "row_shape": list(self.row_shape),
            "padding": padding,
            "index": self.index,
            "maximum": self.maximum,
        }

    @classmethod
    def from_json(cls, data: Mapping) -> SlotSpec:
        """The slot that ``to_json`` described; raises KeyError or ValueError for another object."""
        padding = None if data["padding"] is None else PaddingPolicy(data["padding"])
        dtype, row_shape = dtype_named(data["dtype"]), tuple(data["row_shape"])
        return cls(data["name"], dtype, row_shape, padding, data["index"], data["maximum"])


def padding_inputs(slots: Sequence[SlotSpec], rows: int) -> dict[str, Tensor]:
    """A call's keyword tensors, each ``[rows, *row_shape]``, in which every row is padding."""
    return {slot.name: torch.full((rows, *slot.row_shape), slot.pad_value, dtype=slot.dtype) for slot in slots}


class SlotBuffers:
    """Static buffers of all slots at the largest batch size; smaller programs read their leading rows.

    ``carriers`` has the dtype of a slot's buffer where programs take another than the slot's own: the same bits if it
    is as wide, the same values if it is narrower.
    """

    def __init__(self, specs: Sequence[SlotSpec], maximum: int, carriers: Mapping[str, torch.dtype] | None = None):
        names = [spec.name for spec in specs]
        if len(set(names)) != len(names):
            raise InputError(f"two slots share a name: {sorted(names)}")
        if not specs:
            raise InputError("a decode step needs at least one slot: its batch size is read from the slots")
        self.specs = tuple(specs)
        self.maximum = maximum
        self._carriers = {spec.name: (carriers or {}).get(spec.name, spec.dtype) for spec in specs}
        self._buffers = {spec.name: self._allocate(spec) for spec in specs}
        self._heads: dict[int, list[tuple[str, torch.dtype, tuple[int, ...], Tensor]]] = {}
        self._tails: dict[tuple[int, int], list[tuple[Tensor, int | float | bool]]] = {}

    def view(self, name: str, size: int) -> Tensor:
        """The leading ``size`` rows of a slot's buffer as programs take it, ``[size, *row_shape]``."""
        rows, carrier = self._buffers[name][:size], self._carriers[name]
        return rows.view(carrier) if carrier.itemsize == rows.dtype.itemsize else rows

    def carrier(self, name: str) -> torch.dtype:
        """The dtype of ``view``."""
        return self._carriers[name]

    def live_rows(self, inputs: Mapping[str, Any]) -> int:
        """Rows of a step's inputs, read from the first slot; raises InputError when that slot cannot tell."""
        spec = self.specs[0]
        tensor: Any = inputs.get(spec.name)
        if not isinstance(tensor, Tensor) or tensor.dim() == 0:
            raise InputError(self._describe(inputs, None))
        return tensor.shape[0]

    def check(self, inputs: Mapping[str, Any], live: int) -> None:
        """Raise InputError unless ``inputs`` are exactly the declared slots with ``live`` rows each."""
        if len(inputs) != len(self.specs) or live < 1:
            raise InputError(self._describe(inputs, live))
        for name, dtype, shape, _ in self._live_heads(live):
            tensor: Any = inputs.get(name)
            if not isinstance(tensor, Tensor) or tensor.dtype is not dtype or tensor.shape != shape:
                raise InputError(self._describe(inputs, live))

    def load(self, inputs: Mapping[str, Any], live: int, size: int) -> None:
        """Copy ``live`` checked rows into the buffers and reset the rows from ``live`` to ``size``."""
        for name, _, _, head in self._live_heads(live):
            head.copy_(inputs[name])
        self.reset(live, size)

    def reset(self, live: int, size: int) -> None:
        """Fill the rows from ``live`` to ``size`` of every slot with its padding."""
        if live == size:
            return
        tails = self._tails.get((live, size))
        if tails is None:
            tails = [(self._buffers[spec.name][live:size], spec.pad_value) for spec in self.specs]
            self._tails[live, size] = tails
        for tail, value in tails:
            tail.fill_(value)

    def _live_heads(self, live: int) -> list[tuple[str, torch.dtype, tuple[int, ...], Tensor]]:
        heads = self._heads.get(live)
        if heads is None:
            heads = [
                (spec.name, spec.dtype, (live, *spec.row_shape), self._buffers[spec.name][:live]) for spec in self.specs
            ]
            if live <= self.maximum:
                self._heads[live] = heads
        return heads

    def _allocate(self, spec: SlotSpec) -> Tensor:
        carrier = self._carriers[spec.name]
        dtype = spec.dtype if carrier.itemsize == spec.dtype.itemsize else carrier
        return aligned_empty((self.maximum, *spec.row_shape), dtype).fill_(spec.pad_value)

    def _describe(self, inputs: Mapping[str, Any], live: int | None) -> str:
        problems = [f"unknown input {name!r}" for name in inputs if name not in self._buffers]
        for spec in self.specs:
            tensor: Any = inputs.get(spec.name)
            expected = f"{spec.dtype} [{live or 'batch'}{''.join(f', {n}' for n in spec.row_shape)}]"
            if tensor is None:
                problems.append(f"missing input {spec.name!r}: expected {expected}")
            elif not isinstance(tensor, Tensor):
                problems.append(f"input {spec.name!r} is a {type(tensor).__name__}: expected a tensor {expected}")
            elif live is None or tensor.dtype is not spec.dtype or tensor.shape != (live, *spec.row_shape):
                problems.append(f"input {spec.name!r} is {tensor.dtype} {list(tensor.shape)}: expected {expected}")
        if live == 0:
            problems.append("the batch is empty: a decode step needs at least one row")
        return "; ".join(problems)
