"""The compiler that candidates are given to: that of a target, or any command."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from ...compiler.targets.command import CompilerCommand, Format
from ...compiler.targets.table import find_target
from ...errors import ConfigError
from ..subjects.render import FORMATS

_PLACE = re.compile(r"\{(?P<file>input|output)(?P<ending>(?:\.\w+)*)\}")
_LEFT_OVER = re.compile(r"\{(?:input|output)[^}]*\}?")
_INPUT_NAMES: dict[Format, str] = {
    "mlir": "module.mlir",
    "text": "module.mlir",
    "portable": "module.mlir",
    "hlo": "module.hlo.pb",
    "python": "graph.py",
}
_FORMAT_OF_ENDING: dict[str, Format] = {
    "": "text",
    ".mlir": "text",
    ".mlirbc": "mlir",
    ".vhlo": "portable",
    ".pb": "hlo",
    ".py": "python",
}


def probe_compiler(target: str | None, command: str | None, format: Format | None = None) -> CompilerCommand:
    """The compiler of ``target`` as the environment asks for it, or the one that ``command`` starts.

    A command runs in a directory of its own. ``{input}`` in it is the file with the candidate, ``{output}`` the one
    that it has to write; without ``{output}`` its exit status alone counts. Both may have an ending, as in
    ``{input.mlir}`` or ``{output.neff}``, which the file then has. Words that name a file, relative to here, by a path
    with a ``/`` or an ending are made absolute.

    Args:
        target: name of a target.
        command: shell words; no shell runs.
        format: what the command reads. Without it the ending of ``{input}`` says so: ``.mlir`` or none for MLIR text,
            ``.mlirbc`` for bytecode, ``.vhlo`` for a portable artifact, ``.pb`` for an HLO proto, ``.py`` for the graph
            in Python.

    Raises:
        ConfigError: not one of target and command, a format for a target, an unknown target, format or ending, no
            ``{input}``, two endings for one file, no such program or one that cannot be executed.
    """
    if (target is None) == (command is None):
        raise ConfigError("give the compiler either as a target or as a command (--target or --command)")
    if command is not None:
        return _of_command(command, format)
    assert target is not None
    if format is not None:
        raise ConfigError(f"target {target} has a format of its own: leave out --format, or give a --command")
    return find_target(target).command()


def _of_command(command: str, format: Format | None) -> CompilerCommand:
    if format is not None and format not in FORMATS:
        raise ConfigError(f"unknown format {format!r}: expected one of {', '.join(FORMATS)}")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"command {command!r}: expected shell words ({error})") from error
    places = list(_PLACE.finditer(command))
    _check_places(command, places)
    read = _ending("input", command, places)
    assert read is not None
    written = _ending("output", command, places)
    chosen = format or _format_of(read)
    program = _program(words[0])
    arguments = [_absolute(_PLACE.sub(r"{\g<file>}", word)) for word in words[1:]]
    return CompilerCommand(
        name=_name(words),
        command=(str(program), *arguments),
        input_name=f"module{read}" if read else _INPUT_NAMES[chosen],
        output_name="" if written is None else f"program{written}",
        format=chosen,
        fingerprint=f"{_versions([str(program), *arguments])}; {shlex.join(words)}; {chosen}",
    )


def _check_places(command: str, places: Sequence[re.Match[str]]) -> None:
    if not any(place["file"] == "input" for place in places):
        raise ConfigError(f"command {command!r} has no {{input}}: write it where the name of the module's file belongs")
    unknown = _LEFT_OVER.search(_PLACE.sub("", command))
    if unknown:
        raise ConfigError(f"command {command!r} has {unknown[0]}: expected {{input}} or an ending as in {{input.mlir}}")


def _ending(file: str, command: str, places: Sequence[re.Match[str]]) -> str | None:
    """The ending that a file is to have, empty if any will do; None if the command does not name the file."""
    endings = {place["ending"] for place in places if place["file"] == file}
    named = sorted(endings - {""})
    if len(named) > 1:
        raise ConfigError(f"command {command!r} names two endings of its {file}, {' and '.join(named)}: keep one")
    return named[0] if named else "" if endings else None


def _format_of(ending: str) -> Format:
    last = Path(f"module{ending}").suffix
    if last not in _FORMAT_OF_ENDING:
        known = ", ".join(filter(None, _FORMAT_OF_ENDING))
        raise ConfigError(f"{{input{ending}}}: expected an ending of {known}, or a format (--format)")
    return _FORMAT_OF_ENDING[last]


def _program(word: str) -> Path:
    found = shutil.which(word)
    if found is None:
        raise ConfigError(f"command {word}: no such program, or none that can be executed")
    # Not resolved: programs look beside the name they are started by, such as an interpreter in its environment.
    return Path(found).absolute()


def _name(words: Sequence[str]) -> str:
    """The program's, with that of the script if it is started with one."""
    script = [Path(word).name for word in words[1:2] if Path(word).is_file()]
    return " ".join([Path(words[0]).name, *script])


def _absolute(word: str) -> str:
    path = Path(word)
    return str(path.absolute()) if ("/" in word or path.suffix) and path.is_file() else word


def _versions(words: Sequence[str]) -> str:
    """Names and contents of the files that a command names: another version of one is another compiler."""
    files = [Path(word) for word in words if Path(word).is_absolute() and Path(word).is_file()]
    return ", ".join(f"{file.name} {_digest(file)}" for file in files)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
