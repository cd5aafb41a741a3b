"""The demo's results as tables for a terminal."""

from __future__ import annotations

from ..reporting import Table
from ..verification.demo import DemoReport


def demo_tables(report: DemoReport) -> list[Table]:
    """Eager against golden per prompt, compiled against both per batch size, the first layer bit by bit."""
    prompts = tuple(
        (
            prompt.name,
            prompt.tokens,
            f"{prompt.argmax_match}/{prompt.steps}",
            f"{prompt.logits_rel:.2e}",
            f"{prompt.floor_rel:.2e}",
            f"{1 - prompt.logits_cos:.2e}",
            f"{1 - prompt.floor_cos:.2e}",
            f"{prompt.kl:.2e}",
        )
        for prompt in report.prompts
    )
    compiled = tuple(
        (
            one.batch_size,
            f"{one.programs}/{one.regions}",
            f"{one.argmax_match}/{one.steps}",
            f"{one.rel_rms_to_eager:.2e}",
            f"{one.teacher_forced_logits_rel:.2e}",
            f"{one.teacher_forced_mismatch:.2e}",
            f"{one.ms_per_step:.1f}",
            f"{one.eager_ms_per_step:.1f}",
            one.nodes,
            f"{one.capture_s:.1f}",
            f"{one.lowering_s:.1f}",
            f"{one.compile_s:.1f}",
        )
        for one in report.compiled
    )
    equal = sum(comparison.equal for comparison in report.layer0)
    differing = tuple((one.op, one.max_ulp) for one in report.layer0 if not one.equal)
    return [
        Table(
            "Eager model against the reference (floor: the reference against itself on another number of threads)",
            ("prompt", "tokens", "argmax", "logits rel", "floor rel", "1-cos", "floor 1-cos", "KL"),
            prompts,
        ),
        Table(
            "Compiled against golden choices and against eager (fed: each step starts from eager's caches)",
            (
                "batch",
                "programs/regions",
                "argmax",
                "rel",
                "rel fed",
                "cache fed",
                "ms",
                "eager ms",
                "nodes",
                "capture s",
                "lower s",
                "compile s",
            ),
            compiled,
        ),
        Table(
            f"First layer against the reference: {equal} of {len(report.layer0)} values equal to the bit",
            ("operation that differs", "ulps"),
            differing,
        ),
    ]
