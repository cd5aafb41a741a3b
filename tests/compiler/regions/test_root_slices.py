"""Layers of one root, each given its own rows: every bit of the whole step, and one program for equal layers."""

from __future__ import annotations

import re

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.regions.canonical import canonical_digest
from deepinfer_neuron.compiler.regions.cut import CutGraph, StepInput
from deepinfer_neuron.compiler.regions.root_partition import RootPartition
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from deepinfer_neuron.runtime.slots import PaddingPolicy, SlotSpec
from hypothesis import given, settings
from hypothesis import strategies as st
from region_runs import assert_same_bits, cut_at_stages, passed

LAYERS, ROWS, WIDTH = 4, 16, 16

VIEW = {
    "select": lambda root, i: root[i],
    "slice": lambda root, i: root[i : i + 1].squeeze(0),
    "narrow": lambda root, i: root.narrow(0, i, 1).view(ROWS, WIDTH),
    "view": lambda root, i: root.view(-1, WIDTH)[i * ROWS : (i + 1) * ROWS],
    "unbind": lambda root, i: root.unbind(0)[i],
    "split": lambda root, i: root.split(1)[i][0],
    "split sizes": lambda root, i: root.view(-1, WIDTH).split([ROWS] * LAYERS)[i],
    "as_strided": lambda root, i: torch.as_strided(root, (ROWS, WIDTH), (WIDTH, 1), i * ROWS * WIDTH),
}
OTHER_VIEW = {
    "whole": lambda root, i: root.view(-1, WIDTH),
    "part of a layer": lambda root, i: root[i, 2:14],
    "two layers": lambda root, i: root[i // 2 * 2 : i // 2 * 2 + 2].view(2 * ROWS, WIDTH),
    "every other row": lambda root, i: root.view(-1, WIDTH)[i::2][:ROWS],
    "rows as columns": lambda root, i: root.view(ROWS, LAYERS * WIDTH)[:, i * WIDTH : (i + 1) * WIDTH],
}
ACCESS = {
    "store": lambda layer, rows, x: layer.index_put_((rows,), x[:, : layer.shape[1]].to(layer.dtype)),
    "store one": lambda layer, rows, x: layer[3].copy_(x[0].to(layer.dtype)),
    "scale": lambda layer, rows, x: layer.mul_(0.5),
    "load": lambda layer, rows, x: x + layer[rows].to(x.dtype),
    "sum": lambda layer, rows, x: x + layer.sum(0).to(x.dtype),
    "boundary": None,
}


class Accesses(torch.nn.Module):
    """Steps (view, layer, access) on one root; an access "boundary" ends a stage."""

    def __init__(self, steps, dtype):
        super().__init__()
        self.steps = steps
        self.register_buffer("root", torch.arange(LAYERS * ROWS * WIDTH).view(LAYERS, ROWS, WIDTH).to(dtype))

    def forward(self, x, rows):
        x = x + 1
        for number, (view, layer, access) in enumerate(self.steps):
            if access == "boundary":
                (x,) = stage_boundary(f"stage {number}", x)
            else:
                result = ACCESS[access]((VIEW | OTHER_VIEW)[view](self.root, layer), rows, x)
                x = result if access in ("load", "sum") else x * 2
        return x


INPUTS = [torch.linspace(-2, 2, 2 * WIDTH).view(2, WIDTH), torch.tensor([1, 4])]


def sliced(function, inputs=INPUTS) -> CutGraph:
    """The regions with slices, which give every bit of the whole graph."""
    graph, context = passed(function, inputs)
    cut, names = cut_at_stages(graph, context), [one.qualified_name for one in graph.inputs]
    cut = RootPartition().joined(cut, names).applied(cut, names)
    assert_same_bits(graph, context, cut, inputs)
    return cut


def roots(cut: CutGraph) -> list[tuple[int, int] | None]:
    """First row and number of rows of the root that each region takes; None for all."""
    taken = []
    for region in cut.regions:
        places = [place for place in region.inputs if isinstance(place, StepInput)]
        slices = [(place.rows.first, place.rows.count) for place in places if place.rows]
        taken.append(slices[0] if slices else None)
    return taken


STEPS = st.lists(
    st.tuples(
        st.sampled_from(sorted(VIEW) * 3 + sorted(OTHER_VIEW)),
        st.integers(0, LAYERS - 1),
        st.sampled_from(sorted(ACCESS) + ["boundary"] * 3),
    ),
    max_size=8,
)
DTYPES = st.sampled_from([torch.float32, torch.bfloat16])


@settings(deadline=None, max_examples=12)
@given(STEPS, DTYPES)
def test_random_views_and_boundaries_keep_every_bit(steps, dtype):
    sliced(Accesses(steps, dtype))


@pytest.mark.slow
@settings(deadline=None, max_examples=120)
@given(STEPS, DTYPES)
def test_many_random_views_and_boundaries_keep_every_bit(steps, dtype):
    sliced(Accesses(steps, dtype))


def by_layers(view: str, *accesses: str, layers=range(LAYERS)) -> list[tuple[str, int, str]]:
    """The same accesses to each layer in a stage of its own."""
    return [(view, layer, access) for layer in layers for access in (*accesses, "boundary")]


@pytest.mark.parametrize("view", VIEW)
def test_a_region_takes_the_rows_of_its_layer(view):
    cut = sliced(Accesses(by_layers(view, "store", "load", "sum", "store one"), torch.float32))
    assert roots(cut) == [(0, 1), (1, 1), (2, 1), (3, 1)]
    for region in cut.regions:
        assert region.outputs[-1] in region.inputs
        large = [node for node in region.module.graph.nodes if node.op != "output" and node.meta["val"].numel() > 16**2]
        assert large == []


def test_layers_that_no_region_needs_are_in_no_slice():
    steps = by_layers("select", "store", layers=[3, 1])
    assert roots(sliced(Accesses(steps, torch.float32))) == [(3, 1), (1, 1)]


def test_regions_that_share_rows_share_a_slice():
    steps = [*by_layers("select", "store", layers=[0, 1, 2, 3]), *by_layers("two layers", "load", layers=[2])]
    assert roots(sliced(Accesses(steps, torch.float32))) == [(0, 1), (1, 1), (2, 2), (2, 2), (2, 2)]


@pytest.mark.parametrize("view", ["whole", "rows as columns"])
def test_one_access_to_all_rows_keeps_the_root_whole(view):
    steps = [*by_layers("select", "store"), *by_layers(view, "load", layers=[1])]
    assert set(roots(sliced(Accesses(steps, torch.float32)))) == {None}


class Unaligned(torch.nn.Module):
    """Layers of 3 rows of 8 bytes: no layer but the first begins on a boundary of 64 bytes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("root", torch.zeros(LAYERS, 3, 2))

    def forward(self, x, rows):
        for layer in range(LAYERS):
            self.root[layer].index_put_((rows,), x)
            (x,) = stage_boundary(f"layer {layer}", x + self.root[layer][rows])
        return x


def test_slices_that_a_device_cannot_address_are_not_made():
    assert roots(sliced(Unaligned(), [torch.ones(2, 2), torch.tensor([0, 2])])) == [None] * LAYERS


class EqualLayers(torch.nn.Module):
    """Every layer stores a row into its view of one root, and reads the row before it and all rows."""

    decode_slots = (
        SlotSpec("x", torch.float32, (WIDTH,)),
        SlotSpec("rows", torch.int32, (), PaddingPolicy.fill(ROWS - 1), index=True),
    )

    def __init__(self, view: str, dtype: torch.dtype):
        super().__init__()
        self.view = view
        self.register_buffer("root", torch.zeros(LAYERS, ROWS, WIDTH, dtype=dtype))

    def forward(self, x, rows):
        x, rows, before = stage_boundary("start", x * 2, rows, rows - 1)
        for number in range(LAYERS):
            layer = VIEW[self.view](self.root, number)
            layer.index_put_((rows,), x.to(layer.dtype))
            (x,) = stage_boundary(f"layer {number}", x + layer[before].to(x.dtype) + layer.sum(0).to(x.dtype))
        return x


@pytest.mark.parametrize("view", VIEW)
@pytest.mark.parametrize("batch", [1, 2])
def test_equal_layers_are_equal_regions(view, batch):
    model = EqualLayers(view, torch.bfloat16)
    cut = sliced(model, [torch.ones(batch, WIDTH), torch.arange(1, batch + 1, dtype=torch.int32)])
    assert [len({canonical_digest(region) for region in cut.regions[start:]}) for start in (0, 1)] == [2, 1]


@pytest.mark.parametrize(
    ("view", "dtype"),
    [
        ("select", torch.bfloat16),
        pytest.param("view", torch.float32, marks=pytest.mark.slow),
        ("as_strided", torch.bfloat16),
    ],
    ids=str,
)
def test_equal_layers_need_the_program_of_one(view, dtype):
    models = {mode: EqualLayers(view, dtype) for mode in ("regions", "whole")}
    runners = {mode: compile_decode(model, [1, 2], mode=mode) for mode, model in models.items()}
    assert [(one.regions, one.programs) for one in runners["regions"].reports] == [(LAYERS + 1, 2)] * 2
    for live in (2, 1, 2):
        inputs = {"x": torch.randn(live, WIDTH), "rows": torch.randperm(ROWS - 2)[:live].int() + 1}
        results = [runner(**inputs).clone() for runner in runners.values()]
        assert torch.equal(*results)
    assert torch.equal(models["regions"].root[:, :-1], models["whole"].root[:, :-1])
    assert_nothing_large_is_copied(runners["regions"])


def assert_nothing_large_is_copied(runner) -> None:
    """No program of a runner makes a second root or layer, or knows of rows that are not its layer's."""
    for executable in runner.executables.values():
        program = executable.optimized_hlo()
        assert not re.findall(rf"\[{LAYERS},{ROWS},{WIDTH}\]|\[{LAYERS * ROWS},{WIDTH}\]", program)
        layer = rf"\[(?:1,)?{ROWS},{WIDTH}\]\S*"
        assert not re.findall(rf"{layer} (?:copy|slice|dynamic-slice)\(", program)


def test_slices_are_updated_in_the_memory_of_the_root():
    model = EqualLayers("select", torch.float32)
    runner = compile_decode(model, [1, 2], mode="regions")
    layer_bytes = ROWS * WIDTH * 4
    for live in (1, 2):
        runner(x=torch.ones(live, WIDTH), rows=torch.arange(1, live + 1, dtype=torch.int32))
        addresses = [root.unsafe_buffer_pointer() - model.root.data_ptr() for root in runner._roots]
        assert sorted(addresses) == [layer * layer_bytes for layer in range(LAYERS)]


STEP = {"x": torch.linspace(-1, 1, 2 * WIDTH).view(2, WIDTH), "rows": torch.tensor([2, 5], dtype=torch.int32)}


def test_slices_are_bound_again_after_an_interrupt(monkeypatch):
    models = [EqualLayers("select", torch.float32) for _ in range(2)]
    interrupted, undisturbed = (compile_decode(model, [2], mode="regions") for model in models)
    expected = undisturbed(**STEP).clone()
    layer_program = interrupted._programs[0].executables[-1]
    execute, calls = layer_program.execute, []

    def interrupt_third_layer(buffers):
        calls.append(execute(buffers))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return calls[-1]

    with monkeypatch.context() as patched:
        patched.setattr(layer_program, "execute", interrupt_third_layer)
        with pytest.raises(KeyboardInterrupt):
            interrupted(**STEP)
    assert not any(root.is_deleted() for root in interrupted._roots)
    assert torch.equal(interrupted(**STEP), expected)
    assert torch.equal(models[0].root, models[1].root)


def test_a_root_that_moved_under_its_slices_is_refused():
    model = EqualLayers("select", torch.float32)
    runner = compile_decode(model, [2], mode="regions")
    model.root.data = model.root.data.clone()
    with pytest.raises(InputError, match="'root' was re-allocated"):
        runner(**STEP)
