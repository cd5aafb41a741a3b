"""Where in the model's source an FX node came from."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import torch
from torch import fx

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH_ROOT = str(Path(inspect.getfile(torch)).parent)
_PACKAGE_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A file, relative to the package or the working directory when it lies inside, and a line."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def source_line(node: fx.Node) -> SourceLine | None:
    """The innermost frame of the node's stack trace outside PyTorch itself, or None without a trace."""
    return _line_of(node.stack_trace or "")


def stack_trace_of(line: SourceLine) -> str:
    """A stack trace whose only frame is at this line of the package, for nodes that have lost theirs."""
    return f'File "{_PACKAGE_ROOT / line.file}", line {line.line}'


@lru_cache(maxsize=4096)
def _line_of(stack_trace: str) -> SourceLine | None:
    frames = _FRAME.findall(stack_trace)
    outside = [frame for frame in frames if not frame[0].startswith(_TORCH_ROOT)]
    if not frames:
        return None
    file, line = (outside or frames)[-1]
    return SourceLine(_relative(file), int(line))


@cache
def _relative(file: str) -> str:
    path = Path(file)
    for root in (_PACKAGE_ROOT, Path.cwd()):
        if path.is_relative_to(root):
            return str(path.relative_to(root))
    return path.name
