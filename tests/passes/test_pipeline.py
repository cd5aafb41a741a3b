from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.errors import GraphError
from deepinfer_neuron.model.kernels import quantization
from deepinfer_neuron.passes import pipeline, verify
from deepinfer_neuron.passes.context import PassContext, output_node, placeholders
from deepinfer_neuron.passes.observer import Pass
from deepinfer_neuron.passes.pipeline import PASSES, run_passes
from torch import fx

aten = torch.ops.aten


class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("root", torch.randn(8, 4).to(torch.bfloat16))

    def forward(self, x, rows):
        self.root.index_put_((rows,), x.detach())
        unused = x + 3
        del unused
        return self.root[rows] * 2, x


INPUTS = [torch.randn(2, 4).to(torch.bfloat16), torch.tensor([1, 4])]


def test_the_whole_pipeline_keeps_every_bit(checked):
    case = checked(Step(), INPUTS)
    records = run_passes(case.module, case.context)
    assert [record.name for record in records] == [entry.name for entry in PASSES]
    assert [record.number for record in records] == list(range(len(PASSES)))
    assert all(record.seconds >= 0 for record in records)
    case.assert_same_bits()


@pytest.mark.parametrize("limit", range(4))
def test_the_limit_cuts_optional_passes_and_keeps_every_bit(checked, limit):
    case = checked(Step(), INPUTS)
    ran = [record.name for record in run_passes(case.module, case.context, limit=limit)]
    optional = [entry.name for entry in PASSES if not entry.required]
    required = [entry.name for entry in PASSES if entry.required]
    assert set(ran) == {*required, *optional[:limit]}
    case.assert_same_bits()


def test_every_pass_leaves_its_graph_before_and_after(checked, tmp_path):
    case = checked(Step(), INPUTS)
    run_passes(case.module, case.context, dump_directory=tmp_path / "graphs")
    files = sorted(path.name for path in (tmp_path / "graphs").iterdir())
    expected = [f"{i:02d}_{entry.name}.{when}.txt" for i, entry in enumerate(PASSES) for when in ("after", "before")]
    assert files == expected
    (before,) = (tmp_path / "graphs").glob("*_alias_input_mutations.before.txt")
    (after,) = (tmp_path / "graphs").glob("*_alias_input_mutations.after.txt")
    assert "copy_" in before.read_text()
    assert "copy_" not in after.read_text()


def shaped(checked) -> tuple[fx.GraphModule, PassContext]:
    case = checked(Step(), INPUTS)
    run_passes(case.module, case.context)
    return case.module, case.context


def untyped(module, context):
    next(node for node in module.graph.nodes if node.op == "call_function").meta.pop("val")


def symbolic(module, context):
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    unaliased = set(range(3)) - set(context.aliases.values())
    placeholders(module)[unaliased.pop()].meta["val"] = ShapeEnv().create_unbacked_symint()


def updating(module, context):
    node = placeholders(module)[0]
    with module.graph.inserting_after(node):
        module.graph.call_function(aten.relu_.default, (node,)).meta.update(node.meta)


def aliased_twice(module, context):
    context.aliases[0] = next(iter(context.aliases.values()))


def misnamed(module, context):
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    nodes[1]._rename = None
    nodes[1].name = nodes[0].name


def float8_input(module, context):
    placeholders(module)[0].meta["val"] = torch.zeros(2, dtype=torch.float8_e4m3fn)


def strided(module, context):
    node = next(node for node in module.graph.nodes if node.op == "call_function")
    with module.graph.inserting_before(node):
        view = module.graph.call_function(aten.as_strided.default, (node.args[0], [2], [1]))
    view.meta.update(node.args[0].meta)


def sum_late(module, context):
    context.target = "trn2"
    ((position, source),) = context.aliases.items()
    output = output_node(module)
    read = module.graph.create_node("call_function", aten.sum.default, (placeholders(module)[source],))
    output.prepend(read)
    last = output.args[0][position]
    read.meta.update(last.meta)


def quantised_beyond(module, context):
    context.target = "trn2"
    source = next(node for node in module.graph.nodes if node.target is aten.mul.Tensor)
    quantised = module.graph.create_node("call_function", quantization.quantize_fp8, (source,))
    source.append(quantised)
    quantised.meta.update(source.meta)


def bitcast(module, context):
    context.target = "trn2"
    source = placeholders(module)[0]
    view = module.graph.create_node("call_function", aten.view.dtype, (source, torch.int16))
    source.append(view)
    view.meta.update(source.meta)


def wide(module, context):
    context.target = "trn2"
    node = next(node for node in module.graph.nodes if node.target is aten.mul.Tensor)
    node.meta["val"] = torch.zeros(2, 4, dtype=torch.int64)


def unbounded(module, context):
    context.target = "trn2"


BREAKS = {
    verify.KNOWN_TYPES: untyped,
    verify.STATIC_SHAPES: symbolic,
    verify.UNIQUE_NAMES: misnamed,
    verify.FUNCTIONAL: updating,
    verify.ONE_ALIAS: aliased_twice,
    verify.NO_STRIDED_VIEWS: strided,
    verify.NO_FLOAT8_BOUNDARY: float8_input,
    verify.FLOAT8_RANGE: quantised_beyond,
    verify.NO_INPUT_BITCAST: bitcast,
    verify.NO_WIDE_INTEGERS: wide,
    verify.BOUNDED_INDICES: unbounded,
    verify.NO_LATE_READS: sum_late,
}


@pytest.mark.parametrize("invariant", BREAKS, ids=lambda invariant: invariant.rule)
def test_each_invariant_catches_its_violation(checked, invariant):
    module, context = shaped(checked)
    verify.verify(module, context, [invariant])
    BREAKS[invariant](module, context)
    with pytest.raises(GraphError, match=invariant.rule):
        verify.verify(module, context, [invariant])


def test_every_invariant_is_promised_once_and_has_a_violation():
    promised = [*verify.ALWAYS, *(invariant for entry in PASSES for invariant in entry.promises)]
    assert set(promised) == set(BREAKS)
    assert len(promised) == len(BREAKS)


def test_a_broken_promise_is_found_right_after_its_pass(checked, monkeypatch):
    def forgetful(module, context):
        return 0

    monkeypatch.setattr(pipeline, "PASSES", (Pass(forgetful, promises=(verify.FUNCTIONAL,)), Pass(untouched)))
    case = checked(Step(), INPUTS)
    with pytest.raises(GraphError, match="operators are functional"):
        run_passes(case.module, case.context)


def untouched(module, context):
    raise AssertionError("ran after a broken promise")
