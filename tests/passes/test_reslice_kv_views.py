from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.alias_input_mutations import alias_input_mutations
from deepinfer_neuron.passes.context import output_node, placeholders
from deepinfer_neuron.passes.pipeline import run_passes
from deepinfer_neuron.passes.reslice_kv_views import reslice_kv_views
from hypothesis import given, settings
from hypothesis import strategies as st

aten = torch.ops.aten
COPIES = {
    *(aten.slice_scatter.default, aten.select_scatter.default, aten.as_strided_scatter.default),
    aten.diagonal_scatter.default,
}
LAYERS, ROWS, WIDTH = 3, 8, 4

LAYER = {
    "select": lambda root, i: root[i],
    "slice": lambda root, i: root[i : i + 1].squeeze(0),
    "narrow": lambda root, i: root.narrow(0, i, 1).view(ROWS, WIDTH),
    "view and slice": lambda root, i: root.view(-1, WIDTH)[i * ROWS : (i + 1) * ROWS],
    "unbind": lambda root, i: root.unbind(0)[i],
    "split": lambda root, i: root.split(1)[i][0],
    "split sizes": lambda root, i: root.view(-1, WIDTH).split([ROWS] * LAYERS)[i],
    "as_strided": lambda root, i: torch.as_strided(root, (ROWS, WIDTH), (WIDTH, 1), i * ROWS * WIDTH),
    "every other row": lambda root, i: root.view(-1, WIDTH)[i::2][:ROWS],
    "part of the rows": lambda root, i: root[i, :, 1:3],
    "rows as columns": lambda root, i: root.view(ROWS, LAYERS * WIDTH)[:, i * WIDTH : (i + 1) * WIDTH],
    "nested": lambda root, i: root[i:][0].view(ROWS, 2, 2)[:, 1],
}

STORE = {
    "index_put": lambda layer, rows, x: layer.index_put_((rows,), x),
    "negative rows": lambda layer, rows, x: layer.index_put_((rows - ROWS,), x),
    "int32 rows": lambda layer, rows, x: layer.index_put_((rows.int(),), x),
    "index_copy": lambda layer, rows, x: layer.index_copy_(0, rows, x),
    "one row": lambda layer, rows, x: layer.index_put_((rows[0],), x[0]),
    "broadcast": lambda layer, rows, x: layer.index_put_((rows,), x[:1] * 0 + 5),
    "both dimensions": lambda layer, rows, x: layer.index_put_((rows, rows % 2), x[:, 0]),
    "columns": lambda layer, rows, x: layer.index_copy_(1, rows % 2, layer.new_ones(ROWS, 2)),
    "part": lambda layer, rows, x: layer[2:6].index_put_((rows - 1,), x),
    "whole": lambda layer, rows, x: layer.copy_(layer + x[:1]),
    "fixed row": lambda layer, rows, x: layer[3].copy_(x[0]),
}

LOAD = {
    "index": lambda layer, rows: layer[rows],
    "block": lambda layer, rows: layer[rows.view(2, 1) - torch.arange(2)],
    "index_select": lambda layer, rows: layer.index_select(0, rows),
    "columns": lambda layer, rows: layer.index_select(1, rows % 2)[:4],
    "negative": lambda layer, rows: layer[rows - ROWS],
    "embedding": lambda layer, rows: torch.nn.functional.embedding(rows, layer),
    "everything": lambda layer, rows: layer.sum(0),
}


class Layers(torch.nn.Module):
    """Stores into and loads from views of one root; each step is (view, layer number, store or load)."""

    def __init__(self, steps, dtype=torch.float32):
        super().__init__()
        self.steps = steps
        self.register_buffer("root", torch.arange(LAYERS * ROWS * WIDTH).view(LAYERS, ROWS, WIDTH).to(dtype))

    def forward(self, x, rows):
        results = [x + 1]
        for view, number, access in self.steps:
            layer = LAYER[view](self.root, number)
            if access in STORE:
                STORE[access](layer, rows, (x + results[-1].sum().clamp(-9, 9)).to(layer.dtype)[:, : layer.shape[1]])
            else:
                results.append(LOAD[access.removeprefix("load ")](layer, rows))
        return results


ACCESSES = [*STORE, *(f"load {name}" for name in LOAD)]
BITWISE = {"index_put", "negative rows", "one row", "both dimensions", "part", "fixed row"}
"""Accesses that float8 has in eager PyTorch."""
INPUTS = [torch.linspace(-2, 2, 2 * WIDTH).view(2, WIDTH), torch.tensor([1, 4])]


