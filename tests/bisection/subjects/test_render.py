"""Candidates in every format: what readers of the format find in them, and the same bytes everywhere."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import stablehlo_texts
import torch
from deepinfer_neuron.bisection.probes.probe import IDENTITY
from deepinfer_neuron.bisection.subjects.render import FORMATS, render
from deepinfer_neuron.bisection.subjects.subject import Candidate
from deepinfer_neuron.compiler.hlo.convert import write_module
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.compiler.lowering.options import device_options
from deepinfer_neuron.errors import ConfigError, LoweringError
from deepinfer_neuron.runtime.devices.pjrt_client import client, compile_options, device_list
from host_programs import trace
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from torch import Tensor


def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x + y, torch.softmax(x @ y.t(), -1)


def lowered(function=step, aliases=None) -> tuple[Candidate, LoweredModule]:
    graph = trace(function, torch.zeros(2, 3), torch.zeros(2, 3))
    for node in graph.graph.nodes:
        node.stack_trace = 'File "model/moe.py", line 80, in route'
    module = lower_graph(graph, device_options("trn2"), aliases)
    return Candidate(2, module.bytecode, graph), module


@pytest.mark.parametrize("format", ["mlir", "hlo"])
@pytest.mark.parametrize("aliases", [{}, {0: 1}, {0: 0}])
def test_it_is_what_the_neuron_targets_write(format, aliases):
    candidate, module = lowered(aliases=aliases)
    assert render(candidate, format) == write_module(module, format)


@pytest.mark.parametrize("format", ["mlir", "hlo"])
def test_the_alias_of_a_single_result_too(format):
    candidate, module = lowered(lambda x, y: (x + y,), {0: 1})
    assert render(candidate, format) == write_module(module, format)


def test_text_has_aliases_and_lines():
    text = render(lowered(aliases={0: 1})[0], "text").decode()
    assert text.startswith("#loc") and "stablehlo.dot_general" in text
    assert 'mhlo.input_output_alias = [{alias = {kind = "must_alias"' in text and "tf.aliasing_output" not in text
    assert '"moe.py":80:0' in text


def test_other_attributes_of_arguments_stay():
    text = stablehlo_texts.update_in_place(False).replace("%z: ", '%z: tensor<i1> {mhlo.sharding = ""}, %w: ', 1)
    text = text.replace("%i, %z)", "%i, %w)")
    rendered = render(Candidate(2, text.encode()), "text").decode()
    assert "mhlo.sharding" in rendered and "mhlo.input_output_alias" in rendered


def test_a_portable_artifact_is_one():
    content = render(lowered()[0], "portable")
    with shared_context():
        again = stablehlo.deserialize_portable_artifact(ir.Context.current, content)
        assert "stablehlo.dot_general" in str(again)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_can_be_read(format):
    for candidate in (IDENTITY, lowered(aliases={0: 1})[0]):
        content = render(candidate, format)
        if format == "python":
            names = {}
            exec(content.decode(), names)
            assert len(names["forward"](*names["example_inputs"]())) in (1, 2)
        elif format == "hlo":
            _jax.mlir.hlo_to_stablehlo(content)
        else:
            client().compile_and_load(content, device_list(), compile_options())


def test_what_a_format_cannot_hold_is_refused():
    with pytest.raises(LoweringError, match="cannot be written as a portable artifact"):
        render(Candidate(1, stablehlo_texts.top_k("f32").encode()), "portable")
    with pytest.raises(LoweringError, match="XLA cannot write the module as HLO"):
        render(Candidate(1, stablehlo_texts.unary("math.sin", "tensor<4xf32>").encode()), "hlo")
    with pytest.raises(ConfigError, match="format python needs an FX graph"):
        render(replace(lowered()[0], graph=None), "python")


def digests() -> list[str]:
    candidate = lowered(aliases={0: 1})[0]
    return [hashlib.sha256(render(candidate, format)).hexdigest() for format in FORMATS]


@pytest.mark.slow
def test_bytes_are_the_same_in_every_process_and_directory(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", f"import runpy; print(runpy.run_path({__file__!r})['digests']())"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(digests())
