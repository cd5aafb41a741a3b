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


INF, NAN = float("inf"), float("nan")
LOW = -INF


def bits(x):
    """Values as integers, so that zeros of both signs differ; every NaN is the same."""
    if not x.is_floating_point():
        return x
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.itemsize]
    return torch.where(x.isnan(), torch.full_like(x, NAN), x).view(kind)


def half(*values):
    return torch.tensor(values, dtype=torch.bfloat16)


SPECIAL_VALUES = {
    "attention with a row that sees nothing": (
        lambda q, mask: functional.scaled_dot_product_attention(q, q, q, mask)[..., 1, :],
        (torch.randn(1, 1, 2, 4), torch.tensor([[True, False], [False, False]])),
    ),
    "safe softmax": (torch.ops.aten._safe_softmax, (torch.tensor([[LOW, LOW], [LOW, NAN], [LOW, 1.0]]), -1)),
    "softmax of minus infinity": (lambda x: x.softmax(-1), (torch.tensor([[LOW, LOW], [INF, 1.0], [LOW, 1.0]]),)),
    "softmax of a number": (lambda x: (x.softmax(0), x.log_softmax(0)), (torch.tensor(INF),)),
    "many additions to one bf16 element": (
        lambda x, i, v: (x.scatter_add(0, i, v), x.scatter_reduce(0, i, v, "sum"), x.scatter_reduce(0, i, v, "prod")),
        (half(0), torch.zeros(400, dtype=torch.int64), torch.ones(400).bfloat16()),
    ),
    "float64 beyond float32": (lambda x: (x * 2, x + 1e-12), (torch.tensor([1e300, 1e-300, 1.0]).double() * 1,)),
    "timestamps": (lambda t: (t.double() * 1e-3).floor().long(), (torch.tensor([1700000000123, 16777217]),)),
    "false times infinity": (
        lambda x, mask: (x * mask, x * mask.to(x.dtype), (x > 0) * x, mask.to(x.dtype) @ x),
        (torch.tensor([NAN, INF, LOW, -1.0]), torch.tensor([False, False, True, True])),
    ),
    "bf16 with integers": (
        lambda a, b: (a * b, a + b, a - b, a / b, torch.where(a > 0, a, b), torch.addcmul(a, a, b), a * b[0]),
        (half(3, 3), torch.tensor([257, 259])),
    ),
    "negative zeros": (
        lambda x: (x + 0.0, 0.0 + x, x + torch.zeros(3), x - 0.0, x.relu(), x.sum(), x[:1].sum(), x.cumsum(0), x.abs()),
        (torch.full((3,), -0.0),),
    ),
    "index_select of a number": (lambda x, i: torch.index_select(x, 0, i), (torch.tensor(3.0), torch.tensor([0]))),
    "updates that select nothing": (
        lambda x, y: (x.clone().index_fill_(0, torch.tensor([0]), 2.0), y.slice_scatter(y[1::3] + 1, 0, 1, None, 3)),
        (torch.ones(1, 2), torch.ones(1, 2)),
    ),
    "literal tensors": (lambda x: (x * torch.tensor(2.0), x + torch.tensor([1.0, 2.0])), (torch.ones(2),)),
}


@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize(("function", "arguments"), SPECIAL_VALUES.values(), ids=SPECIAL_VALUES)
def test_special_values_are_those_of_eager(function, arguments, numerics):
    compiled = torch.compile(function, backend=BACKEND, options={"numerics": numerics}, fullgraph=True)
    actual, expected = (torch.utils._pytree.tree_leaves(one(*arguments)) for one in (compiled, function))
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype is other.dtype
        torch.testing.assert_close(bits(one), bits(other), rtol=0, atol=0)


COLUMNS = torch.arange(16)


@pytest.mark.parametrize(
    ("product", "shapes"),
    {
        "columns": (lambda x, w: x[:, COLUMNS] @ w, ((8, 32), (16, 8))),
        "columns of a single row": (lambda x, w: x[:, COLUMNS] @ w, ((1, 32), (16, 8))),
        "columns through an activation": (lambda x, w: x[:, COLUMNS].relu() @ w, ((8, 32), (16, 8))),
        "selected columns": (lambda x, w: x.index_select(1, COLUMNS) @ w, ((8, 32), (16, 8))),
        "columns of a linear layer": (lambda x, w: functional.linear(x[:, COLUMNS], w), ((8, 32), (8, 16))),
        "columns of a batch": (lambda x, w: x[:, :, COLUMNS] @ w, ((3, 8, 32), (3, 16, 8))),
        "columns of the weight": (lambda x, w: x @ w[:, COLUMNS], ((8, 16), (16, 32))),
        "transposed": (lambda x, w: (x.t() + 1) @ (w.t() * 2), ((16, 8), (8, 16))),
        "without terms": (lambda x, w: x @ w, ((8, 0), (0, 4))),
    }.values(),
)
def test_products_of_bfloat16_of_any_origin(product, shapes):
    arguments = [torch.randn(shape).bfloat16() for shape in shapes]
    compiled = torch.compile(product, backend=BACKEND)
    torch.testing.assert_close(compiled(*arguments), product(*arguments), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_every_mode_of_other_backends_is_taken(mode):
    assert torch.equal(torch.compile(lambda x: x * 2, backend=BACKEND, mode=mode)(torch.ones(2)), torch.full((2,), 2.0))


def test_an_unknown_mode_is_refused():
    with pytest.raises(Exception, match="unknown mode 'fastest': expected one of"):
        backend_module.deepinfer_neuron(torch.fx.symbolic_trace(nn.Identity()), [], mode="fastest")


def test_an_embedding_is_trained():
    eager = nn.Embedding(10, 8, padding_idx=3)
    other = copy.deepcopy(eager)
    tokens = torch.tensor([[1, 2, 1], [3, 1, 9]])
    for module in (eager, torch.compile(other, backend=BACKEND)):
        module(tokens).square().sum().backward()
    torch.testing.assert_close(other.weight.grad, eager.weight.grad)


@pytest.mark.parametrize("shape", [(2, 4, 3, 3), (5, 4), (2, 4, 6)])
def test_batch_norm_in_evaluation(shape):
    norm = {4: nn.BatchNorm2d, 2: nn.BatchNorm1d, 3: nn.BatchNorm1d}[len(shape)](4).eval()
    norm.running_mean.normal_()
    x = torch.randn(shape)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(norm, backend=BACKEND)(x), norm(x))


def test_strided_views_of_decompositions():
    """PyTorch's own decompositions of these contain views by strides."""

    def apart(x):
        return functional.group_norm(x, 2), functional.instance_norm(x), functional.unfold(x, 2), x.unfold(1, 3, 2)

    x = torch.randn(2, 8, 5, 5)
    for one in (x, x.to(memory_format=torch.channels_last)):
        torch.testing.assert_close(torch.compile(apart, backend=BACKEND)(one), apart(one), rtol=1e-5, atol=1e-5)


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
