"""The environment variables this package listens to, read once.

Nothing else in the package reads ``os.environ``. A value that cannot be used is refused at
once, with the name of its variable, before any tracing starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from .errors import ConfigError

FP8_MAXIMA = (448.0, 240.0, 224.0)
"""Largest fp8 values to quantise to: the end of OCP e4m3, the end of Trainium 1 and 2's e4m3, and half of 448."""

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"", "0", "false", "no", "off"}

ModuleFormat = Literal["mlir", "hlo"]
KernelChoice = Literal["off", "auto"]


@dataclass(frozen=True)
class Settings:
    """What the environment asks for.

    Attributes:
        dump_directory: ``DEEPINFER_NEURON_DUMP``; every pass writes its graph before and after here.
        pass_limit: ``DEEPINFER_NEURON_PASS_LIMIT``; only the first n optional passes run.
        enforce_eager: ``DEEPINFER_ENFORCE_EAGER``; nothing is compiled, the model runs in eager PyTorch.
        device: ``DEEPINFER_NEURON_DEVICE``; ``cpu`` runs programs on the host, ``neuron`` on a Neuron core.
        neuron_library: ``DEEPINFER_NEURON_LIBNRT``; the Neuron runtime's libnrt.so.1 instead of the installed one.
        local_rank: ``DEEPINFER_NEURON_LOCAL_RANK``; number of this process among those of its machine.
        visible_cores: ``NEURON_RT_VISIBLE_CORES``; which the runtime reads itself: the cores it may use.
        graph_mode: ``DEEPINFER_NEURON_GRAPH_MODE``; ``whole`` compiles a step as one program, ``regions`` as one
            for each kind of stage.
        num_kv_blocks: ``DEEPINFER_NEURON_NUM_KV_BLOCKS``; blocks of the KV pools instead of as
            many as all requests could fill.
        compiler: ``DEEPINFER_NEURON_CC``; path of neuronx-cc instead of the one on the search path.
        compiler_timeout_s: ``DEEPINFER_NEURON_CC_TIMEOUT``; seconds for one run of a compiler process.
        compiler_memory_gb: ``DEEPINFER_NEURON_CC_MEMORY_GB``; GiB for one run of a compiler process.
        compiler_retries: ``DEEPINFER_NEURON_CC_RETRIES``; how often a run that failed without a refusal is repeated.
        module_format: ``DEEPINFER_NEURON_MODULE_FORMAT``; what neuronx-cc reads: ``mlir`` for StableHLO bytecode,
            ``hlo`` for an HLO proto.
        nki: ``DEEPINFER_NEURON_NKI``; ``auto`` lets device kernels replace the bodies of operators on Trainium, where
            one is registered and installed.
        logical_core_size: ``NEURON_LOGICAL_NC_CONFIG``; physical cores of a logical core, as the Neuron runtime has it.
        fp8_max: ``DEEPINFER_NEURON_FP8_MAX``; the largest fp8 value of activations and caches instead of the target's.
        compiler_flags: ``NEURON_CC_FLAGS``; flags for the Neuron compiler and its wrapper, as written.
        compile_cache_url: ``NEURON_COMPILE_CACHE_URL``; where the vendor's tools keep compiled modules, as written.
        cache_directories: ``DEEPINFER_NEURON_CACHE``; the store of compiled programs, then shared ones that are only
            read, separated by commas. Without any, nothing is stored.
        xla_flags: ``XLA_FLAGS``, which XLA reads itself; programs are compiled anew for other flags.
    """

    dump_directory: Path | None = None
    pass_limit: int | None = None
    enforce_eager: bool = False
    device: str = "cpu"
    num_kv_blocks: int | None = None
    graph_mode: str = "whole"
    compiler: Path | None = None
    compiler_timeout_s: int = 7200
    compiler_memory_gb: int | None = None
    compiler_retries: int = 2
    module_format: ModuleFormat = "mlir"
    nki: KernelChoice = "off"
    logical_core_size: int | None = None
    fp8_max: float | None = None
    compiler_flags: str = ""
    compile_cache_url: str = ""
    cache_directories: tuple[Path, ...] = ()
    xla_flags: tuple[str, ...] = ()
    neuron_library: Path | None = None
    local_rank: int | None = None
    visible_cores: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read and check the variables; raises ConfigError naming the one that cannot be used."""
        timeout_s = _number(environment, "DEEPINFER_NEURON_CC_TIMEOUT", minimum=1)
        retries = _number(environment, "DEEPINFER_NEURON_CC_RETRIES", minimum=0)
        return cls(
            dump_directory=_path(environment, "DEEPINFER_NEURON_DUMP"),
            pass_limit=_number(environment, "DEEPINFER_NEURON_PASS_LIMIT", minimum=0),
            enforce_eager=_switch(environment, "DEEPINFER_ENFORCE_EAGER"),
            device=_device(environment),
            num_kv_blocks=_number(environment, "DEEPINFER_NEURON_NUM_KV_BLOCKS", minimum=1),
            graph_mode=_graph_mode(environment),
            compiler=_path(environment, "DEEPINFER_NEURON_CC"),
            compiler_timeout_s=cls.compiler_timeout_s if timeout_s is None else timeout_s,
            compiler_memory_gb=_number(environment, "DEEPINFER_NEURON_CC_MEMORY_GB", minimum=1),
            compiler_retries=cls.compiler_retries if retries is None else retries,
            module_format=_module_format(environment),
            nki=_kernel_choice(environment),
            logical_core_size=_number(environment, "NEURON_LOGICAL_NC_CONFIG", minimum=1),
            fp8_max=_fp8_max(environment),
            compiler_flags=environment.get("NEURON_CC_FLAGS", ""),
            compile_cache_url=environment.get("NEURON_COMPILE_CACHE_URL", ""),
            cache_directories=_paths(environment, "DEEPINFER_NEURON_CACHE"),
            xla_flags=tuple(sorted(environment.get("XLA_FLAGS", "").split())),
            neuron_library=_path(environment, "DEEPINFER_NEURON_LIBNRT"),
            local_rank=_number(environment, "DEEPINFER_NEURON_LOCAL_RANK", minimum=0),
            visible_cores=environment.get("NEURON_RT_VISIBLE_CORES", "").strip(),
        )


@cache
def settings() -> Settings:
    """The settings of this process, read from its environment on first use."""
    return Settings.from_environment(os.environ)


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is started from this one: its own, and these variables."""
    return {**os.environ, **variables}


