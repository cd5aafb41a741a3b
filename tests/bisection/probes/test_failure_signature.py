"""Signatures of failures: equal for one cause in other graphs, places and runs, and different for other causes."""

from __future__ import annotations

import re
import signal

import compiler_logs
import pytest
from deepinfer_neuron.bisection.probes.failure_signature import matches, signature_of, stable_message, without_program
from deepinfer_neuron.bisection.probes.verdict import Outcome, Signature
from deepinfer_neuron.compiler.targets.process import ProcessResult
from hypothesis import given, settings
from hypothesis import strategies as st

LOGS = {name: text for name, text in vars(compiler_logs).items() if name.isupper()}
BANNER = "2023-06-15T12:11:12Z ERROR 85724 [neuronx-cc]:   NeuronX Compiler version 2.6.0.19+3d819e565\n"
CACHED = (
    "2024-04-11 11:25:10.000601:  18868  ERROR ||NEURON_CC_WRAPPER||: Got a cached failed neff at /var/tmp/"
    "neuron-compile-cache/neuronxcc-2.13.66.0+6dfecc895/MODULE_1494686516964995913+d41d8cd9/model.neff\n"
)
PROGRESS = ".2024-01-11 05:53:27.000498:  741535  INFO ||NEURON_CACHE||: Compile cache path: /tmp/tmpjacdmeb0\n"
ILLEGAL = (
    "-:2:6: error: failed to legalize operation 'stablehlo.rng_bit_generator' that was explicitly marked illegal: "
    '%0:2 = "stablehlo.rng_bit_generator"(%arg0) <{rng_algorithm = #stablehlo<rng_algorithm DEFAULT>}> : '
    "(tensor<2xui32>) -> (tensor<2xui32>, tensor<4xui32>)\n-:2:6: note: see current operation: %0:2 = x\n"
)
WORKGROUPS = """\
model/moe.py:51:0: error: 'linalg.generic' op write affecting operations on global resources are restricted to \
workgroup distributed contexts.
-:2:1: note: called from
model/moe.py:51:0: error: 'func.func' op failed on workgroup distribution verification
"""
PARSED = """\
error: UNKNOWN: -:1:67: error: 'stablehlo.add' op requires the same shape for all operands and results
-:1:67: note: see current operation: %0 = "stablehlo.add"(%arg0, %arg0)
"""
DYNAMIC = (
    "error: INVALID_ARGUMENT: during context [hlo verifier]: Unbounded dynamism is disabled for instruction: "
    "%Arg_0.1 = f32[?,4]{1,0} parameter(0)\n\nFailed after pipeline-start\n"
)
TRACEBACK = """\
Traceback (most recent call last):
  File "/opt/driver.py", line 7, in run
    check()
KeyError: 'mm_37'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/driver.py", line 9, in main
    raise compiler.Failure(f"no place for {shape}")
compiler.Failure: no place for torch.Size([4, 512])
"""
ASSERTED = 'tool: /src/lib/Tile.cpp:3279: void tile(int): Assertion `rank == 4 && "odd"\' failed.\n'


