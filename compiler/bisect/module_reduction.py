"""Go on below the graph: the operations of its module, and of the functions that the module calls."""

from __future__ import annotations

from .item_reduction import reduce_items
from .module_inlining import inlined
from .module_simplifications import PROPOSERS, ModuleProposal, candidate_of
from .module_subject import ModuleSubject
from .questions import Questions, SubjectQuestions
from .subject import Candidate


def reduce_module(candidate: Candidate, questions: Questions) -> Candidate:
    """The smallest module that still fails, of a candidate that does; raises BudgetSpentError."""
    best = _simplified(_fewest_operations(candidate, questions), questions)
    written_out = inlined(best.module)
    if written_out == best.module:
        return best
    whole = candidate_of(written_out)
    questions.stage = "module: functions written out"
    return _simplified(_fewest_operations(whole, questions), questions) if questions.fails(whole) else best


def _fewest_operations(candidate: Candidate, questions: Questions) -> Candidate:
    asked = SubjectQuestions(ModuleSubject(candidate.module), questions, "module: ")
    asked.begin("whole")
    whole = asked.candidate(range(len(asked.subject.items)))
    if whole is None or not questions.fails(whole):
        return candidate
    return asked.candidate(reduce_items(asked, (), lambda stage, kept: None)) or candidate


def _simplified(candidate: Candidate, questions: Questions) -> Candidate:
    """Take the first simpler module that fails, again and again, until none does."""
    questions.stage = "module: simpler"
    simpler = _first_failing(candidate, questions)
    while simpler is not None:
        candidate, simpler = simpler, _first_failing(simpler, questions)
    return candidate


def _first_failing(candidate: Candidate, questions: Questions) -> Candidate | None:
    proposals = (proposal for proposer in PROPOSERS for proposal in proposer(candidate.module))
    return next((one for one in map(_proposed, proposals) if questions.fails(one)), None)


def _proposed(proposal: ModuleProposal) -> Candidate:
    return candidate_of(proposal.module)
