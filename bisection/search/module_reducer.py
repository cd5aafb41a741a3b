"""Go on below the graph: the operations of its module, and of the functions that the module calls."""

from __future__ import annotations

from collections.abc import Callable

from ..subjects.module_rewrites import deduplicated, inlined
from ..subjects.module_simplifications import MODULE_PROPOSERS, candidate_of
from ..subjects.module_subject import ModuleSubject
from ..subjects.subject import Candidate
from .item_reducer import reduce_items
from .oracle import Oracle, SubsetOracle

KeepModule = Callable[[Candidate], None]
"""Called with each smaller module that fails, so that an interrupted search leaves the best so far."""


def reduce_module(candidate: Candidate, oracle: Oracle, keep: KeepModule) -> None:
    """Find the smallest module that still fails, of a candidate that does; raises BudgetSpentError."""
    best = _smallest(candidate, oracle, keep)
    written_out = inlined(best.module)
    if written_out == best.module:
        return
    whole = candidate_of(written_out)
    oracle.stage = "module: functions written out"
    if oracle.fails(whole):
        oracle.count_anew(whole.size)
        _smallest(whole, oracle, keep)


def _smallest(candidate: Candidate, oracle: Oracle, keep: KeepModule) -> Candidate:
    fewest = _fewest_operations(_deduplicated(candidate, oracle), oracle)
    keep(fewest)
    return _simplified(fewest, oracle, keep)


def _deduplicated(candidate: Candidate, oracle: Oracle) -> Candidate:
    """The candidate with equal operations as one, if it fails so too."""
    smaller = deduplicated(candidate.module)
    if smaller == candidate.module:
        return candidate
    oracle.stage = "module: equal operations as one"
    whole = candidate_of(smaller)
    return whole if oracle.fails(whole) else candidate


def _fewest_operations(candidate: Candidate, oracle: Oracle) -> Candidate:
    subsets = SubsetOracle(ModuleSubject(candidate.module), oracle, "module: ")
    subsets.begin("whole")
    whole = subsets.candidate(range(len(subsets.subject.items)))
    if whole is None or not oracle.fails(whole):
        return candidate
    oracle.count_anew(whole.size)
    return subsets.candidate(reduce_items(subsets, ())) or candidate


def _simplified(candidate: Candidate, oracle: Oracle, keep: KeepModule) -> Candidate:
    """Take the first simpler module that fails, again and again, until none does."""
    oracle.stage = "module: simpler"
    simpler = _first_failing(candidate, oracle)
    while simpler is not None:
        keep(simpler)
        candidate, simpler = simpler, _first_failing(simpler, oracle)
    return candidate


def _first_failing(candidate: Candidate, oracle: Oracle) -> Candidate | None:
    simpler = (candidate_of(module) for proposer in MODULE_PROPOSERS for module in proposer(candidate.module))
    return next((one for one in simpler if oracle.fails(one)), None)
