"""stub"""

from __future__ import annotations

from torch import fx


def graph_python(module: fx.GraphModule) -> str:
    raise NotImplementedError
