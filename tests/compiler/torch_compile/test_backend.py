from __future__ import annotations

import copy
import itertools
import threading

import pytest
import torch
from deepinfer_neuron.compiler.torch_compile import backend as backend_module
from deepinfer_neuron.settings import Settings
from torch import nn
from torch.nn import functional

BACKEND = "deepinfer_neuron"


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def assert_same(function, *arguments, calls=2, **options):
    """Compiled and eager give the same results and leave the same arguments, call after call."""
    compiled = torch.compile(function, backend=BACKEND, **options)
    eager_arguments, arguments = copy.deepcopy(arguments), copy.deepcopy(arguments)
    for _ in range(calls):
        expected, actual = function(*eager_arguments), compiled(*arguments)
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(arguments, eager_arguments)
        for one, other in zip(
            torch.utils._pytree.tree_leaves(actual), torch.utils._pytree.tree_leaves(expected), strict=True
        ):
            if isinstance(one, torch.Tensor):
                assert one.stride() == other.stride()


def updates_and_returns(x, y):
    x.add_(y)
    return x * 2


def updates_only(x):
    x.mul_(2)


def updates_a_view(x):
    x[1].fill_(3)
    return x.sum()


def returns_inputs_and_views(x):
    return x, x.t(), x[1:], x.view(-1), x + 1


def returns_no_tensor(x):
    return None, x + 1, 3


def breaks_on_data(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x, y: x + y, (torch.randn(4, 5), torch.randn(5))),
        (updates_and_returns, (torch.randn(4, 5), torch.randn(5))),
        (updates_only, (torch.randn(4, 5),)),
        (updates_a_view, (torch.randn(4, 5),)),
        (returns_inputs_and_views, (torch.randn(4, 5),)),
        (returns_no_tensor, (torch.randn(4),)),
        (breaks_on_data, (torch.randn(4),)),
        (lambda x, scale: x * scale, (torch.randn(4), 3)),
        (lambda x, scale: x * scale, (torch.randn(4), 2.5)),
        (lambda x: x * 2, (torch.randn(4, 5).t(),)),
        (lambda x: x * 2, (torch.randn(41)[1:],)),
        (updates_only, (torch.randn(41)[1:],)),
        (updates_only, (torch.randn(4, 5).t(),)),
        (lambda x: x * 2, (torch.randn(4, 1).expand(4, 7),)),
        (lambda x: (x * 2).t(), (torch.randn(4, 5),)),
        (lambda x: x // 3 + x % 4, (torch.arange(-10, 10),)),
        (lambda x: x.to(torch.int32) * 2 > 3, (torch.arange(-3, 3, dtype=torch.int8),)),
        (lambda x: x * 2, (torch.zeros(0, 3),)),
        (lambda x: x * 2, (torch.tensor(3.0),)),
        (lambda x, y: x @ y, (torch.randn(4, 5).bfloat16(), torch.randn(5, 6).bfloat16())),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_compiled_equals_eager(function, arguments):
    assert_same(function, *arguments)


def test_an_aligned_input_is_updated_in_its_own_memory():
    root = torch.zeros(64, 16, dtype=torch.bfloat16)
    address = root.data_ptr()

    @torch.compile(backend=BACKEND)
    def store(root, rows, values):
        root.index_put_((rows,), values)
        return root[rows].float()

    values = torch.randn(2, 16).bfloat16()
    result = store(root, torch.tensor([3, 5]), values)
    assert root.data_ptr() == address
    assert torch.equal(root[[3, 5]], values)
    assert torch.equal(result, values.float())
    assert not root[:3].any()


SLICES = [slice(0, 4), slice(2, 6), slice(8, 12)]


@pytest.mark.parametrize("fresh_first", [True, False])
def test_every_overlap_of_updated_inputs_is_right(fresh_first):
    def step(x, y):
        x.mul_(2)
        return x + y

    compiled = torch.compile(step, backend=BACKEND)
    if fresh_first:
        torch.testing.assert_close(compiled(torch.ones(4), torch.ones(4)), torch.full((4,), 3.0))
    for first, second in itertools.permutations(SLICES, 2):
        base, eager_base = torch.arange(16.0), torch.arange(16.0)
        expected = step(eager_base[first], eager_base[second])
        assert torch.equal(compiled(base[first], base[second]), expected)
        assert torch.equal(base, eager_base)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speed": 1}, r"unknown options \['speed'\]"),
        ({"numerics": "wild"}, "unknown numerics"),
        ({"target": "gpu"}, "unknown target"),
    ],
)
def test_unknown_options_are_refused(options, message):
    with pytest.raises(Exception, match=message):
        torch.compile(lambda x: x * 2, backend=BACKEND, options=options)(torch.randn(3))


