"""Orders without a sort are those of a stable sort, to the bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.compiler.targets.host import HostTarget
from host_programs import Case, Host, case, graph_of
from lowering_cases.indexing import ORDERS
from torch import fx
from ulps import same_bits

aten = torch.ops.aten


class WithoutSort(HostTarget):
    """The host, as if it had no sort."""

    def lowering_options(self, numerics: str) -> LoweringOptions:
        return replace(super().lowering_options(numerics), sort=False)


@pytest.fixture(scope="module")
def host() -> Host:
    made = Host()
    made.target = WithoutSort()
    return made


def lowered(cases: list[Case], sort: bool) -> LoweredModule:
    module: fx.GraphModule = graph_of(cases)[0]
    return lower_graph(module, LoweringOptions(sort=sort))


def test_every_order_is_that_of_the_sort(host):
    assert "stablehlo.sort" in lowered(ORDERS, sort=True).text()
    assert "stablehlo.sort" not in lowered(ORDERS, sort=False).text()
    for one, actual in zip(ORDERS, host.results(ORDERS, "fast"), strict=True):
        for got, expected in zip(actual, one.eager(), strict=True):
            assert same_bits(got, expected), f"{one}: got {got}, expected {expected}"


SPECIAL = torch.tensor([0.0, -0.0, 1e-30, -1e-30, torch.inf, -torch.inf, 3.0, 0.0, -0.0, torch.nan, torch.inf])


@pytest.mark.parametrize("descending", [False, True])
def test_zeros_and_infinities_keep_their_bits_and_places(host, descending):
    one = case(aten.sort.stable, SPECIAL, stable=True, dim=0, descending=descending)
    ((values, positions),) = host.results([one], "fast")
    assert same_bits(values, SPECIAL[positions])
    as_sort = Host().results([one], "fast")[0]
    assert torch.equal(positions, as_sort[1])


@pytest.mark.parametrize("shape", [(1,), (2, 1), (1, 2), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.float16], ids=str)
def test_small_shapes_and_other_types(host, shape, dtype):
    x = torch.randint(0, 3, shape, generator=torch.Generator().manual_seed(3)).to(dtype)
    cases = [case(aten.sort.stable, x, stable=True, dim=dim, descending=True) for dim in range(x.dim())]
    for one, actual in zip(cases, host.results(cases, "fast"), strict=True):
        assert all(map(same_bits, actual, one.eager()))


def test_a_top_k_makes_no_more_than_k_rows():
    text = lowered([case(aten.topk.default, torch.randn(3, 40), 2)], sort=False).text()
    assert "tensor<3x2x40xi1>" in text
    assert text.count("tensor<3x40x40xi32>") > 0
    assert "tensor<3x40x40xf32>) -> tensor<3x40xf32>" not in text
