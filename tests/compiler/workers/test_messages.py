"""Jobs and answers arrive as they were sent, or not at all."""

from __future__ import annotations

import io

import pytest
import torch
from deepinfer_neuron.compiler.lowering.lower import LoweredModule
from deepinfer_neuron.compiler.workers.messages import Answer, Job, receive_answer, receive_job, send_answer, send_job
from deepinfer_neuron.runtime.artifacts import TensorType
from deepinfer_neuron.runtime.store.key import ArtifactKey

MODULE = LoweredModule(
    bytecode=b"ML\xefR\n\x00{}\n",
    inputs=(TensorType(torch.bfloat16, (2, 3)), TensorType(torch.int32, ())),
    outputs=(TensorType(torch.uint8, (0,)),),
    aliases={0: 1},
    runtime_zero=True,
    operator_counts={"aten.add.Tensor": 2},
    files={"kernels/one": b"\x00\n", "kernels/two": b""},
)
KEY = ArtifactKey("program", {"inputs": ("a", "b"), "lowering": {"exact": False}}, {"graph": "%0 = x\n"})


def test_jobs_arrive_as_they_were_sent():
    file = io.BytesIO()
    for name in ("first", "second"):
        send_job(file, Job(name, KEY, MODULE))
    file.seek(0)
    first, second = receive_job(file), receive_job(file)
    assert (first.name, second.name) == ("first", "second")
    assert first.module == second.module == MODULE
    assert first.key.digest == KEY.digest and first.key.texts == KEY.texts
    assert receive_job(file) is None


def test_answers_arrive_as_they_were_sent():
    answers = [Answer("waited", 1.5, 7), Answer(None, 0.5, error="refused:\nline two", has_crashed=True)]
    file = io.BytesIO()
    for answer in answers:
        send_answer(file, answer)
    file.seek(0)
    assert [receive_answer(file), receive_answer(file)] == answers
    assert receive_answer(file) is None


@pytest.mark.parametrize("part", ["header", "module"])
def test_a_job_that_is_cut_short_is_none(part):
    file = io.BytesIO()
    send_job(file, Job("first", KEY, MODULE))
    content = file.getvalue()
    end = content.index(b"\n") if part == "header" else len(content) - 1
    assert receive_job(io.BytesIO(content[:end])) is None
