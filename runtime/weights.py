"""The model's tensors that programs read and update in place, and the watch over their memory.

Programs keep the addresses they were bound with. A tensor that is moved or replaced afterwards
(``.to()``, ``load_state_dict(assign=True)``, a freed and re-made cache) would leave them reading old
memory, so each step compares all addresses first. Copying new values into a tensor is fine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..passes.weight_layout import WeightLayout
from .memory import aligned_empty, is_shareable, shareable_copy

_PIECE = 1 << 22
"""Elements looked at in one go, so that checking a large weight takes little memory."""


def holds_exactly(tensor: Tensor, dtype: torch.dtype) -> bool:
    """Whether a narrower floating point type can represent every value of a tensor; a NaN counts as one it cannot."""
    pieces = tensor.detach().reshape(-1).split(_PIECE)
    return all(torch.equal(piece.to(dtype).to(piece.dtype), piece) for piece in pieces)


class BoundTensors:
    """Named tensors of a module, or of a mapping, and the addresses they had when bound.

    A tensor whose memory a device cannot use (not aligned, not contiguous) is first moved, in its owner, to
    memory that it can.
    """

    def __init__(self, source: torch.nn.Module | Mapping[str, Tensor], names: Iterable[str]):
        self.names = tuple(names)
        places = [_place(source, name) for name in self.names]
        for owner, key in places:
            _make_shareable(owner[key])
        self._owners = [owner for owner, _ in places]
        self._keys = [key for _, key in places]
        self._positions = {name: position for position, name in enumerate(self.names)}
        self._addresses = self._current_addresses()
        self._copies: dict[tuple[str, torch.dtype, WeightLayout | None], _Copy] = {}

    def carried(self, name: str, carrier: torch.dtype, layout: WeightLayout | None = None) -> Tensor:
        """A tensor as a program takes it.

        Seen as another type of equal width, or copied to a narrower one or to another layout. A copy follows later
        changes of its source through ``refresh_copies``.
        """
        tensor = self[name].detach()
        if layout is None and carrier.itemsize == tensor.dtype.itemsize:
            return tensor.view(carrier)
        key = name, carrier, layout
        if key not in self._copies:
            self._copies[key] = _Copy(aligned_empty(tensor.shape if layout is None else layout.size, carrier), -1)
            self.refresh_copies()
        return self._copies[key].copy

    def refresh_copies(self) -> None:
        """Bring copies up to date; raises InputError if a new value does not fit a narrower type."""
        for (name, carrier, layout), entry in self._copies.items():
            source = self[name]
            if source._version != entry.version:
                same_width = carrier.itemsize == source.dtype.itemsize
                if not same_width and not holds_exactly(source, carrier):
                    raise InputError(
                        f"{name!r} holds values that {carrier} cannot, but the programs were compiled for weights "
                        "whose values it can: compile again with these weights"
                    )
                values = source.detach().view(carrier) if same_width else source.detach()
                entry.copy.copy_(values if layout is None else layout.arrange(values))
                entry.version = source._version

    def __getitem__(self, name: str) -> Tensor:
        position = self._positions[name]
        return self._owners[position][self._keys[position]]

    def check_unmoved(self) -> None:
        """Raise InputError naming the first tensor whose memory is no longer where programs were bound to it."""
        current = self._current_addresses()
        if current != self._addresses:
            moved = next(
                name for name, new, old in zip(self.names, current, self._addresses, strict=True) if new != old
            )
            raise InputError(
                f"{moved!r} was re-allocated after the runner was made, so compiled programs would use its old memory: "
                "copy new values into the old tensor with copy_, or compile again"
            )

    def _current_addresses(self) -> list[int]:
        return list(map(Tensor.data_ptr, map(getitem, self._owners, self._keys)))


@dataclass
class _Copy:
    copy: Tensor
    version: int


def _place(source: torch.nn.Module | Mapping[str, Tensor], name: str) -> tuple[Mapping[str, Any], str]:
    """The dictionary that holds a tensor, and its key there."""
    owner, key = _module_place(source, name) if isinstance(source, torch.nn.Module) else (source, name)
    if not isinstance(owner.get(key), Tensor):
        raise InputError(f"the model has no tensor {name!r}, which the compiled programs read")
    return owner, key


def _module_place(module: torch.nn.Module, name: str) -> tuple[Mapping[str, Any], str]:
    path, _, key = name.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError as error:
        raise InputError(f"the model has no tensor {name!r}: {error}") from error
    return (owner._parameters if key in owner._parameters else owner._buffers), key


def _make_shareable(tensor: Tensor) -> None:
    if not is_shareable(tensor):
        tensor.data = shareable_copy(tensor)
