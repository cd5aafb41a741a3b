"""A graph as people read it."""

from __future__ import annotations

import torch
from deepinfer_neuron.bisection.subjects.graph_text import graph_text
from graph_steps import trace_function
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop


class Step(torch.nn.Module):
    """A loop, a constant, a part of a tuple and an updated buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        def condition(i: Tensor, y: Tensor) -> Tensor:
            return i < 3

        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, y * 2

        _, y = while_loop(condition, body, (torch.tensor(0), x))
        self.total.add_(y.to(torch.bfloat16).float())
        return y.flip([0])


def test_a_graph_is_read_line_by_line():
    step = trace_function(Step(), torch.ones(2))
    text = graph_text(step.module, step.aliases)
    for line in (
        "  %arg0_1 : f32[2]",
        "constant 0 : i64[]",
        "while_loop(@while_loop_cond_graph_0, @while_loop_body_graph_0, (%",
        "(i64[], f32[2])",
        "= getitem(%while_loop, 1) : f32[2]",
        "= aten._to_copy.default(%getitem_1, dtype=bf16) : bf16[2]",
        "= aten.flip.default(%getitem_1, [0]) : f32[2]  # tests/bisection/subjects/test_graph_text.py:28",
        "  return %flip, %add in the memory of %arg",
        "where while_loop_body_graph_0 is",
        "= aten.mul.Tensor(%arg1_1, 2) : f32[2]",
    ):
        assert line in text, f"{line!r} in\n{text}"
