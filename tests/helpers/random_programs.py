"""Small random programs over tensors, from a number: readable Python, and what a compiled call of one must equal.

Elements are small whole numbers, halves, signed zeros, infinities and NaN, so that sums and products are exact in any
order. What rounds comes last, and is compared within a distance; everything else to the bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from deepinfer_neuron.errors import DeepInferNeuronError
from torch import Tensor
from ulps import same_bits

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)
DTYPES = (*FLOATS, *FLOATS[:2], *INTEGERS, torch.bool)
SHAPES = ((), (1,), (3,), (0,), (2, 3), (3, 2), (1, 3), (2, 1), (4, 4), (2, 0), (2, 3, 4), (1, 2, 3))
TRACER_ERRORS = (torch._dynamo.exc.TorchRuntimeError, torch._dynamo.exc.Unsupported)

REFUSALS = (IndexError, RuntimeError, TypeError, ValueError, NotImplementedError)
"""What eager PyTorch raises for arguments that it does not take."""

DISTANCES = {torch.float64: 1e-11, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Relative to the largest element, for what rounds."""

SMALLEST = 2**-20
"""Results below it are differences of rounded numbers, and mean zero."""

NAMES = {"torch": torch, "inf": float("inf"), "nan": float("nan")}


@dataclass(frozen=True)
class Program:
    """Source of ``inputs()``, which makes new inputs, and of ``program(*inputs)``."""

    number: int
    source: str
    rounds: tuple[bool, ...]
    """Whether each result was rounded."""

    def functions(self) -> tuple[Callable[[], list[Tensor]], Callable[..., tuple[Tensor, ...]]]:
        """``inputs`` and ``program``."""
        names: dict[str, Any] = dict(NAMES)
        exec(compile(self.source, f"<program {self.number}>", "exec"), names)
        return names["inputs"], names["program"]


@dataclass
class Writer:
    """A program being written: what each name holds so far, and which names hold what was rounded."""

    draw: random.Random
    names: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    input_lines: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    rounded: set[str] = field(default_factory=set)

    def pick(self, accepts: Callable[[Tensor], bool] = lambda tensor: True) -> str:
        """A name, the later the likelier; raises IndexError when none fits."""
        fitting = [name for name, tensor in self.names.items() if name not in self.rounded and accepts(tensor)]
        return fitting[-1] if self.draw.random() < 0.4 else self.draw.choice(fitting)

    def one_of(self, *choices: Any) -> Any:
        return self.draw.choice(choices)

    def dim(self, name: str) -> int:
        """A dimension of a tensor, counted from either end."""
        rank = max(self.names[name].dim(), 1)
        return self.draw.randrange(-rank, rank)

    def run(self, line: str) -> None:
        """Do what a line says; raises what eager PyTorch raises."""
        exec(line, dict(NAMES), self.names)

    def start_again(self) -> None:
        """Have every name hold what the lines so far say: a line that was given up may have updated some."""
        self.names.clear()
        for line in (*self.input_lines, *self.lines):
            self.run(line)


def is_float(tensor: Tensor) -> bool:
    return tensor.is_floating_point()


def is_number(tensor: Tensor) -> bool:
    return tensor.dtype is not torch.bool


def is_integer(tensor: Tensor) -> bool:
    return tensor.dtype in INTEGERS


def is_bool(tensor: Tensor) -> bool:
    return tensor.dtype is torch.bool


def has_rank(least: int) -> Callable[[Tensor], bool]:
    return lambda tensor: tensor.dim() >= least


def has_elements(tensor: Tensor) -> bool:
    return bool(tensor.numel())


def _number(writer: Writer) -> str:
    return writer.one_of("2", "-1", "0", "0.5", "-0.0", "3", "1.5", "True")


