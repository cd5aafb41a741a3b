"""Errors in logs of all the forms that compilers wrote over the years."""

from __future__ import annotations

import pytest
from compiler_logs import (
    ABORTED,
    ASSERTION,
    BARE,
    FATAL,
    INPUTS,
    KILLED,
    LEGACY,
    MEMORY,
    NESTED,
    PARTITIONS,
    SORT,
    TRANSFORMATION,
)
from deepinfer_neuron.compiler.targets.diagnostics import (
    Diagnostic,
    find_cause,
    normalise_message,
    parse_diagnostics,
)
from deepinfer_neuron.compiler.targets.explanation import meaning_of


def only(text: str) -> Diagnostic:
    (found,) = parse_diagnostics(text)
    return found


@pytest.mark.parametrize(
    ("text", "code", "kind", "level", "message"),
    [
        (SORT, "EVRF029", "refusal", "ERROR", "Operation sort is not supported on trn2"),
        (f"RuntimeError: RunNeuronCCImpl: {SORT}", "EVRF029", "refusal", "ERROR", "Operation sort is not supported"),
        (MEMORY, "EOOM001", "resource", "ERROR", "Maximum peak HBM usage of 32.00GB"),
        (INPUTS, "EVRF009", "resource", "ERROR", "Total tensor I/O 53.6 GB exceeds available HBM 25.8 GB"),
        (PARTITIONS, "IBIR297", "internal error", "INTERNAL_ERROR", "For specific instructions, base partition"),
        (BARE, "ITEN404", "internal error", "", "Internal tensorizer error: SimplifyNeuronTensor"),
        (ASSERTION, "ITRF901", "internal error", "INTERNAL_ERROR", "TritiumFusion assertion error: Unexpected remat"),
        (LEGACY, "TEN404", "internal error", "", "Internal tensorizer error: NeuronValueNumbering"),
        (KILLED, "F137", "resource", "", "neuronx-cc was forcibly killed"),
        (TRANSFORMATION, "DVR002", "internal error", "", "Internal transformation failed"),
        ("[F134] neuronx-cc terminated abnormally\n", "F134", "internal error", "", "neuronx-cc terminated abnormally"),
    ],
    ids=[
        *("sort", "sort-after-function", "memory", "inputs", "partitions", "bare", "assertion", "legacy", "killed"),
        *("transformation", "aborted"),
    ],
)
def test_every_form_gives_code_kind_and_message(text, code, kind, level, message):
    found = only(text)
    assert (found.code, found.level) == (code, level)
    meaning = meaning_of(found)
    assert meaning is not None and meaning.kind == kind
    assert found.message.startswith(message)


def test_the_operation_is_read_from_the_line_below():
    assert (only(SORT).operation, only(SORT).opcode) == ("sort.16", "sort")


def test_the_instruction_is_read_from_the_lines_above():
    assert only(PARTITIONS).instruction == "I-3776"


def test_older_compilers_name_the_framework_operator():
    assert only(LEGACY).operation == "aten__add_add.31237"


def test_what_to_do_is_split_from_the_cause():
    found = only(ASSERTION)
    assert found.message == "TritiumFusion assertion error: Unexpected remat axes"
    assert found.resolution.startswith("Please open a support ticket")


@pytest.mark.parametrize(
    "text",
    [
        f'"model/moe.py":80:4 {SORT}',
        f"model/moe.py:80: {SORT}",
        f'{SORT.rstrip()}, metadata={{op_name="sort" source_file="model/moe.py" source_line=80}}\n',
        f'{SORT}loc("model/moe.py":80:0)\n',
        f'{SORT}loc("sort"("model/moe.py":80:0))\n',
    ],
    ids=["debug-location", "path-and-line", "metadata", "location", "named-location"],
)
def test_the_line_of_the_model_is_found(text):
    assert only(text).source == "model/moe.py:80"


