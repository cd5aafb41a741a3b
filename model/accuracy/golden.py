"""Golden files: what the reference says about the built-in prompts of one checkpoint.

Tensors of a prompt p: ``p/tokens`` int64 [S + steps] (prompt, then the greedy choices), ``p/logits`` float32
[steps + 1, V] (after the prompt and after each generated token) and ``p/hidden`` [steps + 1, L, streams, d] (residual
streams after each layer at those positions, in the run's dtype).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...errors import ArtifactError
from ...reporting import Count
from ..checkpoint.fingerprint import checkpoint_fingerprint
from ..checkpoint.loader import Checkpoint
from ..numerics import Numerics
from ..reference.model import ReferenceModel
from .metrics import LogitError, logit_error
from .prompts import built_in_prompts
from .tensor_file import read_tensors, write_tensors
from .trace import Trace

KIND = "deepinfer_neuron.golden.2"
GREEDY_STEPS = 8

_DTYPE_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16"}


@dataclass(frozen=True)
class GoldenPrompt:
    """One prompt's golden values; see the module docstring for shapes.

    ``floor`` is the distance of the reference from itself on another number of threads, ``noise`` with other orders
    of summation as well (all tokens as one prompt). ``margins`` is the lead of the best logit over
    the second at each step: a smaller lead than the noise makes the argmax a matter of chance.
    """

    length: int
    tokens: list[int]
    logits: Tensor
    hidden: Tensor
    floor: LogitError
    noise: LogitError
    margins: list[float]

    def summary(self) -> dict[str, object]:
        """Everything but the tensors, ready for JSON."""
        distances = {"floor": asdict(self.floor), "noise": asdict(self.noise)}
        return {"length": self.length, "tokens": self.tokens, **distances, "margins": self.margins}


@dataclass(frozen=True)
class Golden:
    """The content of a golden file and how it was made."""

    prompts: Mapping[str, GoldenPrompt]
    mode: str
    fingerprint: str
    torch_version: str
    threads: int

    def summary(self) -> dict[str, object]:
        """Everything but the tensors, ready for JSON."""
        return {
            "mode": self.mode,
            "fingerprint": self.fingerprint,
            "torch": self.torch_version,
            "threads": self.threads,
            "prompts": {name: prompt.summary() for name, prompt in self.prompts.items()},
        }


def mode_name(numerics: Numerics) -> str:
    """The name of these switches in golden files, e.g. ``fp32``, ``bf16_kvq`` or ``bf16_kvq_actq_fp8max224``."""
    name = _DTYPE_NAMES[numerics.dtype] + "_kvq" * numerics.kv_quant + "_actq" * numerics.act_quant
    return name + f"_fp8max{numerics.fp8_max:.0f}" * numerics.rescales_weights


def write_golden(
    checkpoint: Checkpoint,
    path: str | Path,
    numerics: Numerics | None = None,
    prompts: Mapping[str, Sequence[int]] | None = None,
    steps: int = GREEDY_STEPS,
    progress: Count = lambda done, total: None,
) -> Golden:
    """Run the reference on the built-in (or given) prompts and write the golden file, whole or not at all.

    ``progress(done, total)`` counts prompts.
    """
    numerics = numerics or Numerics()
    prompts = built_in_prompts(checkpoint) if prompts is None else prompts
    trace = Trace()
    model = ReferenceModel(checkpoint, numerics, trace)
    made = {}
    for name, token_ids in prompts.items():
        progress(len(made), len(prompts))
        made[name] = _golden_prompt(model, trace, list(token_ids), steps)
    golden = Golden(
        made, mode_name(numerics), checkpoint_fingerprint(checkpoint), torch.__version__, torch.get_num_threads()
    )
    write_tensors(path, _tensors(golden), _metadata(golden))
    return golden


def load_golden(path: str | Path, checkpoint: Checkpoint | None = None) -> Golden:
    """Read a golden file; raises ArtifactError if it is damaged, of another kind, or of another checkpoint."""
    tensors, metadata = read_tensors(path)
    if metadata.get("kind") != KIND:
        raise ArtifactError(
            f"{path} is of kind {metadata.get('kind')!r}, expected {KIND!r}; make it with `deepinfer-neuron golden DIR`"
        )
    try:
        summary = read_summary(metadata)
        prompts = {name: _read_prompt(name, tensors, detail) for name, detail in summary["prompts"].items()}
        golden = Golden(prompts, summary["mode"], summary["fingerprint"], summary["torch"], summary["threads"])
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"{path} lacks golden values ({error}); make it again") from None
    if checkpoint is not None and golden.fingerprint != checkpoint_fingerprint(checkpoint):
        raise ArtifactError(
            f"{path} was made from another checkpoint than {checkpoint.directory}; "
            f"run `deepinfer-neuron golden {checkpoint.directory}` again"
        )
    return golden


def read_summary(metadata: Mapping[str, str]) -> dict:
    """What :meth:`Golden.summary` said, from the metadata of a golden file."""
    return json.loads(metadata["summary"])


def _golden_prompt(model: ReferenceModel, trace: Trace, token_ids: list[int], steps: int) -> GoldenPrompt:
    layers = model.config.num_hidden_layers
    tokens = list(token_ids)
    output = model.prefill(tokens)
    logits, hidden = [output.logits], [trace.layers(layers, "ffn.expand")[:, -1]]
    for _ in range(steps):
        tokens.append(int(logits[-1].argmax()))
        logits.append(model.decode(tokens[-1]).logits)
        hidden.append(trace.layers(layers, "ffn.expand")[:, -1])
    stacked = torch.cat(logits)
    best = stacked.topk(2).values
    with _other_thread_count():
        floor = logit_error(_decode_again(model, tokens, len(token_ids)), stacked)
        noise = logit_error(model.prefill(tokens, range(len(token_ids) - 1, len(tokens))).logits, stacked)
    margins = (best[:, 0] - best[:, 1]).tolist()
    return GoldenPrompt(len(token_ids), tokens, stacked, torch.stack(hidden), floor, noise, margins)


def _decode_again(model: ReferenceModel, tokens: list[int], length: int) -> Tensor:
    first = model.prefill(tokens[:length]).logits
    return torch.cat([first, *(model.decode(token).logits for token in tokens[length:])])


@contextmanager
def _other_thread_count() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if threads > 1 else 2)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _tensors(golden: Golden) -> dict[str, Tensor]:
    tensors = {}
    for name, prompt in golden.prompts.items():
        tensors[f"{name}/tokens"] = torch.tensor(prompt.tokens)
        tensors[f"{name}/logits"] = prompt.logits
        tensors[f"{name}/hidden"] = prompt.hidden
    return tensors


def _metadata(golden: Golden) -> dict[str, str]:
    return {"kind": KIND, "summary": json.dumps(golden.summary())}


def _read_prompt(name: str, tensors: Mapping[str, Tensor], detail: dict) -> GoldenPrompt:
    return GoldenPrompt(
        length=detail["length"],
        tokens=detail["tokens"],
        logits=tensors[f"{name}/logits"],
        hidden=tensors[f"{name}/hidden"],
        floor=LogitError(**detail["floor"]),
        noise=LogitError(**detail["noise"]),
        margins=detail["margins"],
    )
