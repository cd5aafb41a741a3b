"""The search for a smallest failing set: what it finds, and how many questions it takes."""

from __future__ import annotations

import math
import random

import pytest
from deepinfer_neuron.bisection.search.minimal_subset import lower_bound, minimal_subset
from hypothesis import given
from hypothesis import strategies as st


class CountingOracle:
    """Counts distinct questions, as a memo would."""

    def __init__(self, fails):
        self.fails = fails
        self.answers = {}

    def __call__(self, chosen: frozenset[int]) -> bool:
        if chosen not in self.answers:
            self.answers[chosen] = self.fails(chosen)
        return self.answers[chosen]


@given(st.integers(1, 300), st.integers(1, 4), st.randoms(use_true_random=False))
def test_a_set_that_fails_together_is_found_exactly_and_in_few_questions(count, size, choose: random.Random):
    planted = frozenset(choose.sample(range(count), min(size, count)))
    oracle = CountingOracle(planted.issubset)
    assert minimal_subset(range(count), oracle) == sorted(planted)
    k, search = len(planted), math.ceil(math.log2(count)) + 1
    # A search for each, three questions around it, and one search begun in vain for a dense failure.
    assert len(oracle.answers) <= k * (search + 3) + search


@pytest.mark.parametrize(("planted", "most"), [({400}, 11), ({3, 790}, 22), ({3, 400, 790}, 34)])
def test_a_few_of_eight_hundred(planted, most):
    oracle = CountingOracle(planted.issubset)
    assert minimal_subset(range(800), oracle) == sorted(planted)
    assert lower_bound(800, len(planted)) < len(oracle.answers) <= most


@given(st.integers(1, 120), st.integers(1, 120))
def test_a_failure_of_size_takes_two_questions_an_item(count, least):
    least = min(count, least)
    oracle = CountingOracle(lambda chosen: len(chosen) >= least)
    assert len(minimal_subset(range(count), oracle)) == least
    assert len(oracle.answers) <= 3 * least + 2 * math.ceil(math.log2(count) + 1)


@given(st.data())
def test_a_failure_that_is_not_monotone_still_ends_one_minimal(data):
    count = data.draw(st.integers(1, 7))
    verdicts = {}

    def fails(chosen: frozenset[int]) -> bool:
        if len(chosen) == count:
            return True
        if not chosen:
            return False
        if chosen not in verdicts:
            verdicts[chosen] = data.draw(st.booleans())
        return verdicts[chosen]

    found = frozenset(minimal_subset(range(count), fails))
    assert fails(found)
    assert not any(fails(found - {item}) for item in found if len(found) > 1)


def test_of_two_causes_the_first_is_found():
    assert minimal_subset(range(50), CountingOracle(lambda chosen: 7 in chosen or 30 in chosen)) == [7]


def test_items_keep_the_order_that_they_are_given_in():
    assert minimal_subset([5, 3, 9, 1], CountingOracle({9, 5}.issubset)) == [5, 9]


@given(st.integers(2, 200), st.integers(1, 3), st.randoms(use_true_random=False))
def test_every_question_of_a_search_was_expected_and_expectations_do_not_change_the_answer(count, size, choose):
    planted = frozenset(choose.sample(range(count), min(size, count)))
    expected: set[frozenset[int]] = set()
    asked: list[frozenset[int]] = []

    def fails(chosen: frozenset[int]) -> bool:
        asked.append(chosen)
        return planted <= chosen

    assert minimal_subset(range(count), fails, expected.update) == sorted(planted)
    assert len([one for one in asked if one not in expected]) <= len(planted) + 1


def test_the_bound_counts_choices():
    assert lower_bound(800, 1) == pytest.approx(math.log2(800))
    assert lower_bound(10, 10) == 0
    assert lower_bound(3, 5) == 0
