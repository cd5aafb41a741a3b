"""The stages of a search, in their order, and the best that it has so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torch import fx

from ...errors import LoweringError
from ..probes.probe_runner import BudgetSpentError
from ..probes.verdict import Verdict
from ..simplify.expand import expand_kernels, has_kernels
from ..simplify.simplify import simplify
from ..subjects.graph_subject import GraphSubject
from ..subjects.module_rewrites import deduplicated
from ..subjects.module_simplifications import candidate_of
from ..subjects.module_subject import ModuleSubject
from ..subjects.subject import Candidate, Subject
from .item_reducer import reduce_items
from .module_reducer import reduce_module
from .options import SearchOptions
from .oracle import Oracle, SubsetOracle
from .removal import Removal, removals
from .result import OtherFailure, Reproduction, Stage, SurveyRow

_MOST_OTHERS = 3


class Reducer:
    """One search and the best that it has so far; the attributes are those of the result."""

    def __init__(
        self, subject: Subject, oracle: Oracle, options: SearchOptions, whole: Candidate, *, reads_modules: bool
    ):
        self.interrupted = False
        self.kept: Sequence[int] = range(len(subject.items))
        self.minimal = whole
        self.smallest_module = whole
        self.simplifications: list[str] = []
        self.removals: Sequence[Removal] = ()
        self.others: Sequence[OtherFailure] = ()
        self.survey: Sequence[SurveyRow] = ()
        self.stages: list[Stage] = []
        self.last = Reproduction(0, 0)
        self._oracle = oracle
        self._subject = subject
        self._options = options
        self._reads_modules = reads_modules
        self._runner = oracle.runner
        self._stage_start = (time.monotonic(), self._runner.probes)

    @property
    def good(self) -> Candidate | None:
        """The largest program without one operation of the minimal one that has no failure."""
        passing = [one.candidate for one in self.removals if one.candidate is not None and one.has_passed]
        return max(passing, key=lambda one: one.size, default=None)

    @property
    def is_minimal(self) -> bool:
        """Whether each operation was left out and the failure was lost each time."""
        return len(self.removals) == self.minimal.size and not any(one.fails for one in self.removals)

    def run(self) -> bool:
        """Go through all stages; False if the budget or Ctrl-C ended them early."""
        try:
            self._reduce(self._subject, self._keep_items)
            while self._simplify() or self._look_inside_kernels() or self._merge_operations():
                self._reduce(self._subject_of(self.minimal), self._keep)
            self._check_removals()
            self._run_again()
            if self._options.simplify and self._reads_modules:
                self._reduce_module()
            self._reduce_others()
        except (BudgetSpentError, KeyboardInterrupt) as end:
            self.interrupted = isinstance(end, KeyboardInterrupt)
            self.others = self.others or self._oracle.others
            self._count_runs(self._runner.verdicts(self.minimal, lambda done: True))
            return False
        return True

    def _reduce(self, subject: Subject, keep: Callable[[Candidate, Sequence[int]], None]) -> None:
        """Keep the fewest items of a subject that fails."""
        subsets = SubsetOracle(subject, self._oracle)
        whole = subject.candidate(range(len(subject.items)))

        def keep_items(stage: str, kept: Sequence[int]) -> None:
            candidate, before = subsets.candidate(kept), self.minimal.size
            assert candidate is not None
            keep(candidate, kept)
            self._end_stage(stage, before)

        note_survey = self._note_survey if self._options.one_by_one and subject is self._subject else None
        try:
            reduce_items(subsets, self._runner.verdicts(whole, bool), keep_items, note_survey)
        except (BudgetSpentError, KeyboardInterrupt):
            smaller = None if subsets.smallest is None else subsets.candidate(subsets.smallest)
            if subsets.smallest is not None and smaller is not None and smaller.size < self.minimal.size:
                keep_items(self._oracle.stage, sorted(subsets.smallest))
            raise

    def _note_survey(self, rows: Sequence[SurveyRow]) -> None:
        self.survey = rows

    def _keep_items(self, candidate: Candidate, kept: Sequence[int]) -> None:
        self.kept = sorted(kept)
        self._keep(candidate)

    def _keep(self, candidate: Candidate, kept: Sequence[int] = ()) -> None:
        self.minimal = self.smallest_module = candidate

    def _simplify(self) -> bool:
        """Make the minimal graph simpler, operations left as they are; whether anything came of it."""
        graph, before = self.minimal.graph, self.minimal.size
        if graph is None or not self._options.simplify:
            return False
        self._oracle.stage = "simpler graphs"

        def fails(module: fx.GraphModule, aliases: Mapping[int, int]) -> bool:
            try:
                candidate = self._candidate(module, aliases)
            except LoweringError:
                # Operators' own checks let types pass that their lowering refuses.
                return False
            return self._oracle.fails(candidate)

        module, aliases, titles = simplify(graph, self.minimal.aliases, fails)
        if titles:
            self._keep(self._candidate(module, aliases))
            self.simplifications += titles
        self._end_stage(self._oracle.stage, before)
        return bool(titles)

    def _look_inside_kernels(self) -> bool:
        """Write out the kernels of the minimal graph, if it fails then too."""
        graph = self.minimal.graph
        if graph is None or not has_kernels(graph):
            return False
        assert isinstance(self._subject, GraphSubject)
        expanded = expand_kernels(graph, self._subject.options)
        self._options.prepare(expanded)
        candidate = self._candidate(expanded, self.minimal.aliases)
        fails = self._replace_minimal(candidate, "inside kernels", "kernels written out")
        if fails:
            self._oracle.count_anew(candidate.size)
        return fails

    def _merge_operations(self) -> bool:
        """Make one of equal operations of a minimal module, if it fails then too. Graphs are left to their modules."""
        smaller = deduplicated(self.minimal.module)
        if self.minimal.graph is not None or not self._options.simplify or smaller == self.minimal.module:
            return False
        stage = "equal operations as one"
        return self._replace_minimal(candidate_of(smaller), stage, stage)

    def _replace_minimal(self, candidate: Candidate, stage: str, title: str) -> bool:
        """Take another form of the minimal program if it fails too; whether it does."""
        self._oracle.stage = stage
        before = self.minimal.size
        fails = self._oracle.fails(candidate)
        if fails:
            self.simplifications.append(f"{title}: {before} operations became {candidate.size}")
            self._keep(candidate)
        self._end_stage(stage, before)
        return fails

    def _check_removals(self) -> None:
        self._oracle.stage = "removals"
        self.removals = removals(SubsetOracle(self._subject_of(self.minimal), self._oracle))
        self._end_stage(self._oracle.stage, self.minimal.size)

    def _run_again(self) -> None:
        runs = self._options.repeats if self._oracle.test.runs == 1 else self._oracle.test.runs
        self._count_runs(self._runner.verdicts(self.minimal, lambda done: len(done) >= runs))

    def _count_runs(self, verdicts: Sequence[Verdict]) -> None:
        self.last = Reproduction(sum(map(self._oracle.test.accepts, verdicts)), len(verdicts))

    def _reduce_module(self) -> None:
        """Go on with the operations of the module, and of the functions that it calls."""
        before = candidate_of(self.minimal.module).size
        reduce_module(self.minimal, self._oracle, self._keep_module)
        self._end_stage("module", before, self.smallest_module.size)

    def _keep_module(self, candidate: Candidate) -> None:
        self.smallest_module = candidate

    def _reduce_others(self) -> None:
        """Reduce what else was met, too; the operations only."""
        self.others = self._oracle.others
        for number, other in enumerate(self.others[:_MOST_OTHERS]):
            test = replace(self._oracle.test, wanted=other.signature)
            oracle = Oracle(self._runner, test, self._oracle.on_progress, other.candidate.size)
            subsets = SubsetOracle(self._subject_of(other.candidate), oracle)
            smaller = subsets.candidate(reduce_items(subsets, self._runner.verdicts(other.candidate, bool)))
            assert smaller is not None
            rest = [*self.others]
            rest[number] = replace(other, candidate=smaller)
            self.others = rest
            self._end_stage(f"also seen {number + 1}", other.candidate.size, smaller.size)

    def _subject_of(self, candidate: Candidate) -> Subject:
        if candidate.graph is None or not isinstance(self._subject, GraphSubject):
            return ModuleSubject(candidate.module)
        return GraphSubject(candidate.graph, candidate.aliases, self._subject.options)

    def _candidate(self, module: fx.GraphModule, aliases: Mapping[int, int]) -> Candidate:
        assert isinstance(self._subject, GraphSubject)
        subject = GraphSubject(module, aliases, self._subject.options)
        return subject.candidate(range(len(subject.items)))

    def _end_stage(self, name: str, before: int, after: int | None = None) -> None:
        start, probes = self._stage_start
        now = time.monotonic()
        size = self.minimal.size if after is None else after
        self.stages.append(Stage(name, before, size, self._runner.probes - probes, now - start))
        self._stage_start = (now, self._runner.probes)
