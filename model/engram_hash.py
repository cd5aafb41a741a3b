"""Engram row ids: n-grams of compressed tokens hashed, exactly in int64, to rows of each engram layer's table.

DeepSeek-V4.1 inference code, engram.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import CheckpointError
from .config import ModelConfig

DEAD = -1
"""A position that no n-gram may reach across: before the sequence, or an image token."""

_SEED_STEP = 10007
# Drawn by numpy's default_rng, whose stream numpy does not promise to keep: (compressed vocabulary, layer) -> values.
_FROZEN_MULTIPLIERS = {
    (99092, 1): (76632096046245, 4839876093313, 35959672319349, 73987337458391),
    (99092, 4): (82260218638837, 5037792023067, 73653454411355, 18954862957863),
    (99092, 14): (67716810739261, 51510806800915, 30921347202721, 82619226485591),
}


@dataclass(frozen=True)
class EngramTables:
    """The constants of the hash. All tensors are int64.

    ``token_map`` [vocab] compressed id of each token id; ``primes`` and ``offsets`` [layers, columns], columns being
    n-gram size 2..max major and head minor; ``multipliers`` [layers, max n-gram]; ``pad`` the compressed id that
    stands for positions at and beyond a dead one.
    """

    token_map: Tensor
    primes: Tensor
    offsets: Tensor
    multipliers: Tensor
    pad: int

    def save(self, path: Path) -> None:
        """Write the tensors as a safetensors file."""
        names = ("token_map", "primes", "offsets", "multipliers")
        save_file({name: getattr(self, name).contiguous() for name in names}, str(path))


def build_engram_tables(config: ModelConfig, token_map: Tensor) -> EngramTables:
    """Derive the constants; raises CheckpointError if they contradict the config's table sizes."""
    columns = config.engram_columns()
    per_layer = _primes(config)
    primes = torch.tensor(per_layer, dtype=torch.int64).reshape(-1, columns)
    multipliers = [
        _multipliers(config.engram_compressed_vocab_size, layer, config.engram_max_ngram_size)
        for layer in config.engram_layer_ids
    ]
    tables = EngramTables(
        token_map=token_map,
        primes=primes,
        offsets=primes.cumsum(1) - primes,
        multipliers=torch.tensor(multipliers, dtype=torch.int64).reshape(-1, config.engram_max_ngram_size),
        pad=_pad(config, token_map),
    )
    _check(tables, config, "tokenizer.json and config.json")
    return tables


def load_engram_tables(path: Path, config: ModelConfig) -> EngramTables:
    """Read tables written by :meth:`EngramTables.save`; raises CheckpointError if they do not fit the config."""
    try:
        stored = load_file(str(path))
        token_map = stored["token_map"]
        tables = EngramTables(
            token_map, stored["primes"], stored["offsets"], stored["multipliers"], _pad(config, token_map)
        )
    except (SafetensorError, KeyError) as error:
        raise CheckpointError(f"{path} does not hold token_map, primes, offsets and multipliers: {error}") from None
    _check(tables, config, str(path))
    return tables


def hash_sequence(tables: EngramTables, token_ids: Tensor) -> Tensor:
    """Token ids [S] of one sequence from its start (negative: dead) -> row ids int64 [S, layers, columns]."""
    length = tables.multipliers.shape[1]
    before = token_ids.new_full((length - 1,), DEAD)
    return hash_window(tables, torch.cat((before, token_ids)).unfold(0, length, 1))


def hash_window(tables: EngramTables, last_tokens: Tensor) -> Tensor:
    """The last max-n-gram token ids of each request, newest last (negative: dead or before the start) -> row ids.

    ``last_tokens`` integer [..., max n-gram] -> int64 [..., layers, columns]. Every id of an n-gram is the running
    XOR of ``compressed id * multiplier`` from the newest position back, modulo the column's prime, plus its offset.
    """
    newest_first = last_tokens.long().flip(-1)
    reachable = (newest_first >= 0).long().cumprod(-1).bool()
    compressed = tables.token_map[newest_first.clamp(min=0)].masked_fill(~reachable, tables.pad)
    products = compressed.unsqueeze(-2) * tables.multipliers
    heads = tables.primes.shape[1] // (products.shape[-1] - 1)
    running = products[..., 0]
    mixed = []
    for older in range(1, products.shape[-1]):
        running = running.bitwise_xor(products[..., older])
        mixed.append(running.unsqueeze(-1).expand(*running.shape, heads))
    return torch.cat(mixed, -1) % tables.primes + tables.offsets


def _pad(config: ModelConfig, token_map: Tensor) -> int:
    if config.engram_pad_token_id >= len(token_map):
        raise CheckpointError(
            f"engram_pad_token_id {config.engram_pad_token_id} is beyond the {len(token_map)} tokens of the tokenizer"
        )
    return int(token_map[config.engram_pad_token_id])


def _primes(config: ModelConfig) -> list[list[int]]:
    """Each n-gram size of each layer takes the next unused primes from ``engram_vocab_size`` up."""
    used: set[int] = set()
    return [
        [
            prime
            for _ in range(config.engram_max_ngram_size - 1)
            for prime in _take_primes(config.engram_vocab_size, config.engram_n_heads, used)
        ]
        for _ in config.engram_layer_ids
    ]


def _take_primes(start: int, count: int, used: set[int]) -> list[int]:
    taken: list[int] = []
    candidate = start
    while len(taken) < count:
        if candidate not in used and _is_prime(candidate):
            taken.append(candidate)
        candidate += 1
    used.update(taken)
    return taken


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1))


def _multipliers(compressed_vocabulary: int, layer: int, count: int) -> tuple[int, ...]:
    """Odd numbers small enough that ``compressed id * multiplier`` stays below 2^63."""
    frozen = _FROZEN_MULTIPLIERS.get((compressed_vocabulary, layer))
    return frozen if frozen and len(frozen) == count else draw_multipliers(compressed_vocabulary, layer, count)


def draw_multipliers(compressed_vocabulary: int, layer: int, count: int) -> tuple[int, ...]:
    """The multipliers of a layer as the official code draws them."""
    high = max(1, (2**63 - 1) // compressed_vocabulary // 2)
    drawn = numpy.random.default_rng(_SEED_STEP * layer).integers(0, high, size=count, dtype=numpy.int64)
    return tuple(2 * int(value) + 1 for value in drawn)


def _check(tables: EngramTables, config: ModelConfig, origin: str) -> None:
    layers, columns = len(config.engram_layer_ids), config.engram_columns()
    rules = [
        (tables.token_map.shape == (config.vocab_size,), f"token_map {list(tables.token_map.shape)} is not [vocab]"),
        (
            int(tables.token_map.max()) + 1 == config.engram_compressed_vocab_size,
            f"{int(tables.token_map.max()) + 1} compressed ids, engram_compressed_vocab_size says "
            f"{config.engram_compressed_vocab_size}",
        ),
        (
            tables.primes.shape == tables.offsets.shape == (layers, columns),
            f"primes and offsets are not [{layers}, {columns}]",
        ),
        (
            tables.multipliers.shape == (layers, config.engram_max_ngram_size),
            f"multipliers are not [{layers}, {config.engram_max_ngram_size}]",
        ),
        (
            tuple(tables.primes.sum(1).tolist()) == config.engram_num_embeddings,
            f"primes sum to {tables.primes.sum(1).tolist()} rows, engram_num_embeddings says "
            f"{list(config.engram_num_embeddings)}",
        ),
    ]
    broken = [text for holds, text in rules if not holds]
    if broken:
        raise CheckpointError(f"engram tables from {origin} contradict the config: " + "; ".join(broken))
