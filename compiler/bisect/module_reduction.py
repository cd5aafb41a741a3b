"""Go on below the graph: the operations of its module, and of the functions that the module calls."""

from __future__ import annotations

from collections.abc import Sequence

from .item_reduction import reduce_items
from .module_simplifications import PROPOSERS
from .module_subject import ModuleSubject, inlined
from .questions import Questions, SubjectQuestions
from .subject import Candidate


def reduce_module(candidate: Candidate, questions: Questions) -> Candidate:
    """The smallest module that still fails, of a candidate that does; raises BudgetSpentError."""
    best = _fewest_operations(candidate, questions)
    written_out = inlined(best.module)
    if written_out != best.module:
        whole = _candidate(written_out)
        if questions.fails(whole):
            best = _fewest_operations(whole, questions)
    return _simplified(best, questions)


def _fewest_operations(candidate: Candidate, questions: Questions) -> Candidate:
    asked = SubjectQuestions(ModuleSubject(candidate.module), questions, "module: ")
    whole = asked.candidate(range(len(asked.subject.items)))
    if whole is None or not questions.fails(whole):
        return candidate
    kept = reduce_items(asked, (), lambda stage, kept: None)
    return asked.candidate(kept) or candidate


def _simplified(candidate: Candidate, questions: Questions) -> Candidate:
    """The fixpoint of the proposals that still fail."""
    best = candidate
    proposals: Sequence[bytes] = [one for proposer in PROPOSERS for one in proposer(best.module)]
    while proposals:
        simpler = next((one for one in map(_candidate, proposals) if questions.fails(one)), None)
        if simpler is None:
            return best
        best = simpler
        proposals = [one for proposer in PROPOSERS for one in proposer(best.module)]
    return best


def _candidate(module: bytes) -> Candidate:
    subject = ModuleSubject(module)
    return subject.candidate(range(len(subject.items)))
