"""A step is checked in the shape that a device would get it in."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.targets.table import find_target
from deepinfer_neuron.errors import CaptureError, GraphError
from deepinfer_neuron.preflight import step as step_module
from deepinfer_neuron.preflight.check import check_module, merge_findings
from deepinfer_neuron.preflight.rule import Finding
from deepinfer_neuron.preflight.step import StepCheck, check_steps
from deepinfer_neuron.runtime.slots import ZERO, SlotSpec


def check_one(model: torch.nn.Module, batch_size: int, target: str) -> StepCheck:
    (check,) = check_steps(model, [batch_size], find_target(target), "whole")
    return check


class Chooser(torch.nn.Module):
    """The largest of a row, by an order; with ``shift`` also a shift of narrow integers."""

    def __init__(self, shift: bool = False, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.decode_slots = (SlotSpec("scores", dtype, (9,), ZERO),)
        self.shift = shift

    def forward(self, scores):
        best = torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :2].to(torch.int32)
        if self.shift:
            best = torch.bitwise_right_shift(best.to(torch.int16), 1).to(torch.int32)
        return best


def test_an_order_is_no_sort_for_a_device():
    check = check_one(Chooser(), 2, "trn2")
    assert check.findings == ()
    assert check.programs == 1
    assert check.operations["stablehlo.compare"] > 0
    assert "stablehlo.sort" not in check.operations


def test_what_a_device_refuses_is_found_with_its_line():
    (finding,) = check_one(Chooser(shift=True), 2, "trn2").findings
    assert finding.code == "EVRF022"
    assert finding.operation == "stablehlo.shift_right_arithmetic"
    assert finding.line is not None
    assert finding.line.startswith("tests/preflight/test_step.py:")


def test_errors_of_the_way_there_are_those_of_compiling():
    with pytest.raises(GraphError, match="needs int64"):
        check_one(Chooser(dtype=torch.int64), 2, "trn2")
    with pytest.raises(CaptureError, match="declares no decode_slots"):
        check_one(torch.nn.Linear(2, 2), 2, "trn2")


def test_programs_are_checked_with_the_target_that_they_are_made_for(monkeypatch):
    asked = []
    monkeypatch.setattr(
        step_module, "check_module", lambda program, target: asked.append(target) or check_module(program, target)
    )
    check_one(Chooser(), 1, "trn3")
    assert asked == ["trn3"]


def test_equal_findings_of_several_programs_become_one():
    one = Finding("EVRF029", "reported", "stablehlo.sort", "model/a.py:1", "detail", "remedy", 2)
    other = Finding("EVRF029", "reported", "stablehlo.sort", "model/a.py:2", "detail", "remedy", 1)
    merged = merge_findings([one, other, one])
    assert [(finding.line, finding.count) for finding in merged] == [("model/a.py:1", 4), ("model/a.py:2", 1)]