def of_error(log: str, status: int = 1) -> Signature:
    found = signature_of(ProcessResult("error", status, 1.0, log), log)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("log", "code", "message"),
    [
        (compiler_logs.SORT, "EVRF029", "Operation sort is not supported on trn#. Use supported equivalent operation"),
        (compiler_logs.MEMORY, "EOOM001", "Maximum peak HBM usage of #B exceeds HBM limit of #B for Trn#."),
        (compiler_logs.INPUTS, "EVRF009", "Total tensor PATH #B exceeds available HBM #B"),
        (compiler_logs.PARTITIONS, "IBIR297", "For specific instructions, base partition for access"),
        (compiler_logs.BARE, "ITEN404", "Internal tensorizer error: SimplifyNeuronTensor:idx"),
        (compiler_logs.ASSERTION, "ITRF901", "TritiumFusion assertion error: Unexpected remat axes"),
        (compiler_logs.LEGACY, "TEN404", "Internal tensorizer error: NeuronValueNumbering:insertAtEnd()"),
        (compiler_logs.NESTED, "NLA001", "Unhandled exception with message: (NAME), line #, Instruction DMACopy NAME"),
        (compiler_logs.KILLED, "F137", "neuronx-cc was forcibly killed"),
        (compiler_logs.TRANSFORMATION, "DVR002", "Internal transformation failed"),
        (compiler_logs.FATAL, "", 'false && "Read after write on aliased PATH buffer."'),
        (compiler_logs.ABORTED, "", "No existing axis k# found in instruction NAME's parent list"),
        (BANNER, "", "#-#-#T#:#:#Z ERROR # [neuronx-cc]: NeuronX Compiler version"),
        (CACHED, "", "#-#-# #:#:#: # ERROR ||NEURON_CC_WRAPPER||: Got a cached failed neff at PATH"),
        (ILLEGAL, "", "failed to legalize operation 'stablehlo.rng_bit_generator' that was explicitly marked illegal"),
        (WORKGROUPS, "", "'linalg.generic' op write affecting operations on global resources are restricted"),
        (PARSED, "", "'stablehlo.add' op requires the same shape for all operands and results"),
        (DYNAMIC, "", "INVALID_ARGUMENT: during context [hlo verifier]: Unbounded dynamism is disabled"),
        (TRACEBACK, "", "compiler.Failure: no place for torch.Size([#])"),
        (ASSERTED + TRACEBACK, "", 'Assertion `rank == # && "odd"\' failed.'),
        ("LLVM ERROR: out of registers: 32\n", "", "LLVM ERROR: out of registers: #"),
        ("F0000 00:00:17.2 1234 shape.cc:33] Check failed: a == b (3 vs. 44) \n", "", "Check failed: a == b (# vs. #)"),
        ("[F134] neuronx-cc terminated abnormally\n", "F134", "neuronx-cc terminated abnormally"),
        (f"{ASSERTED}[F134] neuronx-cc terminated abnormally\n", "F134", "Assertion `rank == #"),
        (f"error: not like this\n{PROGRESS}", "", "not like this"),
        (f"gave up\n{PROGRESS}", "", "gave up"),
        (PROGRESS, "", "status 1"),
        ("", "", "status 1"),
        ("\n \n", "", "status 1"),
        ("text\n\x00\ufffd\x1b#%&\n", "", ""),
    ],
)
def test_the_line_that_names_the_cause_is_found(log, code, message):
    found = of_error(log)
    assert (found.outcome, found.code) == ("error", code)
    assert found.message.startswith(message) and bool(found.message) == bool(message)


@pytest.mark.parametrize("log", [*LOGS.values(), ILLEGAL, WORKGROUPS, PARSED, DYNAMIC, TRACEBACK, ASSERTED])
@settings(max_examples=25)
@given(st.data())
def test_other_numbers_paths_and_progress_make_no_other_signature(log, data):
    numbers = st.integers(0, 10**6)

    def other_number(match: re.Match[str]) -> str:
        return str(data.draw(numbers))

    other = re.sub(r"(?<![\w.@+-])\d+(?:\.\d+)?(?=[xA-Z\s,\])}:>(]|$)(?!-)", other_number, log)
    other = re.sub(r"I-\d+", lambda match: f"I-{data.draw(numbers)}", other)
    for path in ("/tmp/x/", "/opt/", "model/moe.py", "/src/lib/Tile.cpp"):
        other = other.replace(path, data.draw(st.sampled_from(["/var/tmp/a-1/", "here/", "../x_2/y/"])))
    lines = other.splitlines(keepends=True)
    for number in reversed(range(len(lines) + 1)):
        if data.draw(st.booleans()) and "Traceback" not in log:
            lines.insert(number, PROGRESS)
    assert of_error("".join(lines)) == of_error(log)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("shape (3, 4) of %add.12", "shape (8) of %mul"),
        ("tensor<4x512xbf16> is no memref<?x8xf32, strided<[8, 1]>>", "tensor<f32> is no memref<2xi1>"),
        ("result (f32[4]{0}, /*index=1*/s32[]) of f32[16,256]{1,0}", "result (bf16[2,3]) of pred[]"),
        ("at @main_dispatch_2: odd", 'at @"other": odd'),
        ("%12:2 and %arg0#1 clash", "%0 and %cst clash"),
        ("bad: %3 = stablehlo.add %1, %2 : tensor<2xf32>", 'bad: %11:2 = "chlo.top_k"(%a) : (tensor<8xf32>)'),
        (
            'illegal: %13:2 = "torch.operator"(%1) <{name = "torch.aten.sort.stable"}> : (!torch.int) -> !torch.int',
            'illegal: %4:2 = "torch.operator"(%3) <{name = "torch.aten.sort.stable"}> : (!torch.bool) -> !torch.int',
        ),
        ("for %a.1 = f32[2]{0} add(%b, %c), metadata={x}", "for %d = (f32[2], s32[]) add(%e), dimensions={1}"),
        ("32.00GB exceeds 900 MiB", "512KB exceeds 0B"),
        ("off by 1e-05, not -3", "off by 0.25, not 7"),
        ("torch.Size([]) at (1,)", "torch.Size([2, 3]) at (4, 5)"),
        ("float32<32 x 4> in 4x8xf32", "bfloat16<2> in 16x2x8xbf16"),
        ("in module.mlir:3:5", "in /tmp/tmpx/other.mlir:12:1"),
        ("core 0x7ffe12 of I-33", "core 0x1 of I-237367-0"),
        ("sh: 12: killed", "/bin/bash: line 7: killed"),
    ],
)
def test_two_messages_of_one_cause_are_the_same(first, second):
    assert stable_message(first) == stable_message(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Operation sort is not supported on trn2", "Operation scatter is not supported on trn2"),
        ("'linalg.generic' op odd", "'linalg.pack' op odd"),
        ("for %a.1 = f32[2]{0} add(%b)", "for %a.1 = f32[2]{0} multiply(%b)"),
        (
            'illegal: %13:2 = "torch.operator"(%1) <{name = "torch.aten.sort.stable"}> : (!torch.int) -> !torch.int',
            'illegal: %13 = "torch.operator"(%1) <{name = "torch.aten.bincount"}> : (!torch.int) -> !torch.int',
        ),
        ("ValueError: odd", "TypeError: odd"),
    ],
)
def test_messages_of_two_causes_differ(first, second):
    assert stable_message(first) != stable_message(second)


