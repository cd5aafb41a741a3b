"""The Neuron runtime of this process, between ``nrt_init`` and ``nrt_close``.

Cores are reserved by the process that initialises the runtime, until it ends or closes it; there is one runtime a
process. A child made by ``fork`` has none.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ....errors import DeviceError
from .library import WITHOUT_FRAMEWORK, InstanceInfo, load_library
from .status import SUCCESS, Status, status_of

TARGETS: dict[int, str] = {
    **dict.fromkeys((2, 3, 4), "trn1"),
    **dict.fromkeys((5, 6, 8, 9, 10, 11, 12, 13), "trn2"),
    **dict.fromkeys((14, 15), "trn3"),
}
"""Whose programs an instance family runs: nrt.h, ``NRT_INSTANCE_*``. Inferentia 2 has the cores of Trainium 1."""


class NrtRuntime:
    """Calls of libnrt, and what they left allocated. Made by ``open_runtime``.

    Attributes:
        target: whose programs this machine runs.
        core_count: logical cores that this process sees.
        logical_core_size: physical cores of each of them; None if the runtime does not say.
    """

    def __init__(self, path: Path | None = None):
        """Raises DeviceError if the runtime is missing, refuses, or the machine is of an unknown family."""
        self._library = load_library(path)
        self._process = os.getpid()
        self._is_open = False
        self._final: Status | None = None
        self._numbers = itertools.count()
        self._owned: dict[int, weakref.finalize] = {}
        status = self._library.nrt_init(WITHOUT_FRAMEWORK, b"", b"")
        if status != SUCCESS:
            raise DeviceError(f"nrt_init failed: {status_of(status)}")
        self._is_open = True
        try:
            self.core_count = self._number("nrt_get_visible_vnc_count")
            self.logical_core_size = self._number("nec_get_virtual_core_size") or None
            self.target = self._find_target()
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)

    @property
    def is_open(self) -> bool:
        """Whether this process may call the runtime."""
        return self._is_open and os.getpid() == self._process

    def call(self, function: str, *arguments: Any, of: str = "") -> None:
        """Call a function that returns a status; ``of`` names for people what it is called for.

        Raises:
            DeviceError: the status by name, what it means and what to do; or the runtime is closed, or an earlier
                status left it unusable.
        """
        self._check_usable(function)
        status = getattr(self._library, function)(*arguments)
        if status != SUCCESS:
            meaning = status_of(status)
            if meaning.is_final:
                self._final = meaning
            raise DeviceError(f"{function}{f' of {of}' if of else ''} failed: {meaning}")

    def make(self, function: str, *arguments: Any, of: str = "") -> ctypes.c_void_p:
        """Call a function whose last argument takes the handle that it makes."""
        handle = ctypes.c_void_p()
        self.call(function, *arguments, ctypes.byref(handle), of=of)
        return handle

    def own(self, owner: object, release: Callable[[Any], Any], *kept: object) -> None:
        """Have ``release(library)`` called when ``owner`` is collected or the runtime closes, never after that.

        Objects in ``kept`` live until then: what the runtime needs for as long as it has the owner's handle.
        """
        number = next(self._numbers)
        finalizer = weakref.finalize(owner, _release, self, number, release, kept)
        finalizer.atexit = False
        self._owned[number] = finalizer

    def close(self) -> None:
        """Free everything, newest first, and give the cores back; does nothing the second time or in a fork."""
        if not self.is_open:
            return
        for finalizer in list(self._owned.values())[::-1]:
            finalizer()
        self._is_open = False
        self._library.nrt_close()
        atexit.unregister(self.close)

    def _check_usable(self, function: str) -> None:
        if not self.is_open:
            reason = "is closed" if os.getpid() == self._process else "was initialised before a fork: spawn processes"
            raise DeviceError(f"{function}: the Neuron runtime of this process {reason}")
        if self._final is not None:
            raise DeviceError(f"{function}: the Neuron runtime is unusable since {self._final}")

    def _number(self, function: str) -> int:
        number = ctypes.c_uint32()
        self.call(function, ctypes.byref(number))
        return number.value

    def _find_target(self) -> str:
        info = InstanceInfo()
        self.call("nrt_get_instance_info", ctypes.byref(info), ctypes.sizeof(info))
        if info.family not in TARGETS:
            raise DeviceError(
                f"instance family {info.family} ({info.arch_name.decode(errors='replace')}) is not known here: "
                f"programs are made for {', '.join(sorted(set(TARGETS.values())))}"
            )
        return TARGETS[info.family]


def _release(runtime: NrtRuntime, number: int, release: Callable[[Any], Any], kept: tuple[object, ...]) -> None:
    runtime._owned.pop(number, None)
    if runtime.is_open:
        release(runtime._library)


_LOCK = threading.Lock()
_opened: NrtRuntime | None = None


def open_runtime(path: Path | None = None) -> NrtRuntime:
    """The runtime of this process, initialised when it is first asked for and again after it was closed.

    Raises:
        DeviceError: see ``NrtRuntime``.
    """
    global _opened
    with _LOCK:
        if _opened is None or not _opened.is_open:
            _opened = NrtRuntime(path)
        return _opened
