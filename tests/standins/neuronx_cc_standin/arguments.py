"""The documented command line of neuronx-cc, read strictly: what no public source has is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TENSORIZER = "--internal-hlo2tensorizer-options"
REINTERPRET_FP8 = "--experimental-unsafe-fp8e4m3fn-as-fp8e4m3"
LOGICAL_CORE_SIZES = {"trn1": ("1",), "trn2": ("1", "2"), "trn3": ("1", "2")}

SPELLINGS = {"-O": "--optlevel", "-lnc": "--lnc", "--logical-nc-config": "--lnc"}
VALUES = {
    "--framework": "XLA",
    "--target": "trn1|trn2|trn3",
    "--model-type": "generic|transformer|unet-inference",
    "--auto-cast": "none|matmult|all",
    "--auto-cast-type": "bf16|fp16|tf32|fp8_e4m3",
    "--optlevel": "1|2|3",
    "--lnc": "1|2",
    "--native-int64": "default|enabled|disabled",
    "--implicit-integer-downcast": "default|all|none|(dot|scatter|all_reduce|reduce_scatter|pow)(,(dot|scatter|pow))*",
    "--verbose": r"info|warning|error|critical|debug|\d+",
    "--logfile": ".+",
    "--output": r".+\.neff",
    TENSORIZER: r"(--[\w-]+(=\S+)?)( --[\w-]+(=\S+)?)*",
    "--internal-backend-options": ".+",
    "--distribution-strategy": "llm-training",
}
SWITCHES = {
    *("--enable-mixed-precision-accumulation", "--disable-mixed-precision-accumulation"),
    *("--enable-saturate-infinity", "--enable-fast-context-switch", "--enable-fast-loading-neuron-binaries"),
}
NEEDED = ("--framework", "--target", "--output")


class UsageError(Exception):
    """A command line that neuronx-cc does not document; the text is what is printed."""


@dataclass(frozen=True)
class Arguments:
    """A command that can be carried out."""

    module: Path
    flags: dict[str, str]

    @property
    def target(self) -> str:
        return self.flags["--target"]

    @property
    def logical_core_size(self) -> int:
        return int(self.flags.get("--lnc", LOGICAL_CORE_SIZES[self.target][-1]))

    @property
    def tensorizer_options(self) -> tuple[str, ...]:
        return tuple(self.flags.get(TENSORIZER, "").split())

    @property
    def output(self) -> Path:
        return Path(self.flags["--output"])

    @property
    def log(self) -> Path:
        return Path(self.flags.get("--logfile", "log-neuron-cc.txt"))


def parse_arguments(words: Sequence[str]) -> Arguments:
    """Read what follows the program's name; raises UsageError."""
    if not words or words[0] != "compile":
        raise UsageError("usage: neuronx-cc compile <model_files> --framework XLA --target <target> [...]")
    files, flags = [], {}
    for name, value in _pairs(words[1:]):
        if not name:
            files.append(value)
        elif flags.setdefault(name, value) != value or (name == TENSORIZER and _count(words, name) > 1):
            raise UsageError(f"{name} is given more than once")
    if len(files) != 1 or not Path(files[0]).is_file():
        raise UsageError(f"expected one model file that exists, got {files}")
    for name in NEEDED:
        if name not in flags:
            raise UsageError(f"{name} is missing")
    _check(flags)
    return Arguments(Path(files[0]), flags)


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Full names of flags with their values; an empty name for what is no flag."""
    pending = list(words)
    while pending:
        word, equals, value = pending.pop(0).partition("=")
        if not word.startswith("-"):
            yield "", word
            continue
        if re.fullmatch("-O[123]", word):
            word, equals, value = "-O", "=", word[2:]
        name = SPELLINGS.get(word, word)
        if name in SWITCHES and not equals:
            yield name, ""
        elif name not in VALUES:
            raise UsageError(f"unrecognized arguments: {word}")
        else:
            value = value if equals else (pending.pop(0) if pending else "")
            if not re.fullmatch(VALUES[name], value):
                raise UsageError(f"argument {name}: invalid choice: {value!r} (choose from {VALUES[name]})")
            yield name, value


def _count(words: Sequence[str], name: str) -> int:
    return sum(word.partition("=")[0] == name for word in words)


def _check(flags: dict[str, str]) -> None:
    target = flags["--target"]
    if flags.get("--lnc", LOGICAL_CORE_SIZES[target][-1]) not in LOGICAL_CORE_SIZES[target]:
        raise UsageError(
            f"[ERROR] [NCC_EARG001] Unsupported Logical Neuron Core (LNC) configuration: {flags['--lnc']} on {target}"
        )
    if target == "trn1" and {"--native-int64", "--implicit-integer-downcast"} & flags.keys():
        raise UsageError("--native-int64 and --implicit-integer-downcast need trn2 or later")
    if target != "trn1" and "--enable-saturate-infinity" in flags:
        raise UsageError("--enable-saturate-infinity is for trn1 only")
