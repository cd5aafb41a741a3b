"""A kernel's source through NKI's own compiler, to the backend config of its custom call and the file it names.

Interfaces: public NKIPy source (``compile_kernel_to_nir`` and its config) and, for the simulator, AWS Neuron's NKI
documentation. No NKI that does anything can be had from a public index, so nothing here has met a real one.
"""

from __future__ import annotations

import base64
import inspect
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ml_dtypes import bfloat16

from ....errors import LoweringError
from ....runtime.artifacts import TensorType
from ..options import KernelTarget
from .kernel import NkiSource

_COMPILER, _OPTIONS = "nki.framework.compiled", "nki.compiler.ncc_driver"


@dataclass(frozen=True)
class NkiProgram:
    """What NKI made of a kernel for operands of certain types.

    Attributes:
        config: the backend config, JSON in base64, that names files by absolute paths.
        files: their contents by ``<directory>/<name>``, the end of the path, where neuronx-cc looks for them in its
            working directory too (AWS Neuron documentation, error NCC_EVRF059).
    """

    config: str
    files: Mapping[str, bytes]


def is_importable(source: NkiSource) -> bool:
    """Whether the kernel and NKI's compiler are installed; the packages of these names on PyPI hold neither."""
    try:
        import_module(_COMPILER)
        import_module(_OPTIONS)
        return hasattr(import_module(source.module), source.function)
    except ImportError:
        return False


def compile_nki(
    source: NkiSource,
    operands: Sequence[TensorType],
    outputs: Sequence[TensorType],
    constants: Mapping[str, Any],
    aliases: Mapping[int, int],
    target: KernelTarget,
) -> NkiProgram:
    """Compile a kernel; ``aliases`` maps outputs to the operands that they are written into.

    Raises:
        LoweringError: the installed kernel has other parameters, results or aliases than ours expects, or needs
            collectives.
    """
    kernel = getattr(import_module(source.module), source.function)
    _check_parameters(source, kernel, constants)
    arrays = {name: np.empty(one.shape, _numpy(one.dtype)) for name, one in zip(source.operands, operands, strict=True)}
    with tempfile.TemporaryDirectory(prefix="deepinfer-neuron-nki-") as directory:
        options = import_module(_OPTIONS).CompileOptions(
            target=target.name,
            lnc=target.logical_core_size,
            artifacts_dir=directory,
            output_path=str(Path(directory) / "kernel.neff"),
        )
        compiled = import_module(_COMPILER).compile_kernel_to_nir(
            kernel, inputs={**arrays, **constants}, compile_opts=options, enable_cache=False
        )
        config = compiled.build_config()
        _check_config(source, config, outputs, aliases)
        return NkiProgram(config.backend_config_b64, _named_files(source, config.backend_config_b64))


def _check_parameters(source: NkiSource, kernel: Any, constants: Mapping[str, Any]) -> None:
    names = list(inspect.signature(getattr(kernel, "func", kernel)).parameters)
    if [name for name in names if name in source.operands] != list(source.operands) or not set(constants) <= set(names):
        raise LoweringError(
            f"{source.module}.{source.function} has the parameters {names}, and its entry in the table of kernels "
            f"expects {[*source.operands, *constants]}: another version is installed; set DEEPINFER_NEURON_NKI=off"
        )


def _check_config(source: NkiSource, config: Any, outputs: Sequence[TensorType], aliases: Mapping[int, int]) -> None:
    where = f"{source.module}.{source.function}"
    made = [(np.dtype(one.dtype), tuple(one.shape)) for one in config.output_specs]
    expected = [(np.dtype(_numpy(one.dtype)), one.shape) for one in outputs]
    if made != expected:
        raise LoweringError(f"{where} returns {made}, and its entry in the table of kernels expects {expected}")
    found = {output: operand for operand, output in dict(config.operand_output_aliases or {}).items()}
    if found != dict(aliases):
        raise LoweringError(f"{where} writes outputs into operands {found}, and its entry expects {dict(aliases)}")
    if config.has_collectives:
        raise LoweringError(f"{where} talks to other cores, which programs here do not: use another kernel")


def _named_files(source: NkiSource, config: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for path in map(Path, _strings(json.loads(base64.b64decode(config)))):
        if path.is_absolute() and path.is_file():
            files[f"{path.parent.name}/{path.name}"] = path.read_bytes()
    if not files:
        raise LoweringError(f"NKI named no file that it made of {source.module}.{source.function}")
    return files


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def _numpy(dtype: torch.dtype) -> Any:
    return bfloat16 if dtype is torch.bfloat16 else torch.empty(0, dtype=dtype).numpy().dtype
