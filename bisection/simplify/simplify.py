"""The proposers in their order, and the search for a graph that none of them can make simpler."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import fx

from .attributes import default_arguments, plain_numbers
from .dtypes import plain_dtypes
from .inputs import free_constants, merge_inputs
from .proposal import Proposal, Proposer
from .results import drop_aliases, return_fewer
from .sizes import shrink_single_sizes, shrink_sizes

PROPOSERS: tuple[Proposer, ...] = (
    drop_aliases,
    return_fewer,
    free_constants,
    shrink_sizes,
    shrink_single_sizes,
    merge_inputs,
    plain_dtypes,
    default_arguments,
    plain_numbers,
)

FailsGraph = Callable[[fx.GraphModule, Mapping[int, int]], bool]
"""Whether a graph with these aliases fails in the wanted way."""


def simplify(
    module: fx.GraphModule, aliases: Mapping[int, int], fails: FailsGraph
) -> tuple[fx.GraphModule, Mapping[int, int], list[str]]:
    """The first proposal that fails, again and again, until none does; and the titles of those taken, in order.

    The given graph, which must fail, is not changed. A question may be asked again.
    """
    titles: list[str] = []
    while True:
        simpler = _first_failing(module, aliases, fails)
        if simpler is None:
            return module, aliases, titles
        module, aliases = simpler.module, simpler.aliases
        titles.append(simpler.title)


def _first_failing(module: fx.GraphModule, aliases: Mapping[int, int], fails: FailsGraph) -> Proposal | None:
    proposals = (proposal for proposer in PROPOSERS for proposal in proposer(module, aliases))
    return next((one for one in proposals if fails(one.module, one.aliases)), None)
