from __future__ import annotations

import pytest
from deepinfer_neuron.compiler.targets.error_codes import BISECT, CODES, DOCUMENTED, find_code

PAGES = (
    *("EARG001", "EBIR023", "EBVF030", "EHCA005", "EMOD025", "EOOM001", "EOOM002", "ESFH002", "ESPP004", "ESPP047"),
    *("EUOC002", "EXSP001", "EXTP004"),
    *(f"EVRF{number:03}" for number in (1, 4, 5, 6, 7, 9, 10, 11, 13, 15, 16, 17, 18, 19, 22, 24, 31)),
    *(f"EVRF{number:03}" for number in range(35, 67)),
)


def test_every_page_of_the_documentation_has_a_row():
    assert sorted(code.name for code in DOCUMENTED) == sorted(PAGES)


def test_every_code_has_a_meaning_and_something_to_do():
    assert len(CODES) > len(DOCUMENTED)
    for name, code in CODES.items():
        assert code.name == name and code.meaning and code.remedy
        assert not code.meaning.endswith(".") and not code.remedy.endswith(".")


@pytest.mark.parametrize(
    ("name", "kind", "meaning"),
    [
        ("EVRF029", "refusal", "sort"),
        ("EVRF099", "refusal", "part VRF refuses"),
        ("IINL902", "internal error", "a pass failed in the compiler's part INL"),
        ("ILSA062", "internal error", "an internal error in the compiler's part LSA"),
        ("TEN404", "internal error", "part TEN"),
        ("NLA001", "internal error", "part NLA"),
    ],
)
def test_codes_without_a_row_are_read_by_their_letters(name, kind, meaning):
    code = find_code(name)
    assert code.kind == kind and meaning in code.meaning
    assert not code.is_documented


def test_internal_errors_lead_to_the_bisect_tool():
    assert find_code("IINL902").remedy == BISECT