def _pointwise(writer: Writer) -> str:
    a, b = writer.pick(), writer.pick()
    operation = writer.one_of("+", "-", "*", "torch.maximum", "torch.minimum", "==", "<", ">=", "!=")
    second = b if writer.draw.random() < 0.7 else _number(writer)
    if operation.startswith("torch."):
        return f"{operation}({a}, {b}) + 0"  # which of two zeros is in the table of inexact operators
    return f"{a} {operation} {second}"


def _reversed_pointwise(writer: Writer) -> str:
    return f"{_number(writer)} {writer.one_of('+', '-', '*')} {writer.pick(is_number)}"


def _unary(writer: Writer) -> str:
    if writer.draw.random() < 0.3:
        return f"{writer.pick(is_float)}.{writer.one_of('floor', 'ceil', 'trunc', 'round', 'isnan', 'isfinite')}()"
    return f"{writer.pick(is_number)}.{writer.one_of('abs', 'neg', 'sign', 'relu', 'square', 'clone', 'positive')}()"


def _clamp(writer: Writer) -> str:
    return f"{writer.pick(is_number)}.clamp({writer.one_of('min=0', 'max=1', 'min=-1, max=2', 'min=2, max=1')})"


def _integer(writer: Writer) -> str:
    a = writer.pick(is_integer)
    return writer.one_of(
        f"{a} // {writer.one_of(2, -3)}",
        f"{a} % {writer.one_of(2, -3)}",
        f"{a} & {writer.pick(is_integer)}",
        f"{a} ^ {writer.one_of(1, 3)}",
        f"~{a}",
        f"{a} >> 1",
        f"{a} << 2",
    )


def _logical(writer: Writer) -> str:
    a, b = writer.pick(is_bool), writer.pick(is_bool)
    return writer.one_of(f"{a} & {b}", f"{a} | {b}", f"{a} ^ {b}", f"~{a}", f"torch.logical_not({writer.pick()})")


def _where(writer: Writer) -> str:
    mask = writer.pick(is_bool)
    other = writer.one_of(writer.pick(), _number(writer))
    return writer.one_of(
        f"torch.where({mask}, {writer.pick()}, {other})",
        f"{writer.pick(is_number)}.masked_fill({mask}, {_number(writer)})",
    )


def _reduce(writer: Writer) -> str:
    a = writer.pick()
    dim, keep = writer.dim(a), writer.one_of(True, False)
    return writer.one_of(
        f"{a}.sum()",
        f"{a}.sum({dim}, keepdim={keep})",
        f"{a}.any({dim})",
        f"{a}.all()",
        f"{a}.amax({dim}, keepdim={keep})",
        f"{a}.amin({dim})",
        f"{a}.argmax({dim})",
        f"{a}.argmin({dim}, keepdim={keep})",
        f"{a}.max({dim}, keepdim={keep})[{writer.one_of(0, 1)}]",
        f"{a}.min({dim})[0]",
        f"{a}.cumsum({dim})",
        f"{a}.cummax({dim})[{writer.one_of(0, 1)}]",
        f"{a}.count_nonzero({dim})",
        f"{a}.prod({dim})",
        f"{a}.sort({dim}, stable=True, descending={keep})[{writer.one_of(0, 1)}]",
    )


def _matrix(writer: Writer) -> str:
    dtype = writer.one_of(torch.float32, torch.bfloat16, torch.float64)

    def fits(tensor: Tensor) -> bool:
        return tensor.dim() >= 1 and tensor.dtype is dtype and bool(tensor.isfinite().all()) and _is_small(tensor)

    return f"{writer.pick(fits)} @ {writer.pick(fits)}{writer.one_of('', '.mT')}"


def _is_small(tensor: Tensor) -> bool:
    return not tensor.numel() or float(tensor.double().abs().max()) <= 16


