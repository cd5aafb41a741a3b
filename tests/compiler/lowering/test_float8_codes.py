"""A target without float8: its modules hold none, in kernels' bodies neither, and compute the same bits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import device_options
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.errors import LoweringError
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kernels.quantization import quantize_fp4_fine, quantize_fp8
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.runtime.devices.pjrt import PjrtDevice
from fed_steps import trace_call
from host_programs import aligned, trace

TRN2 = replace(device_options("trn2"), int64=True)
GEOMETRY = CacheGeometry.for_requests(max_context=96, max_requests=3, block_tokens=8)


def run(module, inputs, options):
    target, device = HostTarget(), PjrtDevice()
    executable = device.load(target.compile(lower_graph(module, options)))
    outputs = executable.execute([device.buffer(aligned(one)) for one in inputs])
    return [device.to_torch(one).clone() for one in outputs]


@pytest.fixture
def decode(nano_a):
    """A decode model in front of its second step, and that step's inputs."""
    checkpoint, numerics = open_checkpoint(nano_a), Numerics()
    pool = RequestPool(load_model(checkpoint, GEOMETRY, numerics), EngramLookup(checkpoint, numerics))
    requests = [pool.add(tokens)[0] for tokens in ([5, 6, 7, 8], [9, 10])]
    return pool.model, pool.step_inputs(requests, [11, 12])


@pytest.mark.slow
def test_a_decode_step_for_a_target_without_float8_holds_none(decode):
    model, inputs = decode
    assert "f8E" not in lower_graph(trace_call(model, inputs).module, TRN2).text()


@pytest.mark.slow
def test_a_decode_step_has_the_bits_that_it_has_with_float8(decode):
    step = trace_call(*decode)
    exact = HostTarget().lowering_options("exact")
    assert "f8E4M3FN" in lower_graph(step.module, exact).text()
    expected = run(step.module, step.inputs, exact)
    actual = run(step.module, step.inputs, replace(exact, float8=False))
    assert len(actual) == len(expected) > 1
    assert all(torch.equal(left, right) for left, right in zip(actual, expected, strict=True))


def test_kernels_have_the_bits_that_they_have_with_float8():
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(1)) * torch.logspace(-9, 4, 64)
    module = trace(lambda x: (quantize_fp8(x), quantize_fp4_fine(x)), x)
    exact = HostTarget().lowering_options("exact")
    expected = run(module, [x], exact)
    actual = run(module, [x], replace(exact, float8=False))
    assert all(torch.equal(left, right) for left, right in zip(actual, expected, strict=True))
    assert torch.equal(expected[0], quantize_fp8(x))


def test_kernels_saturate_where_the_target_does():
    x = torch.tensor([448.0, 300.0, 1.0, -447.0] * 8).reshape(1, 32)
    module = trace(lambda x: (quantize_fp8(x),), x)
    (actual,) = run(module, [x], replace(TRN2, numerics="exact", float64=True))
    assert torch.equal(actual, quantize_fp8(x).clamp(-240, 240))


def test_an_operator_that_computes_on_float8_is_refused():
    module = trace(lambda x: (x.view(torch.float8_e4m3fn).float(),), torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(LoweringError, match=r"has no torch.float8_e4m3fn: view operands as torch.uint8"):
        lower_graph(module, TRN2)
