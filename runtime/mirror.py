"""Keeping memory of a device in step with torch tensors, where the two are not the same memory.

Weights and slots are written through torch and follow by themselves. Caches are written by both sides: programs update
the device's, so torch's are out of date after each step, until they are read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import InputError
from .devices.base import Buffer, Device


class Mirror:
    """The buffers of a runner on a device with memory of its own."""

    def __init__(self, device: Device, weights: Iterable[Buffer], caches: Mapping[str, Buffer]):
        """``caches`` by the name of their tensor."""
        self._device = device
        self._weights = tuple(weights)
        self._caches = caches

    def push(self, slots: Iterable[Buffer]) -> None:
        """Copy to the device what torch wrote to slots and weights.

        Raises:
            InputError: torch wrote to a cache, which the device would not see.
        """
        outdated = [name for name, buffer in self._caches.items() if self._device.is_outdated(buffer)]
        if outdated:
            raise InputError(
                f"caches {outdated} were changed in the model's tensors, but the device has its own: call the runner's "
                "write_caches() after such changes, and read_caches() before them"
            )
        for buffer in (*slots, *self._weights):
            if self._device.is_outdated(buffer):
                self._device.refresh(buffer)

    def read_caches(self) -> None:
        """Copy every cache from the device to its tensor."""
        for buffer in self._caches.values():
            self._device.fetch(buffer)

    def write_caches(self) -> None:
        """Copy every cache from its tensor to the device."""
        for buffer in self._caches.values():
            self._device.refresh(buffer)
