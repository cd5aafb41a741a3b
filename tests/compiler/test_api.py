from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler import api
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.steps import pipeline
from deepinfer_neuron.errors import CaptureError, ConfigError, InputError
from deepinfer_neuron.passes.pipeline import PASSES
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from deepinfer_neuron.runtime.slots import SlotSpec
from deepinfer_neuron.settings import Settings


class Counter(torch.nn.Module):
    """Adds its input to one cache row."""

    decode_slots = (SlotSpec("x", torch.float32, (4,)),)

    def __init__(self, result=lambda x: x):
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 4))
        self.result = result

    def forward(self, x):
        self.total.add_(x.sum(0, keepdim=True))
        return self.result(x + self.total)


def test_batch_sizes_are_compiled_largest_first_and_reported():
    lines: list[str] = []
    runner = compile_decode(Counter(), 3, progress=lines.append)
    assert runner.batch_sizes == (1, 2, 3)
    assert [report.batch_size for report in runner.reports] == [3, 2, 1]
    for report in runner.reports:
        assert report.nodes > 0
        assert min(report.capture_s, report.passes_s, report.lowering_s, report.compile_s) > 0
        assert [record.name for record in report.passes] == [entry.name for entry in PASSES]
        assert report.region_nodes == (report.nodes,)
        assert list(report.program_s) == [runner.plan.replays[3 - report.batch_size].regions[0].artifact]
    captured = [line for line in lines if "captured" in line]
    assert [line.split(":")[0] for line in captured] == ["batch 3", "batch 2", "batch 1"]
    assert sum("compiled in" in line for line in lines) == 3


def test_the_runner_runs_the_model():
    model = Counter()
    runner = compile_decode(model, [2])
    assert torch.equal(runner(x=torch.ones(2, 4)), torch.full((2, 4), 3.0))
    assert torch.equal(runner(x=torch.ones(1, 4)), torch.full((1, 4), 4.0))
    assert torch.equal(model.total, torch.full((1, 4), 3.0))


def test_a_model_without_slots_is_refused():
    with pytest.raises(CaptureError, match="Linear declares no decode_slots"):
        compile_decode(torch.nn.Linear(2, 2), [1])


@pytest.mark.parametrize("result", [lambda x: x.sum(0), lambda x: 3, lambda x: (x, x[:1])])
def test_results_without_a_row_for_each_request_are_refused(result):
    with pytest.raises(CaptureError, match="has a row for each request"):
        compile_decode(Counter(result), [2])


def test_tensors_the_model_does_not_own_are_refused():
    outside = torch.ones(4)
    with pytest.raises(CaptureError, match="register them as buffers"):
        compile_decode(Counter(lambda x: x + outside), [2])


@pytest.mark.parametrize("options", [{"target": "gpu"}, {"numerics": "wild"}, {"mode": "halves"}])
def test_unknown_choices_are_refused(options):
    with pytest.raises(ConfigError, match="unknown"):
        compile_decode(Counter(), [1], **options)


def test_no_batch_size_is_refused():
    with pytest.raises(InputError, match="at least one size"):
        compile_decode(Counter(), [])


class Halves(torch.nn.Module):
    """Two equal stages with a counter of their own each."""

    decode_slots = (SlotSpec("x", torch.float32, (4,)),)

    def __init__(self):
        super().__init__()
        self.counts = torch.nn.ModuleList(Counter() for _ in range(2))

    def forward(self, x):
        for number, counter in enumerate(self.counts):
            (x,) = stage_boundary(f"half {number}", counter(x))
        return x


def test_the_environment_chooses_the_mode_and_the_argument_overrules_it(monkeypatch):
    monkeypatch.setattr(api, "settings", lambda: Settings(graph_mode="regions"))
    model = Halves()
    (report,) = compile_decode(model, [2]).reports
    assert (report.mode, report.regions, report.programs) == ("regions", 2, 1)
    (report,) = compile_decode(model, [2], mode="whole").reports
    assert (report.mode, report.regions, report.programs) == ("whole", 1, 1)


def test_a_program_that_serves_two_regions_updates_the_memory_of_each():
    model, eager = Halves(), Halves()
    runner = compile_decode(model, [2], mode="regions")
    names = [[one.name for one in region.inputs if one.kind == "kv"] for region in runner.plan.replays[0].regions]
    assert names == [["counts.0.total"], ["counts.1.total"]]
    for step in range(3):
        x = torch.full((2, 4), float(step))
        assert torch.equal(runner(x=x), eager(x=x))
    for mine, other in zip(model.buffers(), eager.buffers(), strict=True):
        assert torch.equal(mine, other)


def test_enforced_eager_compiles_nothing(monkeypatch):
    monkeypatch.setattr(api, "settings", lambda: Settings(enforce_eager=True))
    runner = compile_decode(Counter(), [2])
    assert runner.batch_sizes == ()
    with pytest.warns(RuntimeWarning, match="nothing is compiled"):
        assert torch.equal(runner(x=torch.ones(2, 4)), torch.full((2, 4), 3.0))


def test_the_dump_and_the_pass_limit_are_used(monkeypatch, tmp_path):
    monkeypatch.setattr(pipeline, "settings", lambda: Settings(dump_directory=tmp_path, pass_limit=0))
    compile_decode(Counter(), [1])
    names = {path.name.split(".")[0].partition("_")[2] for path in tmp_path.iterdir()}
    assert names == {entry.name for entry in PASSES if entry.required}


def test_exact_numerics_equal_eager():
    model, eager = Counter(lambda x: x / 3 * x + 1), Counter(lambda x: x / 3 * x + 1)
    runner = compile_decode(model, [2], numerics="exact")
    x = torch.randn(2, 4)
    assert torch.equal(runner(x=x), eager(x))
