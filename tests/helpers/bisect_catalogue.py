"""Failures that are planted into the whole decode step, and the operators that a bisection has to find.

All of them are for the stand-in compiler (``plants.py``) and hold for both made-up models at a batch size of four.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from decode_graphs import BATCH_SIZE
from deepinfer_neuron.bisection.probes.verdict import Outcome, Signature
from deepinfer_neuron.model.checkpoint.sizes import config_json
from torch import fx

KERNELS = 12
"""Kernels from which on a module counts as one with many."""

LARGE = 120
"""Operations from which on a module counts as large."""


@dataclass(frozen=True)
class Planted:
    """An operator of the graph, and the shape of its result if the plant asks for one."""

    operator: str
    shape: tuple[int, ...] | None = None

    def is_at(self, node: fx.Node) -> bool:
        """Whether a node is this operator."""
        value = node.meta["val"]
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else None
        return str(node.target) == self.operator and self.shape in (None, shape)


@dataclass(frozen=True)
class Entry:
    """One planted failure.

    Attributes:
        plants: for the stand-in.
        signature: of the failure, without its message.
        planted: the operators that have to be found, and nothing besides, before kernels are written out.
        any_others: whether others belong to the failure too, whichever they are.
        count: how many operators fail together; None if that depends on which.
        also_seen: codes of failures nearby that are met on the way.
        rate: the share of runs that fail.
    """

    name: str
    plants: Sequence[dict[str, Any]]
    signature: Signature
    planted: Sequence[Planted]
    any_others: bool = False
    count: int | None = None
    also_seen: Sequence[str] = ()
    rate: float = 1.0

    @property
    def is_miscompile(self) -> bool:
        """Whether the compiler succeeds and its program computes something else."""
        return self.signature.outcome == "different"

    def unexplained(self, nodes: Sequence[fx.Node]) -> list[str]:
        """The operators among ``nodes`` that are not planted, and the planted ones that are missing."""
        left = list(nodes)
        missing = []
        for planted in self.planted:
            found = next(filter(planted.is_at, left), None)
            if found is None:
                missing.append(f"{planted.operator} is missing")
            else:
                left.remove(found)
        return missing + ([] if self.any_others else [f"{node.target} is not planted" for node in left])


def operators(module: fx.GraphModule) -> list[fx.Node]:
    """The calls of a graph in order, without the parts of tuples."""
    return [node for node in module.graph.nodes if node.op == "call_function" and node.target is not operator.getitem]


def catalogue(size: str) -> tuple[Entry, ...]:
    """All entries for the step of a model of that size."""
    config = config_json(size)["text_config"]
    vocabulary, hidden, window = config["vocab_size"], config["hidden_size"], config["sliding_window"]
    gate = (config["hc_mult"] + 1) * hidden
    # The ends of the step: the lookup of the tokens, and the scores of the vocabulary.
    first = {"opcode": "gather", "result": _tensor("bf16", hidden)}
    last = {"opcode": "dot_general", "result": _tensor("f32", vocabulary)}
    embedding = Planted("aten.embedding.default", (BATCH_SIZE, hidden))
    scores = Planted("aten.mm.default", (BATCH_SIZE, vocabulary))
    return (
        Entry(
            "one operation",
            [_plant("error=IBIR243", _kernel("candidate_mask"))],
            _failed("error", "IBIR243"),
            [_operator("candidate_mask")],
            count=1,
        ),
        Entry(
            "a pair at both ends",
            [_plant("error=IBIR297", first, last)],
            _failed("error", "IBIR297"),
            [embedding, scores],
            count=2,
        ),
        Entry(
            "three operations",
            [_plant("error=ITEN404", _kernel("gated_pool"), _kernel("candidate_mask"), last)],
            _failed("error", "ITEN404"),
            [_operator("gated_pool"), _operator("candidate_mask"), scores],
            count=3,
        ),
        Entry(
            "one shape of a kernel",
            [_plant("error=TEN404", {**_kernel("quantized_linear"), "result": _tensor("bf16", gate)})],
            _failed("error", "TEN404"),
            [Planted("deepinfer.quantized_linear.default", (BATCH_SIZE, gate))],
            count=1,
        ),
        Entry(
            "one shape of an operation",
            [_plant("error=EVRF001", {"opcode": "remainder", "result": _tensor("i32", window)})],
            _failed("error", "EVRF001"),
            [Planted("aten.remainder.Scalar", (BATCH_SIZE, window))],
            count=1,
        ),
        Entry(
            "an operation inside a kernel",
            [_plant("error=EVRF001", {"opcode": "log_plus_one"})],
            _failed("error", "EVRF001"),
            [_operator("route")],
            count=1,
        ),
        Entry(
            "many kernels",
            [_plant("error=EVRF007", {"opcode": "composite", "entry": True, "count": KERNELS})],
            _failed("error", "EVRF007"),
            [],
            any_others=True,
            count=KERNELS,
        ),
        Entry(
            "an operation of a large program",
            [_plant("error=EOOM001", _kernel("candidate_mask"), at_least=LARGE)],
            _failed("error", "EOOM001"),
            [_operator("candidate_mask")],
            any_others=True,
        ),
        Entry(
            "a hang",
            [_plant("hang", _kernel("select_top_rows"))],
            _failed("timeout"),
            [_operator("select_top_rows")],
            count=1,
        ),
        Entry(
            "a crash where two follow each other",
            [_plant("signal=SIGSEGV", _kernel("route"), _kernel("mix_experts"), in_order=True)],
            _failed("signal", "SIGSEGV"),
            [_operator("route"), _operator("mix_experts")],
            count=2,
        ),
        Entry(
            "out of memory",
            [_plant("memory", _kernel("gated_pool"), _kernel("index_scores"))],
            _failed("out of memory"),
            [_operator("gated_pool"), _operator("index_scores")],
            count=2,
        ),
        Entry(
            "three runs in ten",
            [{**_plant("error=ILSA062", _kernel("engram_gate")), "probability": 0.3}],
            _failed("error", "ILSA062"),
            [_operator("engram_gate")],
            count=1,
            rate=0.3,
        ),
        Entry(
            "another failure nearby",
            [_plant("error=IBIR243", first, last), _plant("error=ILSA062", last)],
            _failed("error", "IBIR243"),
            [embedding, scores],
            count=2,
            also_seen=["ILSA062"],
        ),
        Entry(
            "one operation computes something else",
            [_plant("swap=subtract", {"opcode": "add", "result": _tensor("f32", hidden), "entry": True})],
            _failed("different"),
            [Planted("aten.add.Tensor", (BATCH_SIZE, hidden))],
            count=1,
        ),
        Entry(
            "two together compute something else",
            [_plant("double", _kernel("candidate_mask"), _kernel("swiglu"))],
            _failed("different"),
            [_operator("candidate_mask"), _operator("swiglu")],
            count=2,
        ),
    )


def _plant(then: str, *patterns: dict[str, Any], **when: Any) -> dict[str, Any]:
    return {"when": {"all": list(patterns), **when}, "then": then}


def _kernel(name: str) -> dict[str, Any]:
    return {"opcode": "composite", "name": f"deepinfer.{name}"}


def _operator(name: str) -> Planted:
    return Planted(f"deepinfer.{name}.default")


def _tensor(element: str, columns: int) -> str:
    return f"tensor<{BATCH_SIZE}x{columns}x{element}>"


def _failed(outcome: Outcome, code: str = "") -> Signature:
    return Signature(outcome, code)
