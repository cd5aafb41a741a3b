"""The IREE target: eager's bits where IREE rounds, sorts as asked, and what remains of a compiler that failed."""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.compiler.targets import iree
from deepinfer_neuron.compiler.targets.iree import IreeTarget, iree_target
from deepinfer_neuron.compiler.targets.process import ProcessLimits
from deepinfer_neuron.compiler.targets.table import find_target
from deepinfer_neuron.errors import CompileCancelledError, CompileError, ConfigError
from host_programs import trace
from iree_programs import run_function

SORT_OF_A_SLICE = """
func.func public @main(%x: tensor<2x8xf32>, %i: tensor<2x8xi32>) -> (tensor<2x2xi32>, tensor<2x2xi32>) {
  %best:2 = "stablehlo.sort"(%x, %i) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %more = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
  }) : (tensor<2x8xf32>, tensor<2x8xi32>) -> (tensor<2x8xf32>, tensor<2x8xi32>)
  %keys = stablehlo.slice %best#1 [0:2, 0:2] : (tensor<2x8xi32>) -> tensor<2x2xi32>
  %positions = stablehlo.iota dim = 1 : tensor<2x2xi32>
  %sorted:2 = "stablehlo.sort"(%keys, %positions) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
      %less = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
  }) : (tensor<2x2xi32>, tensor<2x2xi32>) -> (tensor<2x2xi32>, tensor<2x2xi32>) loc("model/moe.py":51:0)
  return %sorted#0, %sorted#1 : tensor<2x2xi32>, tensor<2x2xi32>
}
"""
"""IREE 3.13 has no code for it, which is one reason why modules for it have no sorts."""


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def large_module() -> LoweredModule:
    """One that takes iree-compile seconds."""

    def many(x: torch.Tensor) -> torch.Tensor:
        for width in range(2, 40):
            x = torch.sort(x, stable=True)[0] * width
            x = torch.softmax(torch.nn.functional.pad(x, (1, 0)), -1)
        return x

    return lower_graph(trace(many, numbers(3, 5)), iree_target().lowering_options("fast"))


def processes_in(directory: Path) -> list[str]:
    """Ids of the processes that work below a directory."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                if (process / "cwd").readlink().is_relative_to(directory):
                    found.append(process.name)
    return found


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory in which compilers work."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_every_rounding_to_bfloat16_is_kept() -> None:
    def step(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = (x @ w.t()) * torch.tensor(1.3, dtype=torch.bfloat16)
        return (y.float() * 3).bfloat16() + y, x * w[:4] + w[:4]

    x, w = numbers(4, 64).bfloat16(), numbers(64, 64).bfloat16()
    for actual, expected in zip(run_function(step, x, w), step(x, w), strict=True):
        assert torch.equal(actual, expected)


def test_orders_share_nothing_and_equal_keys_stay_in_order() -> None:
    def step(x: torch.Tensor, y: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        best = torch.topk(x, 3)[1]
        ordered = torch.sort(best, stable=True)[0]
        ranks = torch.argsort(ids, stable=True)
        down = torch.sort(ids, descending=True, stable=True)[1]
        return *torch.topk(y, 3), best, ordered, ranks, down, *torch.sort(x, stable=True), x + 1

    x, y = numbers(2, 8), numbers(2, 8).flip(-1)
    x[0, 3], x[1, 5] = torch.inf, torch.nan
    ids = torch.tensor([[3, 1, 3, 3, 1, 0, 3, 1], [2, 2, 2, 2, 2, 2, 2, 2]], dtype=torch.int32)
    actual, expected = run_function(step, x, y, ids), step(x, y, ids)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_a_compiled_function_updates_its_arguments() -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.add_(y)
        return torch.softmax(x, -1) @ y.t(), x.argmax(-1)

    compiled = torch.compile(step, backend="deepinfer_neuron", options={"target": "iree"})
    arguments, expected_arguments = ([numbers(4, 8), numbers(4, 8).flip(0)] for _ in range(2))
    for _ in range(2):
        torch.testing.assert_close(compiled(*arguments), step(*expected_arguments))
        torch.testing.assert_close(arguments, expected_arguments)


def test_a_refusal_names_the_line_of_the_model_and_keeps_the_log() -> None:
    broken = LoweredModule(SORT_OF_A_SLICE.encode(), (), (), {}, False, {})
    with pytest.raises(CompileError, match=r"^iree: model/moe.py:51: 'linalg.generic' op .*") as caught:
        iree_target().compile(broken)
    assert "iree-compile ended with status 1" in str(caught.value)
    assert "failed on workgroup distribution verification" in caught.value.log


def test_a_compiler_that_takes_too_long_leaves_no_process_and_no_file(temporary: Path) -> None:
    with pytest.raises(CompileError, match=r"iree: iree-compile was killed after .* s: timeout"):
        IreeTarget(ProcessLimits(seconds=0.3)).compile(large_module())
    assert processes_in(temporary) == []
    assert list(temporary.iterdir()) == []


def test_a_cancelled_compiler_leaves_no_process_and_no_file(temporary: Path) -> None:
    target, module = iree_target(), large_module()

    def cancel() -> None:
        while not processes_in(temporary):
            time.sleep(0.02)
        target.cancelled.set()

    thread = threading.Thread(target=cancel, daemon=True)
    thread.start()
    with pytest.raises(CompileCancelledError, match="compile again"):
        target.compile(module)
    thread.join()
    assert processes_in(temporary) == []
    assert list(temporary.iterdir()) == []


def test_the_fingerprint_names_what_decides_the_program() -> None:
    fingerprint = find_target("iree").fingerprint()
    assert fingerprint.startswith("iree-base-compiler 3.13.")
    assert "--iree-llvmcpu-target-cpu=host" in fingerprint
    assert "; cpu " in fingerprint


def test_exact_numerics_are_refused() -> None:
    with pytest.raises(ConfigError, match="'exact'"):
        iree_target().lowering_options("exact")


def test_without_the_compiler_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iree, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"deepinfer-neuron\[iree\]"):
        iree_target().compile(large_module())