@pytest.mark.parametrize(
    "noise", ["." * 5000, "a.b/" * 3000, "#," * 4000, "tensor<" * 2000, "%" * 5000, "1x" * 3000, ":" * 5000]
)
def test_noise_is_short_and_takes_no_time(noise):
    assert len(stable_message(noise)) <= 300
    assert of_error(f"{noise}\n" * 50 + compiler_logs.SORT) == of_error(compiler_logs.SORT)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"])
def test_a_signal_is_named_whether_seen_or_reported_by_a_shell(name):
    number = getattr(signal, name)
    direct = signature_of(ProcessResult("signal", -number, 1.0, ASSERTED), ASSERTED)
    assert direct == Signature("signal", name, 'Assertion `rank == # && "odd"\' failed.')
    assert of_error(ASSERTED, 128 + number) == direct
    assert signature_of(ProcessResult("signal", -number, 1.0, "..."), "...") == Signature("signal", name)
    assert of_error(f"error: refused\n{ASSERTED}", 128 + number) == Signature("error", message="refused")
    assert of_error(compiler_logs.SORT, 128 + number).code == "EVRF029"


def test_a_signal_without_a_name_has_its_number():
    assert signature_of(ProcessResult("signal", -40, 1.0, ""), "") == Signature("signal", "signal 40")


@pytest.mark.parametrize("outcome", ["timeout", "out of memory", "too much output"])
def test_what_was_ended_from_here_has_no_message(outcome: Outcome):
    assert signature_of(ProcessResult(outcome, -9, 1.0, ASSERTED), ASSERTED) == Signature(outcome)


def test_success_has_no_signature_and_a_cancelled_run_has_no_verdict():
    assert signature_of(ProcessResult("ok", 0, 1.0, "error: none"), "error: none") is None
    with pytest.raises(ValueError, match="cancelled"):
        signature_of(ProcessResult("cancelled", -9, 1.0, ""), "")


def test_a_missing_program_says_so():
    assert without_program("it wrote no program") == Signature("error", message="reported success: it wrote no program")


WANTED = Signature("error", "EVRF029", "no sort")


@pytest.mark.parametrize(
    ("seen", "how"),
    [
        (WANTED, {"signature", "code", "any"}),
        (Signature("error", "EVRF029", "no sort at all"), {"code", "any"}),
        (Signature("error", "EVRF001", "no sort"), {"any"}),
        (Signature("signal", "EVRF029", "no sort"), {"any"}),
        (Signature("timeout"), {"any"}),
        (Signature("invalid", "EVRF029", "no sort"), set()),
        (None, set()),
    ],
)
def test_a_failure_matches_as_strictly_as_asked(seen, how):
    assert {one for one in ("signature", "code", "any") if matches(WANTED, seen, one)} == how


def test_without_codes_the_ending_alone_is_compared_by_code():
    assert matches(Signature("error", message="a"), Signature("error", message="b"), "code")
    assert not matches(Signature("error", message="a"), Signature("error", "EVRF001", "a"), "code")
    assert not matches(Signature("error", message="a"), Signature("timeout"), "code")
