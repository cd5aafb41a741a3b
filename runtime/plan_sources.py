"""The sources of this package that decide a plan, for its key."""

from __future__ import annotations

from .sources import PACKAGE, source_digests

_STEPS = f"{PACKAGE}.compiler.steps.started_steps"
"""Captures a step, passes and cuts it, and plans its replay."""

_PROGRAMS = f"{PACKAGE}.compiler.programs.region_lowering"
"""Lowers regions and names their programs."""

_TARGETS = {"host": "host", "iree": "iree", "trn1": "neuronx", "trn2": "neuronx", "trn3": "neuronx"}
"""The module of ``compiler.targets`` that compiles for a target."""


def plan_sources(target: str) -> dict[str, str]:
    """Digests by module name of what makes a plan and the programs that it names, for ``target``.

    The model's own sources are a part of its identity. Nothing is imported: whoever loads a plan needs none of it.
    """
    return source_digests(_STEPS, _PROGRAMS, f"{PACKAGE}.compiler.targets.{_TARGETS.get(target, 'table')}")