def _convert(writer: Writer) -> str:
    def fits(tensor: Tensor) -> bool:
        return not tensor.is_floating_point() or (bool(tensor.isfinite().all()) and _is_small(tensor.abs()))

    wide = writer.one_of(*FLOATS, torch.bool)
    if writer.draw.random() < 0.5:
        return f"{writer.pick()}.to({wide})"
    return f"{writer.pick(lambda tensor: fits(tensor) and bool((tensor >= 0).all()))}.to({writer.one_of(*INTEGERS)})"


def _view(writer: Writer) -> str:
    a = writer.pick(has_rank(1))
    tensor = writer.names[a]
    dim, other, size = writer.dim(a), writer.dim(a), tensor.shape[writer.dim(a)]
    order = writer.draw.sample(range(tensor.dim()), tensor.dim())
    return writer.one_of(
        f"{a}.transpose({dim}, {other})",
        f"{a}.permute({order})",
        f"{a}.unsqueeze({dim})",
        f"{a}.squeeze()",
        f"{a}.flatten()",
        f"{a}.reshape(-1)",
        f"{a}.view({list(reversed(tensor.shape))})",
        f"{a}[{writer.one_of('1:', ':-1', '::2', '-1:', '0', '-1', 'None', '...')}]",
        f"{a}[..., {writer.one_of('1:', ':-1', '::2', '0', '-1', ':0')}]",
        f"{a}.narrow({dim}, 0, {writer.draw.randrange(size + 1)})",
        f"{a}.expand(2, {', '.join(map(str, tensor.shape))})",
        f"{a}.select({dim}, {writer.one_of(0, -1)})",
        f"{a}.unfold({dim}, 2, 1)",
        f"{a}.chunk(2, {dim})[0]",
        f"{a}.split(1, {dim})[-1]",
        f"{a}.unbind({dim})[0]",
        f"{a}.diagonal()",
        f"{a}.detach()",
        f"{a}.swapaxes(0, {dim}).contiguous()",
        f"{a}.as_strided((2, 2), (1, 1), {writer.one_of(0, 1)})",
    )


def _move(writer: Writer) -> str:
    a = writer.pick(has_rank(1))
    tensor, dim = writer.names[a], writer.dim(a)
    same = writer.pick(lambda other: other.shape == tensor.shape)
    return writer.one_of(
        f"{a}.flip({dim})",
        f"{a}.roll({writer.one_of(1, -2)}, {dim})",
        f"torch.cat([{a}, {same}], {dim})",
        f"torch.stack([{same}, {a}], {dim})",
        f"{a}.repeat({', '.join('2' for _ in tensor.shape)})",
        f"torch.nn.functional.pad({a}, (1, {writer.one_of(0, 2, -1)}), value={writer.one_of(0, 2)})",
        f"{a}.tril()",
        f"{a}.triu(1)",
        f"{a}.repeat_interleave(2, {dim})",
        f"torch.zeros_like({a})",
        f"torch.full_like({a}, {writer.one_of(1, 2)})",
    )


def _index(writer: Writer) -> str:
    a = writer.pick(lambda tensor: tensor.dim() >= 1 and has_elements(tensor))
    tensor, dim = writer.names[a], writer.dim(a)
    rows = [writer.draw.randrange(tensor.shape[0]) for _ in range(writer.draw.randrange(4))]
    along = [writer.draw.randrange(tensor.shape[dim]) for _ in range(3)]
    positions = f"torch.tensor({along}{'' if along else ', dtype=torch.int64'})"
    distinct = writer.draw.sample(range(tensor.shape[dim]), min(2, tensor.shape[dim]))
    source = writer.pick(lambda other: other.dtype == tensor.dtype and has_elements(other))
    whole = (
        f"torch.tensor({along}).reshape([3 if axis == {dim % tensor.dim()} else 1 for axis in range({tensor.dim()})])"
    )
    same = f"{source}.flatten()[0].expand({a}.shape)"
    choices = [
        f"{a}[torch.tensor({rows}, dtype=torch.int64)]",
        f"{a}.index_select({dim}, {positions})",
        f"{a}.gather({dim}, {whole})",
        f"{a}.index_fill({dim}, torch.tensor({distinct}), {writer.one_of(0, 1)})",
        f"{a}.index_copy({dim}, torch.tensor({distinct}), {a}.index_select({dim}, torch.tensor({distinct})) * 1)",
        f"{a}.masked_fill({a} == {a}, 1)",
        f"torch.take({a}, torch.tensor([0, {tensor.numel() - 1}, 0]))",
    ]
    if is_number(tensor):
        choices += [
            f"{a}.scatter_add({dim}, {whole}, {same})",
            f"{a}.index_add({dim}, {positions}, {a}.index_select({dim}, {positions}))",
            f"{a}.index_put((torch.tensor({rows or [0]}),), {source}.flatten()[0], accumulate=True)",
            f"{a}.scatter_reduce({dim}, {whole}, {same}, {writer.one_of('sum', 'amax', 'amin')!r}, "
            f"include_self={writer.one_of(True, False)})",
        ]
    return writer.one_of(*choices)


