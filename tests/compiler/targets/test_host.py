"""The host target: artifacts that run later, and strict rounding."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.lowering.lower import LoweredModule
from deepinfer_neuron.errors import CompileError
from deepinfer_neuron.runtime.artifacts import TensorType
from host_programs import Host, aligned, trace


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def test_a_program_with_a_comparator_serialises(host: Host) -> None:
    x = torch.tensor([3.0, 1.0, 2.0])
    artifact = host.target.compile(host.lower(trace(lambda x: torch.sort(x, stable=True)[0], x)))
    assert artifact.outputs == (TensorType(torch.float32, (3,)),)
    for _ in range(2):
        (result,) = host.device.load(artifact).execute([host.device.buffer(aligned(x))])
        assert host.device.to_torch(result).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("numerics", ["fast", "exact"])
def test_bfloat16_roundings_between_operators_are_kept(host: Host, numerics: str) -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = (x @ w.t()) * torch.tensor(1.3, dtype=torch.bfloat16)
        return (y.float() * 3).bfloat16() + y

    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(4, 64, generator=generator).bfloat16() for _ in range(2))
    (actual,) = host.run(trace(step, x, w), [x, w], numerics)
    assert torch.equal(actual, step(x, w))


def test_refusals_of_the_compiler_are_compile_errors(host: Host) -> None:
    broken = LoweredModule(b"func.func public @main() { return }}", (), (), {}, False, {})
    with pytest.raises(CompileError, match="XLA:CPU refused the module"):
        host.target.compile(broken)


def test_the_fingerprint_names_what_decides_the_program(host: Host) -> None:
    fingerprint = host.target.fingerprint()
    assert "jaxlib" in fingerprint
    assert "xla_allow_excess_precision=False" in fingerprint
    assert fingerprint == host.target.fingerprint()
