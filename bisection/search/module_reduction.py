"""Go on below the graph: the operations of its module, and of the functions that the module calls."""

from __future__ import annotations

from collections.abc import Callable

from ..subjects.module_inlining import inlined
from ..subjects.module_merging import merged
from ..subjects.module_simplifications import PROPOSERS, ModuleProposal, candidate_of
from ..subjects.module_subject import ModuleSubject
from ..subjects.subject import Candidate
from .item_reduction import reduce_items
from .questions import Questions, SubjectQuestions

Accept = Callable[[Candidate], None]
"""Called with each smaller module that fails, so that an interrupted search leaves the best so far."""


def reduce_module(candidate: Candidate, questions: Questions, accept: Accept) -> None:
    """Find the smallest module that still fails, of a candidate that does; raises BudgetSpentError."""
    best = _smallest(_merged(candidate, questions), questions, accept)
    written_out = inlined(best.module)
    if written_out == best.module:
        return
    whole = candidate_of(written_out)
    questions.stage = "module: functions written out"
    if questions.fails(whole):
        questions.count_anew(whole.size)
        _smallest(_merged(whole, questions), questions, accept)


def _smallest(candidate: Candidate, questions: Questions, accept: Accept) -> Candidate:
    fewest = _fewest_operations(candidate, questions)
    accept(fewest)
    return _simplified(fewest, questions, accept)


def _merged(candidate: Candidate, questions: Questions) -> Candidate:
    """The candidate with equal operations as one, if it fails so too."""
    smaller = merged(candidate.module)
    if smaller == candidate.module:
        return candidate
    questions.stage = "module: equal operations as one"
    whole = candidate_of(smaller)
    return whole if questions.fails(whole) else candidate


def _fewest_operations(candidate: Candidate, questions: Questions) -> Candidate:
    asked = SubjectQuestions(ModuleSubject(candidate.module), questions, "module: ")
    asked.begin("whole")
    whole = asked.candidate(range(len(asked.subject.items)))
    if whole is None or not questions.fails(whole):
        return candidate
    questions.count_anew(whole.size)
    return asked.candidate(reduce_items(asked, (), lambda stage, kept: None)) or candidate


def _simplified(candidate: Candidate, questions: Questions, accept: Accept) -> Candidate:
    """Take the first simpler module that fails, again and again, until none does."""
    questions.stage = "module: simpler"
    simpler = _first_failing(candidate, questions)
    while simpler is not None:
        accept(simpler)
        candidate, simpler = simpler, _first_failing(simpler, questions)
    return candidate


def _first_failing(candidate: Candidate, questions: Questions) -> Candidate | None:
    proposals = (proposal for proposer in PROPOSERS for proposal in proposer(candidate.module))
    return next((one for one in map(_proposed, proposals) if questions.fails(one)), None)


def _proposed(proposal: ModuleProposal) -> Candidate:
    return candidate_of(proposal.module)
