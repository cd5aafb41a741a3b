"""Errors as people read them."""

from __future__ import annotations

from compiler_logs import KILLED, LEGACY, PARTITIONS
from deepinfer_neuron.compiler.targets.diagnostics import Diagnostic, parse_diagnostics
from deepinfer_neuron.compiler.targets.error_codes import BISECT
from deepinfer_neuron.compiler.targets.explanation import describe


def only(text: str) -> Diagnostic:
    (found,) = parse_diagnostics(text)
    return found


def test_the_description_says_what_to_type_next():
    text = describe(only(PARTITIONS.replace("[INTERNAL_ERROR]", "model/moe.py:80: [INTERNAL_ERROR]")))
    assert text.startswith("NCC_IBIR297 at model/moe.py:80: For specific instructions")
    assert f"next: {BISECT}" in text and "deepinfer-neuron bisect" in text
    assert "instruction: I-3776" in text


def test_older_codes_are_titled_as_they_were_printed():
    assert describe(only(LEGACY)).startswith("TEN404: ")
    assert describe(only(KILLED)).startswith("F137: ")
    assert describe(Diagnostic("", "gone")) == "gone"
