"""Stand-in for NKI's compiler: it runs the kernel on its inputs for the types, and writes them into a file."""

from __future__ import annotations

import base64
import inspect
import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from ml_dtypes import bfloat16


@dataclass(frozen=True)
class CompiledStandIn:
    """What a kernel was compiled to; an attribute ``standin_aliases`` of the kernel says what it updates."""

    config: dict
    output_specs: list
    operand_output_aliases: dict = field(default_factory=dict)
    has_collectives: bool = False

    def build_config(self) -> SimpleNamespace:
        """The config by the names that NKIPy reads."""
        return SimpleNamespace(
            backend_config_b64=base64.b64encode(json.dumps(self.config).encode()).decode(),
            output_specs=self.output_specs,
            operand_output_aliases=self.operand_output_aliases,
            has_collectives=self.has_collectives,
        )


def compile_kernel_to_nir(kernel, inputs, compile_opts, enable_cache):
    """Write a file for the kernel and say what it returns."""
    assert not enable_cache
    inspect.signature(kernel).bind(**inputs)
    given = {name: _tensor(one) if isinstance(one, np.ndarray) else one for name, one in inputs.items()}
    returned = kernel(**given)
    outputs = returned if isinstance(returned, tuple) else (returned,)
    constants = {name: one for name, one in inputs.items() if not isinstance(one, np.ndarray)}
    path = Path(compile_opts.artifacts_dir) / f"{kernel.__name__}.standin"
    described = f"{kernel.__name__} {compile_opts.target} lnc={compile_opts.lnc} {constants}"
    path.write_text(described)
    return CompiledStandIn(
        {"func_name": f"{kernel.__module__}.{kernel.__name__}", "klir_binary": {"binary": str(path)}},
        [SimpleNamespace(dtype=_numpy_type(one.dtype), shape=tuple(one.shape)) for one in outputs],
        getattr(kernel, "standin_aliases", {}),
        getattr(kernel, "standin_collectives", False),
    )


def _tensor(array):
    if array.dtype == bfloat16:
        return torch.zeros(array.shape, dtype=torch.bfloat16)
    return torch.zeros(array.shape, dtype=torch.from_numpy(np.empty(0, array.dtype)).dtype)


def _numpy_type(dtype):
    return bfloat16 if dtype is torch.bfloat16 else torch.empty(0, dtype=dtype).numpy().dtype
