"""Decompositions for targets without float64 hold no float64."""

from __future__ import annotations

import torch
from deepinfer_neuron.compiler.lowering.narrow_floats import narrow_floats
from deepinfer_neuron.compiler.lowering.record import record
from host_programs import Host

TABLE = torch.tensor([0.5, 1.5], dtype=torch.float64)


def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wide = x.to(torch.float64)
    largest, places = torch.max(torch.exp(wide) * TABLE, 0)
    return largest.to(torch.float32), places


def test_every_value_is_float32_and_the_program_computes_the_same():
    module, same = (record(step, [torch.ones(2)]) for _ in range(2))
    narrow_floats(module)
    values = [value for node in module.graph.nodes for value in torch.utils._pytree.tree_leaves(node.meta.get("val"))]
    dtypes = {value.dtype for value in values if isinstance(value, torch.Tensor)}
    assert dtypes == {torch.float32, torch.int64}
    x, host = torch.tensor([0.25, -1.0]), Host()
    for narrow, kept in zip(host.run(module, [x]), host.run(same, [x]), strict=True):
        assert torch.equal(narrow, kept)


def test_the_graph_still_runs():
    module = record(step, [torch.ones(2)])
    narrow_floats(module)
    module.recompile()
    x = torch.tensor([0.25, -1.0])
    largest, places = module(x)
    expected, where = step(x)
    torch.testing.assert_close(largest, expected)
    assert places == where