def test_the_compilers_own_files_are_not_the_models():
    trace = '  File "neuronxcc/driver/CommandDriver.py", line 346, in run_subcommand\n'
    assert only(trace + SORT).source == ""
    assert only(PARTITIONS).source == ""


@pytest.mark.parametrize("text", [FATAL, ABORTED], ids=["check", "back-end"])
def test_failures_without_a_code_still_have_a_message(text):
    found = only(text)
    assert found.code == "" and meaning_of(found) is None
    assert found.message.startswith(("false && ", "No existing axis k2"))


def test_a_module_that_failed_is_the_cause_and_not_the_list_of_them():
    found = parse_diagnostics(NESTED)
    assert [one.code for one in found] == ["MFP002", "NLA001"]
    cause = find_cause(found)
    assert cause is not None and cause.code == "NLA001" and cause.instruction == "I-237367-0"


@pytest.mark.parametrize("order", [KILLED + SORT, SORT + KILLED], ids=["before", "after"])
def test_an_envelope_is_the_cause_only_if_it_is_alone(order):
    cause = find_cause(parse_diagnostics(order))
    assert cause is not None and cause.code == "EVRF029"
    assert find_cause(parse_diagnostics(KILLED)) == only(KILLED)
    assert find_cause(()) is None


def test_progress_dots_colours_and_other_threads_do_not_hide_an_error():
    glued = (
        f"....{SORT.splitlines()[0]} ..2024-01-11 05:53:27.000498:  741535  INFO ||NEURON_CACHE||: Compile cache path"
    )
    expected = only(SORT).message
    assert only(glued).message == expected
    assert only(f"\x1b[31m{SORT}\x1b[0m").message == expected
    assert [one.code for one in parse_diagnostics(f"{ASSERTION.strip()} {MEMORY}")] == ["ITRF901", "EOOM001"]


def test_an_error_printed_twice_is_one():
    assert only(SORT + SORT) == only(SORT)


@pytest.mark.parametrize(
    "text",
    ["", "..Completed run_backend_driver.\n", "Compiler status PASS\n", "Diagnostic logs stored in [/tmp/E123]\n"],
    ids=["empty", "completed", "status", "brackets"],
)
def test_success_has_no_errors(text):
    assert parse_diagnostics(text) == ()


@pytest.mark.parametrize(
    "noise",
    ["." * 4096, "x" * 5000, "a.b/" * 2000, " " * 5000, "1-" * 3000, '"' * 4000, "F " * 3000, "\x00\ufffd" * 3000],
    ids=["dots", "word", "path", "spaces", "digits", "quotes", "letters", "garbage"],
)
def test_much_noise_around_an_error_does_not_hide_it(noise):
    many = f"{noise}\n" * 300
    found = only(f"{many}{noise} {ASSERTION}{many}")
    assert found.code == "ITRF901"
    assert normalise_message(found.message) == normalise_message(only(ASSERTION).message)
    assert parse_diagnostics(many) == ()
    assert len(normalise_message(noise)) <= len(noise)


def test_the_ends_of_an_output_of_many_megabytes_are_read():
    filler = "nothing to see\n" * 700_000
    assert [one.code for one in parse_diagnostics(ASSERTION + filler + SORT)] == ["ITRF901", "EVRF029"]


def test_a_normalised_message_has_no_numbers_paths_and_names():
    first = "Access %add.12 of /tmp/a/b.neff at 0x1f in tensor i75_0_1_2858 exceeds 128 bytes"
    other = "Access %mul.7 of /var/c.neff at 0xffe in tensor i3_2 exceeds 64 bytes"
    expected = "Access NAME of PATH at # in tensor NAME exceeds # bytes"
    assert normalise_message(first) == normalise_message(other) == expected


def test_normal_words_stay_in_a_signature():
    message = "Operation sort is not supported on trn2. Use TopK (f32, int-32) and/or NKI."
    assert normalise_message(message).startswith("Operation sort is not supported on trn")
