"""Steps made by hand."""

from __future__ import annotations

from collections.abc import Sequence

from deepinfer_neuron.explain.step import CacheUse, ExplainedProgram, ExplainedRegion, ExplainedStep, Handoff
from deepinfer_neuron.passes.observer import PassRecord


def make_step(
    names: Sequence[str],
    programs: Sequence[int],
    edges: Sequence[tuple[int, int]] = (),
    caches: Sequence[str] = (),
    uses: Sequence[tuple[str, int, bool]] = (),
) -> ExplainedStep:
    """A step of regions with these names and program numbers; an edge is a value of 256 bytes."""
    return ExplainedStep(
        batch_size=2,
        mode="regions",
        nodes=3 * len(names),
        stored=1,
        capture_s=1.0,
        passes_s=0.5,
        lowering_s=0.25,
        compile_s=2.0,
        passes=(PassRecord(0, "mark_stages", 2, 0.0125),),
        regions=tuple(
            ExplainedRegion(number, name, program, nodes=3, weights=4, slots=1, values=2, outputs=1)
            for number, (name, program) in enumerate(zip(names, programs, strict=True))
        ),
        programs=tuple(
            ExplainedProgram(number, f"{number:064x}", list(programs).count(number), 2048, 0.5)
            for number in sorted(set(programs))
        ),
        handoffs=tuple(Handoff(f"value_{maker}", maker, user, "float32[64]", 256) for maker, user in edges),
        caches=dict.fromkeys(caches, 4096),
        cache_uses=tuple(CacheUse(cache, region, updates) for cache, region, updates in uses),
        results=("logits",),
    )


def layered_step() -> ExplainedStep:
    """Two layers between an embedding and an end; the embedding's values and one selection are used again later."""
    return make_step(
        names=["embed", "layers.0.attention", "layers.0.experts", "layers.1.attention", "layers.1.experts", "end"],
        programs=[1, 2, 3, 2, 3, 4],
        edges=[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 3), (1, 3), (0, 4)],
        caches=["cache.window", "cache.state"],
        uses=[("cache.window", 1, True), ("cache.window", 3, False), ("cache.state", 3, True)],
    )