@pytest.mark.parametrize("function", [lambda x: torch.rand(3) + x, lambda x: (x.cfloat() * 2).real])
def test_what_has_no_lowering_is_refused(function):
    with pytest.raises(Exception, match="LoweringError"):
        torch.compile(function, backend=BACKEND)(torch.randn(3))


def test_exact_numerics_give_eager_bits():
    def normalise(x):
        return x / x.sum(-1, keepdim=True) * 3 + x.mean(-1, keepdim=True)

    x = torch.rand(7, 33) + 1
    assert torch.equal(torch.compile(normalise, backend=BACKEND, options={"numerics": "exact"})(x), normalise(x))


def test_other_threads_may_call_a_compiled_function():
    compiled = torch.compile(lambda x: x * 2, backend=BACKEND)
    compiled(torch.ones(3))
    results: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: results.append(compiled(torch.ones(3))))
    thread.start()
    thread.join()
    assert torch.equal(results[0], torch.full((3,), 2.0))


class Block(nn.Module):
    """A pre-norm transformer block with rotary positions and a gated feed-forward layer."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.gate, self.up, self.down = nn.Linear(width, 64), nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = (
            torch.cat((t[..., ::2] * cos - t[..., 1::2] * sin, t[..., ::2] * sin + t[..., 1::2] * cos), -1)
            for t in (q, k)
        )
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        hidden = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(hidden)) * self.up(hidden))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_a_transformer_block_in_inference(dtype, tolerance):
    block = Block().to(dtype).eval()
    angles = torch.randn(6, 4)
    arguments = torch.randn(2, 6, 32).to(dtype), angles.cos().to(dtype), angles.sin().to(dtype)
    with torch.no_grad():
        expected, actual = block(*arguments), torch.compile(block, backend=BACKEND)(*arguments)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_a_transformer_block_in_training():
    eager = Block()
    compiled_block = copy.deepcopy(eager)
    compiled = torch.compile(compiled_block, backend=BACKEND)
    optimizers = [torch.optim.SGD(block.parameters(), lr=0.1) for block in (eager, compiled_block)]
    angles = torch.randn(6, 4)
    x = torch.randn(2, 6, 32)
    for _ in range(3):
        for function, optimizer in zip((eager, compiled), optimizers, strict=True):
            optimizer.zero_grad()
            function(x, angles.cos(), angles.sin()).square().mean().backward()
            optimizer.step()
    for ours, theirs in zip(compiled_block.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_running_statistics_are_updated_in_training():
    eager = nn.BatchNorm1d(8)
    other = copy.deepcopy(eager)
    x = torch.randn(5, 8)
    torch.testing.assert_close(torch.compile(other, backend=BACKEND)(x), eager(x))
    torch.testing.assert_close(other.running_var, eager.running_var)
    torch.testing.assert_close(other.running_mean, eager.running_mean)


def test_enforced_eager_compiles_nothing(monkeypatch):
    monkeypatch.setattr(backend_module, "settings", lambda: Settings(enforce_eager=True))
    monkeypatch.setattr(backend_module, "compile_graph", lambda *args, **kwargs: pytest.fail("something was compiled"))
    assert_same(lambda x: x * 2, torch.randn(3))