EXACT: tuple[Callable[[Writer], str], ...] = (
    *(_pointwise, _pointwise, _pointwise, _reversed_pointwise, _unary, _clamp, _integer, _logical, _where),
    *(_reduce, _reduce, _matrix, _convert, _view, _view, _view, _move, _move, _index, _index),
)
"""What gives equal bits whatever the order of additions."""


def _rounding(writer: Writer) -> str:
    a = writer.pick(lambda tensor: is_float(tensor) and tensor.dim() >= 1)
    dim = writer.dim(a)
    return writer.one_of(
        f"{a}.exp()",
        f"{a}.tanh()",
        f"{a}.sigmoid()",
        f"{a} / {writer.pick(is_number)}",
        f"{a}.softmax({dim})",
        f"{a}.log_softmax({dim})",
        f"{a}.mean({dim})",
        f"{a}.logsumexp({dim})",
        f"{a}.abs().sqrt()",
        f"{a}.clamp(-4, 4).sin()",
        f"torch.nn.functional.gelu({a})",
        f"torch.nn.functional.silu({a})",
        f"torch.nn.functional.softplus({a})",
        f"torch.nn.functional.layer_norm({a}, ({a}.shape[-1],))",
        f"{a}.var({dim}, correction=0)",
        f"({a}.abs() + 1).log()",
        f"({a}.abs() + 1).rsqrt()",
    )


def _update(writer: Writer) -> str:
    """A line that updates a tensor in place."""
    a = writer.pick(_keeps_updates)
    tensor = writer.names[a]
    b = writer.pick(lambda other: torch.result_type(tensor, other) == tensor.dtype)
    if not tensor.dim():
        return writer.one_of(f"{a}.add_({b})", f"{a}.fill_(1)", f"{a}.mul_(2)")
    return writer.one_of(
        f"{a}.add_({b})",
        f"{a}.mul_({b})",
        f"{a}.copy_({b})",
        f"{a}[0] = {writer.one_of(b, '1', '0.0')}",
        f"{a}[..., 1:] = {writer.one_of('0', '2.0')}",
        f"{a}[..., ::2] += 1",
        f"{a}.zero_()",
        f"{a}[{a} > 0] = 1",
        f"{a}.fill_(2)",
        f"{a}.transpose(0, -1).add_(1)",
        f"{a}.view(-1)[:2].sub_(1)",
    )


def _keeps_updates(tensor: Tensor) -> bool:
    """Whether PyTorch compiles updates: not of overlapping elements, and it forgets those of a 0-d float64 input."""
    root = tensor if tensor._base is None else tensor._base
    forgotten = root.dtype is torch.float64 and not root.dim()
    return not forgotten and torch._debug_has_internal_overlap(tensor) == 0


