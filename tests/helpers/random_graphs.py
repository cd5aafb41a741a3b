"""Small random models: views of caches, updates through them, float8, integer positions, masks, duplicates, stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from hypothesis import strategies as st
from torch import Tensor, nn

ROWS, WIDTH, BATCH = 6, 4, 2
E4M3 = torch.float8_e4m3fn


@dataclass
class State:
    """What a step has at hand: values [BATCH, WIDTH] float32, positions [BATCH] in [0, ROWS)."""

    model: RandomModel
    values: list[Tensor]
    positions: Tensor

    @property
    def last(self) -> Tensor:
        return self.values[-1]


class RandomModel(nn.Module):
    """Runs the named steps on a root of two layers in bfloat16, one in float32 and one in float8."""

    def __init__(self, steps: Sequence[str]):
        super().__init__()
        self.steps = tuple(steps)
        generator = torch.Generator().manual_seed(3)
        self.register_buffer("keys", torch.randn(2, ROWS, WIDTH, generator=generator).bfloat16())
        self.register_buffer("sums", torch.randn(ROWS, WIDTH, generator=generator))
        self.register_buffer("codes", torch.randn(ROWS, WIDTH, generator=generator).to(E4M3))
        self.register_buffer("scale", torch.rand(WIDTH, BATCH + 1, generator=generator))
        self.register_buffer("order", torch.randperm(ROWS, generator=generator))
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=generator).bfloat16().float(), False)
        self.twin = nn.Parameter(self.weight.data, False)

    def forward(self, x: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        state = State(self, [x, x * 0.5], rows)
        for number, step in enumerate(self.steps):
            state.values.append(STEPS[step](state))
            if step == "positions":
                state.positions = (state.positions * 2 + 1) % ROWS
            if step == "boundary":
                state.values[-2:] = stage_boundary(f"stage {number}", *state.values[-2:])
        return state.last, state.values[len(state.values) // 2], state.positions + 1, self.codes.float().sum(0)


def _store_key(state: State) -> Tensor:
    state.model.keys[1].index_put_((state.positions,), state.last.bfloat16())
    return state.last + state.model.keys[1][state.positions].float()


def _store_one_row(state: State) -> Tensor:
    state.model.sums.index_put_((state.positions[:1],), state.last[:1])
    return state.last - state.model.sums[state.positions]


def _store_column(state: State) -> Tensor:
    state.model.keys.view(-1, WIDTH)[ROWS:, 1].copy_(state.last.sum().bfloat16())
    return state.model.keys[:, state.positions, :].sum(0).float()


def _store_code(state: State) -> Tensor:
    state.model.codes.index_put_((state.positions,), state.last.clamp(-240, 240).to(E4M3))
    return state.model.codes[state.positions].float() * 0.5


def _store_by_mask(state: State) -> Tensor:
    value = state.last.clone()
    value[value > 1] = 0.25
    return value


def _copy_rows(state: State) -> Tensor:
    return state.last.index_copy(1, state.positions % WIDTH, state.values[0][:, :BATCH])


def _read_old(state: State) -> Tensor:
    before = state.model.sums[state.positions]
    state.model.sums.index_copy_(0, (state.positions + 1) % ROWS, state.last[:1].expand(BATCH, -1))
    return before + state.model.sums.sum(0)


def _scaled(state: State) -> Tensor:
    return state.last * state.model.scale[:, :BATCH].t()


def _product(state: State) -> Tensor:
    widened = state.last.bfloat16().float()
    return widened @ state.model.weight.t() + widened @ state.model.twin.t()


def _strided(state: State) -> Tensor:
    return state.model.sums.as_strided((BATCH, WIDTH), (WIDTH, 2), 1) + state.last


def _chosen(state: State) -> Tensor:
    best = torch.sort(state.last, dim=1, descending=True, stable=True).indices
    return state.last.gather(1, best) + state.last.argmax(1, keepdim=True)


STEPS: dict[str, Callable[[State], Tensor]] = {
    "store key": _store_key,
    "store one row": _store_one_row,
    "store column": _store_column,
    "store code": _store_code,
    "store by mask": _store_by_mask,
    "copy rows": _copy_rows,
    "read old": _read_old,
    "scaled": _scaled,
    "product": _product,
    "strided": _strided,
    "chosen": _chosen,
    "through float8": lambda state: state.last.clamp(-240, 240).to(E4M3).flip(0).float(),
    "ordered": lambda state: state.last + state.model.order[state.positions].unsqueeze(1),
    "transposed": lambda state: state.last.t().contiguous().view(BATCH, WIDTH),
    "detached": lambda state: state.last.detach().clone() + 1,
    "positions": lambda state: torch.where(state.positions.unsqueeze(1) > 2, state.last, -1.0),
    "boundary": lambda state: state.last * 2,
}

STEP_LISTS = st.lists(st.sampled_from(sorted(STEPS)), max_size=6)


def example_inputs() -> list[Tensor]:
    """x and rows for a ``RandomModel``."""
    return [torch.linspace(-2, 2, BATCH * WIDTH).view(BATCH, WIDTH), torch.tensor([1, 4])]
