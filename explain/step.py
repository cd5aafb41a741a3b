"""What a compiled step is made of: its passes, regions and programs, and what goes from region to region."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ..passes.observer import PassRecord
from ..runtime.artifacts import Artifact, TensorType
from ..runtime.plan import RegionPlan, ReplayPlan
from ..runtime.runner import DecodeRunner
from ..runtime.stats import CompileReport


@dataclass(frozen=True)
class ExplainedProgram:
    """A compiled program of a step.

    Attributes:
        number: from 1, in the order of first use.
        digest: sha256 of the artifact.
        uses: regions that call it.
        bytes: size of the artifact.
        seconds: time in the target's compiler.
    """

    number: int
    digest: str
    uses: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class ExplainedRegion:
    """A call of a program.

    Attributes:
        number: from 0, in the order of execution.
        name: the stages it is made of.
        program: number of its program.
        nodes: calls in its graph.
        weights: inputs of that kind; likewise the next two, for the step's slots and for earlier regions' values.
        outputs: values that it makes; updated caches are not among them.
    """

    number: int
    name: str
    program: int
    nodes: int
    weights: int
    slots: int
    values: int
    outputs: int


@dataclass(frozen=True)
class Handoff:
    """A value that one region makes and another, ``user``, reads; ``type`` is its dtype and shape."""

    name: str
    maker: int
    user: int
    type: str
    bytes: int


@dataclass(frozen=True)
class CacheUse:
    """A region that reads a cache root or, with ``updates``, writes into it."""

    cache: str
    region: int
    updates: bool


@dataclass(frozen=True)
class ExplainedStep:
    """One batch size.

    ``caches`` maps a cache root's name to its bytes; seconds, and how many programs were ``stored`` before, are those
    of ``CompileReport``.
    """

    batch_size: int
    mode: str
    nodes: int
    stored: int
    capture_s: float
    passes_s: float
    lowering_s: float
    compile_s: float
    passes: tuple[PassRecord, ...]
    regions: tuple[ExplainedRegion, ...]
    programs: tuple[ExplainedProgram, ...]
    handoffs: tuple[Handoff, ...]
    caches: Mapping[str, int]
    cache_uses: tuple[CacheUse, ...]
    results: tuple[str, ...]


def explain_runner(runner: DecodeRunner) -> list[ExplainedStep]:
    """Every batch size that a runner was compiled for in this process, smallest first."""
    replays = {replay.batch_size: replay for replay in runner.plan.replays}
    reports = sorted(runner.reports, key=lambda report: report.batch_size)
    artifacts = {digest: executable.artifact for digest, executable in runner.executables.items()}
    return [explain_step(replays[report.batch_size], report, artifacts) for report in reports]


def explain_step(replay: ReplayPlan, report: CompileReport, artifacts: Mapping[str, Artifact]) -> ExplainedStep:
    """Put together what the plan, the report and the programs of one batch size say."""
    uses = Counter(region.artifact for region in replay.regions)
    numbers = {digest: number for number, digest in enumerate(uses, start=1)}
    bindings = [binding for binding in replay.bindings if binding.kind == "kv"]
    return ExplainedStep(
        batch_size=replay.batch_size,
        mode=report.mode,
        nodes=report.nodes,
        stored=report.stored,
        capture_s=report.capture_s,
        passes_s=report.passes_s,
        lowering_s=report.lowering_s,
        compile_s=report.compile_s,
        passes=report.passes,
        regions=tuple(
            _explain_region(number, region, numbers[region.artifact], nodes)
            for number, (region, nodes) in enumerate(zip(replay.regions, report.region_nodes, strict=True))
        ),
        programs=tuple(
            ExplainedProgram(numbers[digest], digest, count, len(artifacts[digest].payload), report.program_s[digest])
            for digest, count in uses.items()
        ),
        handoffs=tuple(_handoffs(replay.regions, artifacts)),
        caches={one.name: prod(one.shape) * one.dtype.itemsize for one in bindings},
        cache_uses=tuple(use for number, region in enumerate(replay.regions) for use in _cache_uses(number, region)),
        results=replay.results,
    )


def _explain_region(number: int, region: RegionPlan, program: int, nodes: int) -> ExplainedRegion:
    kinds = Counter(binding.kind for binding in region.inputs)
    return ExplainedRegion(
        number=number,
        name=region.name,
        program=program,
        nodes=nodes,
        weights=kinds["weight"],
        slots=kinds["slot"],
        values=kinds["value"],
        outputs=len(region.outputs) - len(region.aliases),
    )


def _handoffs(regions: Sequence[RegionPlan], artifacts: Mapping[str, Artifact]) -> list[Handoff]:
    makers: dict[str, tuple[int, TensorType]] = {}
    handoffs = []
    for number, region in enumerate(regions):
        for binding in region.inputs:
            if binding.kind == "value":
                maker, value = makers[binding.name]
                size = prod(value.shape) * value.dtype.itemsize
                handoffs.append(Handoff(binding.name, maker, number, str(value), size))
        for index, (name, value) in enumerate(zip(region.outputs, artifacts[region.artifact].outputs, strict=True)):
            if index not in region.aliases:
                makers[name] = (number, value)
    return handoffs


def _cache_uses(number: int, region: RegionPlan) -> list[CacheUse]:
    updated = {region.inputs[source].name for source in region.aliases.values()}
    names = dict.fromkeys(binding.name for binding in region.inputs if binding.kind == "kv")
    return [CacheUse(name, number, name in updated) for name in names]