def write_program(number: int) -> Program:
    """The program of a number; the same number gives the same program."""
    writer = Writer(random.Random(number))
    _write_inputs(writer)
    for _ in range(writer.draw.randrange(3, 9)):
        _write_line(writer, writer.draw.choice(EXACT), writer.draw.random() < 0.2)
    for _ in range(writer.draw.randrange(3)):
        _write_rounding(writer)
    results = writer.draw.sample(list(writer.names), min(len(writer.names), writer.draw.randrange(1, 4)))
    if list(writer.names)[-1] not in results:
        results.append(list(writer.names)[-1])
    arguments = ", ".join(writer.inputs)
    source = (
        f"def inputs():\n{_block(writer.input_lines)}    return [{arguments}]\n\n\n"
        f"def program({arguments}):\n{_block(writer.lines)}    return {', '.join(results)},\n"
    )
    return Program(number, source, tuple(name in writer.rounded for name in results))


def _block(lines: Sequence[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


def _write_inputs(writer: Writer) -> None:
    count = writer.draw.randrange(1, 4)
    while len(writer.inputs) < count:
        name = "abc"[len(writer.inputs)]
        line = f"{name} = {_input(writer, len(writer.inputs))}"
        try:
            writer.run(line)
        except REFUSALS:
            continue
        writer.inputs.append(name)
        writer.input_lines.append(line)


def _input(writer: Writer, index: int) -> str:
    """A new tensor of some layout, or a view of an earlier input."""
    earlier = [name for name in writer.inputs if writer.names[name].dim()]
    if earlier and writer.draw.random() < 0.2:
        a = writer.draw.choice(earlier)
        return writer.one_of(f"{a}[1:]", f"{a}[..., ::2]", f"{a}", f"{a}.transpose(0, -1)", f"{a}[:-1]")
    dtype, shape = writer.one_of(*DTYPES), writer.one_of(*SHAPES)
    count = 2
    for size in shape:
        count *= size
    elements = [_element(writer, dtype) for _ in range(max(count, 2))]
    flat = f"torch.tensor([{', '.join(elements)}], dtype={dtype})"
    size = count // 2
    plain = f"{flat}[:{size}].reshape({shape})"
    if not shape or not size:
        return f"{plain}.clone()"
    return writer.one_of(
        f"{plain}.clone()",
        f"{plain}.clone()",
        f"{flat}[1:{size + 1}].reshape({shape})",
        f"{flat}[::2].reshape({shape})" if len(shape) > 1 else f"{flat}[::2]",
        f"{flat}[:{size}].reshape({tuple(reversed(shape))}).permute({tuple(reversed(range(len(shape))))})",
        f"{flat}[:{shape[-1]}].expand({shape})" if len(shape) > 1 and index == 2 else f"{plain}.clone()",
    )


def _element(writer: Writer, dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return writer.one_of("True", "False")
    if not dtype.is_floating_point:
        extremes = (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        return (
            str(writer.one_of(0, 1, 2, 3, 1, 5, *extremes))
            if writer.draw.random() < 0.1
            else str(writer.draw.randrange(4))
        )
    if writer.draw.random() < 0.12:
        return writer.one_of("nan", "inf", "-inf", "-0.0", "0.0")
    return writer.one_of("1.0", "-1.0", "2.0", "-2.0", "0.5", "3.0", "-0.5", "4.0", "0.0")


def _write_line(writer: Writer, expression: Callable[[Writer], str], updates: bool) -> None:
    """Add a line that eager PyTorch takes and that leaves small numbers; after ten that it does not, none."""
    name = f"v{len(writer.lines)}"
    for _ in range(10):
        try:
            line = _update(writer) if updates else f"{name} = {expression(writer)}"
            writer.run(line)
            if all(map(_fits, writer.names.values())):
                writer.lines.append(line)
                return
        except REFUSALS:
            pass
        writer.start_again()


def _fits(tensor: Tensor) -> bool:
    finite = tensor.double()[tensor.isfinite()] if tensor.is_floating_point() else tensor[:0]
    return not finite.numel() or float(finite.abs().max()) <= 2**10


def _write_rounding(writer: Writer) -> None:
    name = f"v{len(writer.lines)}"
    for _ in range(5):
        try:
            line = f"{name} = {_rounding(writer)}"
            writer.run(line)
        except REFUSALS:
            continue
        writer.lines.append(line)
        writer.rounded.add(name)
        return


def verdict(program: Program, numerics: str) -> str:
    """ "right", "refused" with the reason, or what is wrong with a compiled program, with its source."""
    torch._dynamo.reset()
    inputs, function = program.functions()
    compiled = torch.compile(function, backend="deepinfer_neuron", fullgraph=True, options={"numerics": numerics})
    try:
        for _ in range(2):
            expected, actual = (Outcome.of(one, inputs()) for one in (function, compiled))
            mistake = _difference(program, actual, expected)
            if mistake:
                return f"{mistake}, {numerics}\n{program.source}"
    except Exception as error:
        cause = getattr(error, "inner_exception", None) or error
        if isinstance(cause, DeepInferNeuronError):
            return f"refused: {cause}"
        if isinstance(error, TRACER_ERRORS):
            return f"refused by PyTorch's tracer: {error}"
        return f"crashed: {type(error).__name__}: {error}, {numerics}\n{program.source}"
    return "right"


@dataclass(frozen=True)
class Outcome:
    """Results and inputs after a call, and for each result the first tensor with which it shares memory."""

    results: tuple[Tensor, ...]
    inputs: list[Tensor]
    shared: tuple[tuple[int, int] | None, ...]

    @staticmethod
    def of(function: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor]) -> Outcome:
        """Call a function."""
        results = function(*inputs)
        return Outcome(results, inputs, tuple(_shared(one, [*inputs, *results], len(inputs)) for one in results))


def _shared(result: Tensor, others: Sequence[Tensor], inputs: int) -> tuple[int, int] | None:
    """The first tensor in the same memory, and the offset where that is an input's; None for memory of its own."""
    if not result.numel():
        return None
    memory = result.untyped_storage().data_ptr()
    first = next(index for index, one in enumerate(others) if one.untyped_storage().data_ptr() == memory)
    return first, result.storage_offset() if first < inputs else 0


def _difference(program: Program, actual: Outcome, expected: Outcome) -> str:
    if actual.shared != expected.shared:
        return f"wrong: memory is shared as {actual.shared}, expected {expected.shared}"
    pairs = [*zip(actual.results, expected.results, strict=True), *zip(actual.inputs, expected.inputs, strict=True)]
    rounds = [*program.rounds, *(False for _ in actual.inputs)]
    for position, ((got, wanted), rounded) in enumerate(zip(pairs, rounds, strict=True)):
        if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
            return (
                f"wrong: tensor {position} is {got.dtype}{list(got.shape)}, expected {wanted.dtype}{list(wanted.shape)}"
            )
        if _strides(got) != _strides(wanted):
            return f"wrong: tensor {position} has strides {got.stride()}, expected {wanted.stride()}"
        if not (_is_near(got, wanted) if rounded else same_bits(got, wanted)):
            return f"wrong: tensor {position} is {got.tolist()}, expected {wanted.tolist()}"
    return ""


def _strides(tensor: Tensor) -> list[int]:
    """Of the dimensions in which there is more than one element."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1 and tensor.numel()]


def _is_near(got: Tensor, wanted: Tensor) -> bool:
    if wanted.dtype not in DISTANCES:
        return torch.equal(got, wanted)
    distance = DISTANCES[wanted.dtype]
    finite = wanted.double()[wanted.isfinite()]
    largest = max(float(finite.abs().max()) if finite.numel() else 0.0, SMALLEST)
    return torch.allclose(got.double(), wanted.double(), rtol=distance, atol=distance * largest, equal_nan=True)
