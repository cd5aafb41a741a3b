"""Every value that a graph computes lies in the range that was worked out for it."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.context import placeholders
from deepinfer_neuron.passes.interval import Interval
from deepinfer_neuron.passes.value_ranges import ValueRanges
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten


class Recorder(fx.Interpreter):
    """Checks each integer value against its range."""

    def __init__(self, module: fx.GraphModule, ranges: ValueRanges):
        super().__init__(module)
        self.ranges = ranges
        self.compared = 0

    def run_node(self, n: fx.Node):
        value = super().run_node(n)
        if n.op != "output" and isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and value.numel():
            assert Interval.of_tensor(value).within(self.ranges[n]), (n.format_node(), value, str(self.ranges[n]))
            self.compared += 1
        return value


def ranges_of(function, inputs: list[torch.Tensor]) -> tuple[fx.GraphModule, ValueRanges]:
    module = make_fx(function, tracing_mode="fake")(*inputs)
    return module, ValueRanges(module, lambda position: Interval.of_tensor(inputs[position]))


def last_range(function, *inputs: torch.Tensor) -> Interval:
    module, ranges = ranges_of(function, list(inputs))
    (result,) = module.graph.find_nodes(op="output")[0].all_input_nodes
    return ranges[result]


EXPRESSIONS = [
    lambda x, y: x + y,
    lambda x, y: torch.sub(x, y, alpha=3),
    lambda x, y: x * y,
    lambda x, y: -x,
    lambda x, y: x.abs(),
    lambda x, y: x // torch.where(y == 0, 1, y),
    lambda x, y: x // 7,
    lambda x, y: torch.div(x, -3, rounding_mode="trunc"),
    lambda x, y: torch.div(x, y.abs() + 1, rounding_mode="trunc"),
    lambda x, y: x % 5,
    lambda x, y: x % (y.abs() + 2),
    lambda x, y: x % -4,
    lambda x, y: x.clamp(-2, 9),
    lambda x, y: x.clamp(min=3),
    lambda x, y: x.clamp_max(1),
    lambda x, y: torch.maximum(x, y),
    lambda x, y: torch.minimum(x, y),
    lambda x, y: torch.where(x > y, x, -1),
    lambda x, y: x & y,
    lambda x, y: x | y,
    lambda x, y: x ^ 5,
    lambda x, y: (x & 255) << 3,
    lambda x, y: x >> 2,
    lambda x, y: x.int().long() + y.to(torch.uint8),
    lambda x, y: x.flip(0) + x.sum() - x.sum(0, keepdim=True),
    lambda x, y: x.cumsum(0),
    lambda x, y: x.gather(0, y % 4),
    lambda x, y: x.index_put((y % 4,), x),
    lambda x, y: x.scatter(0, y % 4, 12),
    lambda x, y: torch.cat((x[:2], y[2:])),
    lambda x, y: torch.stack((x[:2], y[2:])).view(4),
    lambda x, y: x.sort().values - x.argsort(),
    lambda x, y: x.topk(4).indices + y.argmax(),
    lambda x, y: x.max(0).indices + x.amin() + torch.zeros_like(x),
    lambda x, y: x * torch.arange(-3, 5, 2) + torch.ones_like(y) - torch.full((4,), 6),
    lambda x, y: torch.constant_pad_nd(x[1:3], (1, 1), 9),
    lambda x, y: (x > y).long() + (x > y).sum(),
    lambda x, y: torch.stack(x.split(2)[::-1]).flatten() + x.unbind(0)[1],
    lambda x, y: x.masked_fill(x > 2, 40),
]
SMALL, LARGE = st.integers(-20, 20), st.integers(-(2**62), 2**62)
STEPS = st.lists(st.tuples(st.integers(0, len(EXPRESSIONS) - 1), st.integers(0, 3), st.integers(0, 3)), max_size=5)


def check(steps, x, y, dtype):
    def function(*inputs):
        values = [*inputs, *inputs]
        for number, first, second in steps:
            values.append(EXPRESSIONS[number](values[-1 - first], values[-1 - second]))
        return values[-1]

    inputs = [torch.tensor(x, dtype=torch.int64).to(dtype), torch.tensor(y, dtype=torch.int64).to(dtype)]
    module, ranges = ranges_of(function, inputs)
    recorder = Recorder(module, ranges)
    recorder.run(*inputs)
    assert recorder.compared >= 2


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_each_operator_stays_in_its_range(number):
    check([(number, 0, 1)], [-7, 3, 0, 12], [2, -5, 3, 1], torch.int64)
    check([(number, 1, 0)], [2**62, 3, -(2**63), 12], [2, -5, 2**61, 1], torch.int64)


@settings(deadline=None, max_examples=25)
@given(
    STEPS,
    *[st.lists(st.one_of(SMALL, LARGE), min_size=4, max_size=4)] * 2,
    st.sampled_from([torch.int64, torch.int32]),
)
def test_random_expressions_stay_in_their_ranges(steps, x, y, dtype):
    check(steps, x, y, dtype)


X, ROWS = torch.tensor([3, -2, 8]), torch.tensor([0, 5], dtype=torch.int32)

KNOWN = {
    "sum": (lambda x: x + 2 * x, (-6, 24)),
    "difference": (lambda x: 1 - x, (-7, 3)),
    "floor": (lambda x: x // 3, (-1, 2)),
    "remainder": (lambda x: x % 4, (0, 3)),
    "small remainder": (lambda x: x.abs() % 100, (0, 8)),
    "magnitude": (lambda x: x.abs(), (0, 8)),
    "limits": (lambda x: x.clamp(0, 5), (0, 5)),
    "mask": (lambda x: x & 6, (0, 6)),
    "shift": (lambda x: x << 2, (-8, 32)),
    "count": (lambda x: (x > 0).sum(), (0, 3)),
    "positions": (lambda x: x.argsort(), (0, 2)),
    "ramp": (lambda x: torch.arange(10, 2, -3), (4, 10)),
    "comparison": (lambda x: x > 2, (0, 1)),
    "float": (lambda x: (x * 0.5).long(), (-(2**63), 2**63 - 1)),
    "overflow": (lambda x: x * 2**61, (-(2**63), 2**63 - 1)),
    "narrow": (lambda x: (x + 300).to(torch.uint8), (0, 255)),
    "nothing": (lambda x: x[:0], (0, 0)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_ranges_are_no_wider_than_they_have_to_be(name):
    function, expected = KNOWN[name]
    assert last_range(function, X) == Interval(*expected)


def test_an_input_of_which_nothing_is_known_may_be_any_value_of_its_type():
    module = make_fx(lambda x, rows: (x, rows), tracing_mode="fake")(X, ROWS)
    ranges = ValueRanges(module, lambda position: None)
    assert [ranges[node] for node in placeholders(module)] == [
        Interval.of_dtype(torch.int64),
        Interval.of_dtype(torch.int32),
    ]