def reslice(case) -> int:
    alias_input_mutations(case.module, case.context)
    changed = reslice_kv_views(case.module, case.context)
    case.module.graph.lint()
    return changed


def pairs(accesses):
    """Every view with every access; a third of them, with each view and each access several times, is quick."""
    return [
        pytest.param(view, access, marks=[pytest.mark.slow] if (first + second) % 3 else [], id=f"{view}-{access}")
        for first, view in enumerate(LAYER)
        for second, access in enumerate(accesses)
    ]


@pytest.mark.parametrize(("view", "store"), pairs(STORE))
def test_a_store_into_a_view_is_a_store_of_rows_of_the_root(checked, view, store):
    case = checked(Layers([(view, 1, store)]), INPUTS)
    assert reslice(case) >= 1
    assert not COPIES & set(case.targets())
    case.assert_same_bits()


@pytest.mark.parametrize(("view", "load"), pairs([name for name in LOAD if name not in {"everything"}]))
def test_a_load_from_a_view_gathers_rows_of_the_root(checked, view, load):
    case = checked(Layers([("select", 0, "index_put"), (view, 1, f"load {load}")]), INPUTS)
    assert reslice(case) == 2
    assert not COPIES & set(case.targets())
    assert not {aten.select.int, aten.slice.Tensor} & {
        node.target for node in case.module.graph.nodes if node.all_input_nodes[:1] == placeholders(case.module)[:1]
    }
    case.assert_same_bits()


def test_two_layers_that_update_two_views_of_one_root_are_both_seen(checked):
    steps = [("select", 0, "index_put"), ("unbind", 2, "index_put"), ("select", 0, "load index"),
             ("as_strided", 2, "load index"), ("view and slice", 1, "load index")]  # fmt: skip
    case = checked(Layers(steps), INPUTS)
    assert reslice(case) == 5
    assert case.targets().count(aten.index_put.default) == 2
    ((position, source),) = case.context.aliases.items()
    root, last = placeholders(case.module)[source], output_node(case.module).args[0][position]
    versions = [last]
    while versions[-1] is not root:
        versions.append(versions[-1].args[0])
    assert sum(node.target is aten.index_put.default for node in versions) == 2
    assert {node.target for node in versions[:-1]} == {aten.index_put.default, aten.view.default}
    case.assert_same_bits()


STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(LAYER)), st.integers(0, LAYERS - 1), st.sampled_from(ACCESSES)), max_size=5
)
DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float8_e4m3fn])


@settings(deadline=None, max_examples=12)
@given(STEPS, DTYPES)
def test_random_graphs_keep_every_bit(checked, steps, dtype):
    assert_every_bit_is_kept(checked, steps, dtype)


@pytest.mark.slow
@settings(deadline=None, max_examples=120)
@given(STEPS, DTYPES)
def test_many_random_graphs_keep_every_bit(checked, steps, dtype):
    assert_every_bit_is_kept(checked, steps, dtype)


def assert_every_bit_is_kept(checked, steps, dtype):
    if dtype is torch.float8_e4m3fn:
        steps = [one for one in steps if one[2] in BITWISE]
    case = checked(Layers(steps, dtype), INPUTS)
    run_passes(case.module, case.context)
    assert not COPIES & set(case.targets())
    case.assert_same_bits()


class OwnCaches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(ROWS, WIDTH))
        self.register_buffer("table", torch.randn(LAYERS, ROWS, WIDTH))

    def forward(self, x, rows):
        self.rows.index_put_((rows,), x)
        return self.rows.view(2, -1, WIDTH)[rows // 4], self.table[1][rows]


def test_whole_roots_and_inputs_that_are_not_updated_are_left_alone(checked):
    case = checked(OwnCaches(), INPUTS)
    alias_input_mutations(case.module, case.context)
    before = str(case.module.graph)
    assert reslice_kv_views(case.module, case.context) == 0
    assert str(case.module.graph) == before


def masked(root, x, rows):
    root[1][rows.new_tensor([True] * ROWS, dtype=torch.bool)] = x.sum()
    return x


def accumulated(root, x, rows):
    root[1].index_put_((rows,), x, accumulate=True)
    return root[1][rows]


class Custom(Layers):
    def __init__(self, step):
        super().__init__([])
        self.step = step

    def forward(self, x, rows):
        return self.step(self.root, x, rows)


@pytest.mark.parametrize("step", [masked, accumulated])
def test_stores_that_are_no_stores_of_rows_still_reach_the_root(checked, step):
    case = checked(Custom(step), INPUTS)
    reslice(case)
    assert not COPIES & set(case.targets())
    case.assert_same_bits()
