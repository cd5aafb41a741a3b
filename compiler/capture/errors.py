"""Turn what Dynamo says about a function it cannot capture into an error about the model's source line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import fx

from ...errors import CaptureError
from ...passes.locations import source_line

ADVICE = {
    "Data-dependent branching": "decide with torch.where on tensors, or on a number that is fixed when compiling",
    "Call to `torch._dynamo.graph_break()`": "remove the graph break",
    "Failed to trace builtin operator": "move printing, logging and other Python effects out of the decode step",
    "Dynamic shape operator": "use a mask or torch.where of fixed size",
    "Unsupported Tensor.item() call": "keep the value in a tensor",
}
_DEFAULT_ADVICE = "a decode step must be plain tensor code on static shapes"


def explain_capture_failure(function: Callable[..., Any], error: Exception) -> CaptureError:
    """A CaptureError naming the source line at which Dynamo stopped, its reason and what to write instead."""
    reason = str(getattr(error, "msg", "") or error).strip()
    headline, _, rest = reason.partition("\n")
    explanation = _section(rest, "Explanation:") or _section(rest, "Developer debug context:")
    advice = next((text for kind, text in ADVICE.items() if headline.startswith(kind)), _DEFAULT_ADVICE)
    if "side effects" in headline:
        headline = "forward assigns to a Python object (" + headline.rpartition(": ")[2] + ")"
        advice = "keep what changes between steps in a registered buffer"
    where = _location(getattr(error, "real_stack", None))
    detail = f" ({explanation})" if explanation else ""
    return CaptureError(f"{where or _name(function)}: {headline}{detail}. Instead: {advice}.")


def refuse_symbolic_values(function: Callable[..., Any], module: fx.GraphModule) -> None:
    """Raise CaptureError when a node's number or shape depends on the values of tensors."""
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
        if any(isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) for size in sizes):
            raise CaptureError(
                f"{source_line(node) or _name(function)}: {node.name} depends on the values of a tensor. "
                "Instead: keep numbers in tensors, and use torch.where or masks of fixed size."
            )


def _section(text: str, title: str) -> str:
    return next((line.partition(title)[2].strip() for line in text.splitlines() if title in line), "")


def _location(stack: Any) -> str | None:
    torch_root = Path(str(torch.__file__)).parent
    frames = [frame for frame in stack or () if torch_root not in Path(frame.filename).parents]
    return f"{frames[-1].filename}:{frames[-1].lineno} `{frames[-1].line}`" if frames else None


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