def neuron_variables() -> dict[str, str]:
    """The Neuron SDK's variables in this process's environment, by name."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith("NEURON_")}


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    text = environment.get(name, "").strip()
    return Path(text) if text else None


def _number(environment: Mapping[str, str], name: str, minimum: int) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < minimum:
        raise ConfigError(f"{name}={text!r}: expected a whole number of at least {minimum}")
    return int(text)


def _paths(environment: Mapping[str, str], name: str) -> tuple[Path, ...]:
    parts = [part.strip() for part in environment.get(name, "").split(",")]
    if len(parts) > 1 and not all(parts):
        raise ConfigError(f"{name}={environment[name]!r}: expected directories separated by commas, one is empty")
    return tuple(Path(part).expanduser() for part in parts if part)


def _switch(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name, "").strip().lower()
    if text not in _TRUE | _FALSE:
        raise ConfigError(f"{name}={text!r}: expected 1 or 0")
    return text in _TRUE


def _device(environment: Mapping[str, str]) -> str:
    device = environment.get("DEEPINFER_NEURON_DEVICE", "").strip() or "cpu"
    if device not in ("cpu", "neuron"):
        raise ConfigError(f"DEEPINFER_NEURON_DEVICE={device!r}: expected cpu or neuron")
    return device


def _module_format(environment: Mapping[str, str]) -> ModuleFormat:
    text = environment.get("DEEPINFER_NEURON_MODULE_FORMAT", "").strip() or "mlir"
    if text == "mlir" or text == "hlo":
        return text
    raise ConfigError(f"DEEPINFER_NEURON_MODULE_FORMAT={text!r}: expected mlir or hlo")


def _kernel_choice(environment: Mapping[str, str]) -> KernelChoice:
    text = environment.get("DEEPINFER_NEURON_NKI", "").strip() or "off"
    if text == "off" or text == "auto":
        return text
    raise ConfigError(f"DEEPINFER_NEURON_NKI={text!r}: expected off or auto")


def _graph_mode(environment: Mapping[str, str]) -> str:
    mode = environment.get("DEEPINFER_NEURON_GRAPH_MODE", "").strip() or "whole"
    if mode not in ("whole", "regions"):
        raise ConfigError(f"DEEPINFER_NEURON_GRAPH_MODE={mode!r}: expected whole or regions")
    return mode


def _fp8_max(environment: Mapping[str, str]) -> float | None:
    text = environment.get("DEEPINFER_NEURON_FP8_MAX", "").strip()
    choices = {f"{choice:.0f}": choice for choice in FP8_MAXIMA}
    if text and text not in choices:
        raise ConfigError(f"DEEPINFER_NEURON_FP8_MAX={text!r}: expected one of {', '.join(choices)}")
    return choices.get(text)
