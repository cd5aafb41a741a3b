"""Programs of one graph, one for each kind of call.

Dynamo compiles a graph once and calls it whenever its guards hold. They do not say all that a static program
depends on: sizes and numbers that Dynamo left open, and which memory updated inputs share.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from torch._dynamo.convert_frame import compile_lock

Compiled = Callable[..., Any]

MAXIMUM_PROGRAMS = 64


class CallPrograms:
    """Calls the program for a kind of call, and compiles it when the kind is new.

    The programs used last are kept. Threads that make the same new call wait for one compilation.

    Args:
        compile_call: makes a program for real inputs.
        kind_of: what tells calls apart, of their inputs.
        what: what differs between the kinds, for the warnings.
        maximum: how many programs are kept.
    """

    def __init__(
        self,
        compile_call: Callable[[Sequence[Any]], Compiled],
        kind_of: Callable[[Sequence[Any]], Hashable],
        what: str,
        maximum: int = MAXIMUM_PROGRAMS,
    ):
        self._compile = compile_call
        self._kind_of = kind_of
        self._what = what
        self._maximum = maximum
        self._programs: OrderedDict[Hashable, Compiled] = OrderedDict()
        self._lock = threading.Lock()
        self._said_full = False

    def __call__(self, *inputs: Any) -> Any:
        """Run the program for ``inputs``; raises what compiling it raises."""
        return self._program(inputs)(*inputs)

    def add(self, inputs: Sequence[Any], program: Compiled) -> None:
        """Keep ``program`` for calls like ``inputs``."""
        with self._lock:
            self._programs[self._kind_of(inputs)] = program
            if len(self._programs) <= self._maximum:
                return
            self._programs.popitem(last=False)
            said, self._said_full = self._said_full, True
        if not said:
            warnings.warn(
                f"a graph met more than {self._maximum} kinds of {self._what}: it keeps the programs used last, and "
                "compiles others again. Pad to fewer sizes, or pass changing numbers as tensors",
                stacklevel=2,
            )

    def _program(self, inputs: Sequence[Any]) -> Compiled:
        kind = self._kind_of(inputs)
        program = self._known(kind)
        if program is not None:
            return program
        with compile_lock:
            program = self._known(kind)
            if program is None:
                program = self._compile(inputs)
                self.add(inputs, program)
            return program

    def _known(self, kind: Hashable) -> Compiled | None:
        with self._lock:
            program = self._programs.get(kind)
            if program is not None:
                self._programs.move_to_end(kind)
            return program
