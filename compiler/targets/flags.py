"""The flags of neuronx-cc: typed, in one order, and merged with what ``NEURON_CC_FLAGS`` asks for.

Names and values: AWS Neuron SDK documentation, "Neuron Compiler CLI Reference Guide"; those that begin with
``--internal`` and ``--experimental`` from public Neuron libraries (NKIPy, neuronx-distributed-inference).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import ConfigError

REINTERPRET_FP8 = "--experimental-unsafe-fp8e4m3fn-as-fp8e4m3"
"""Reads the bytes of OCP e4m3fn (largest 448) as the e4m3 of trn1 and trn2 (largest 240)."""

LOGICAL_CORE_SIZES = {"trn1": (1,), "trn2": (2, 1), "trn3": (2, 1)}
"""Physical cores that a logical core may have, the default first."""

_TENSORIZER = "--internal-hlo2tensorizer-options"
_SPELLINGS = {"-O": "--optlevel", "-lnc": "--lnc", "--logical-nc-config": "--lnc"}
_CHOICES = {
    "--optlevel": ("1", "2", "3"),
    "--model-type": ("generic", "transformer", "unet-inference"),
    "--auto-cast": ("none",),
    "--framework": ("XLA",),
    "--native-int64": ("enabled",),
    "--implicit-integer-downcast": ("none",),
}
_OURS = ("--output", "--logfile")
_OF_THE_WRAPPER = ("--cache_dir", "--log_level")
_SWITCHES_OF_THE_WRAPPER = ("--no_cache", "--retry_failed_compilation")
_VALUED = (*_CHOICES, *_OURS, *_OF_THE_WRAPPER, "--target", "--lnc", _TENSORIZER)


@dataclass(frozen=True)
class CompilerFlags:
    """What neuronx-cc is told besides its input and output.

    fp32 products are never cast down (``--auto-cast=none``, which the compiler does not take for granted), and int64
    is never narrowed silently: values the next compiler makes its default are pinned for this one.

    Attributes:
        target: ``trn1``, ``trn2`` or ``trn3``.
        logical_core_size: physical cores of a logical core; must be that of the runtime.
        optlevel: 1 to 3.
        model_type: what the compiler tunes for.
        tensorizer_options: parts of the one ``--internal-hlo2tensorizer-options``; given twice, the second one counts.
        others: flags that are passed on as they are, by name.

    Raises:
        ConfigError: a combination the compiler would refuse, or compile to wrong values.
    """

    target: str
    logical_core_size: int
    optlevel: int = 2
    model_type: str = "transformer"
    tensorizer_options: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.target not in LOGICAL_CORE_SIZES:
            raise ConfigError(f"target {self.target!r}: expected one of {', '.join(LOGICAL_CORE_SIZES)}")
        sizes = LOGICAL_CORE_SIZES[self.target]
        if self.logical_core_size not in sizes:
            allowed = " or ".join(map(str, sorted(sizes)))
            raise ConfigError(
                f"--lnc={self.logical_core_size}: {self.target} has logical cores of {allowed} physical cores "
                "(the compiler's error NCC_EARG001)"
            )
        _check_choice("--optlevel", str(self.optlevel))
        _check_choice("--model-type", self.model_type)
        _check_options(self.tensorizer_options)
        if self.target == "trn3" and REINTERPRET_FP8 in self.tensorizer_options:
            raise ConfigError(
                f"{REINTERPRET_FP8}: trn3 computes in OCP e4m3fn itself and refuses a mixture (the compiler's error "
                "NCC_EOCP001); leave it out"
            )

    @property
    def words(self) -> tuple[str, ...]:
        """The flags in one order, without names of files: equal flags give equal words."""
        words = [
            "--framework=XLA",
            f"--target={self.target}",
            f"--lnc={self.logical_core_size}",
            f"--optlevel={self.optlevel}",
            f"--model-type={self.model_type}",
            "--auto-cast=none",
        ]
        if self.target != "trn1":
            words += ["--native-int64=enabled", "--implicit-integer-downcast=none"]
        if self.tensorizer_options:
            words.append(f"{_TENSORIZER}={' '.join(self.tensorizer_options)}")
        return (*words, *self.others)

    def command_line(self, module: Path, output: Path, log: Path, program: str = "neuronx-cc") -> list[str]:
        """The command by which ``program`` compiles the file ``module`` to the NEFF ``output`` and writes ``log``."""
        return [program, "compile", str(module), *self.words, f"--logfile={log}", f"--output={output}"]


def default_flags(target: str, logical_core_size: int | None = None) -> CompilerFlags:
    """The flags for a decode step; raises ConfigError for an unknown target or size.

    Kernels called from a module may hold e4m3fn, which trn1 and trn2 take only as their own e4m3.
    """
    size = LOGICAL_CORE_SIZES.get(target, (1,))[0] if logical_core_size is None else logical_core_size
    return CompilerFlags(target, size, tensorizer_options=() if target == "trn3" else (REINTERPRET_FP8,))


def merge_flags(flags: CompilerFlags, environment: str) -> CompilerFlags:
    """Add what ``NEURON_CC_FLAGS`` asks for.

    Level, model type, tensorizer options and flags unknown here are taken over; flags of the vendor's compiler wrapper,
    such as ``--cache_dir``, are passed over.

    Args:
        flags: the flags so far.
        environment: value of the variable, shell words.

    Raises:
        ConfigError: no shell words, a flag given twice with different values, or one that contradicts ``flags``.
    """
    asked = _parse(environment)
    _refuse_contradictions(flags, asked)
    options = [*flags.tensorizer_options, *shlex.split(asked.get(_TENSORIZER) or "")]
    others = {name: value for name, value in asked.items() if name not in (*_VALUED, *_SWITCHES_OF_THE_WRAPPER)}
    words = [name if value is None else f"{name}={value}" for name, value in others.items()]
    return replace(
        flags,
        optlevel=int(asked.get("--optlevel") or flags.optlevel),
        model_type=asked.get("--model-type") or flags.model_type,
        tensorizer_options=tuple(sorted(set(options))),
        others=tuple(sorted({*flags.others, *words})),
    )


def _refuse_contradictions(flags: CompilerFlags, asked: dict[str, str | None]) -> None:
    for name, settled in (("--target", flags.target), ("--lnc", str(flags.logical_core_size))):
        if name in asked and asked[name] != settled:
            raise ConfigError(
                f"NEURON_CC_FLAGS has {name}={asked[name]}, but {settled} is compiled for; remove it there"
            )
    for name in _OURS:
        if name in asked:
            raise ConfigError(f"NEURON_CC_FLAGS has {name}: files are named by us; remove it there")
    for name in _CHOICES:
        if name in asked:
            _check_choice(name, asked[name])


def _check_choice(name: str, value: str | None) -> None:
    choices = _CHOICES[name]
    if value not in choices:
        reason = "" if len(choices) > 1 else "; other values change results"
        raise ConfigError(f"{name}={value}: expected {' or '.join(choices)}{reason}")


def _check_options(options: tuple[str, ...]) -> None:
    """Each option once: which of two values would count is not documented."""
    by_name: dict[str, str] = {}
    for option in options:
        other = by_name.setdefault(option.partition("=")[0], option)
        if other != option:
            name = option.partition("=")[0]
            raise ConfigError(f"{_TENSORIZER} has {name} twice, as {other} and {option}; keep one")


def _parse(environment: str) -> dict[str, str | None]:
    """Flags by full name; None for one without a value. Tensorizer options given twice are joined."""
    flags: dict[str, str | None] = {}
    for name, value in _flag_values(environment):
        if name == _TENSORIZER and name in flags:
            flags[name] = f"{flags[name]} {value}"
        elif flags.setdefault(name, value) != value:
            raise ConfigError(f"NEURON_CC_FLAGS has {name} twice, as {flags[name]} and {value}; keep one")
    return flags


def _flag_values(environment: str) -> Iterator[tuple[str, str | None]]:
    try:
        words = shlex.split(environment)
    except ValueError as error:
        raise ConfigError(f"NEURON_CC_FLAGS={environment!r}: expected shell words ({error})") from error
    position = 0
    while position < len(words):
        name, equals, value = _split(words[position])
        position += 1
        if not name.startswith("-"):
            raise ConfigError(f"NEURON_CC_FLAGS has {name!r}: expected a flag such as --optlevel=2")
        has_value = position < len(words) and (name in _VALUED or not words[position].startswith("-"))
        if equals:
            yield name, value
        elif has_value:
            yield name, words[position]
            position += 1
        elif name in _VALUED:
            raise ConfigError(f"NEURON_CC_FLAGS has {name} without a value; write {name}=VALUE")
        else:
            yield name, None


def _split(word: str) -> tuple[str, bool, str]:
    """Name, whether a value is in the same word, and that value."""
    name, equals, value = word.partition("=")
    if name in ("-O1", "-O2", "-O3") and not equals:
        return "--optlevel", True, name[2:]
    return _SPELLINGS.get(name, name), bool(equals), value
