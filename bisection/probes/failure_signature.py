"""What stays the same of a compiler's failure when graph, machine and run change.

A code says most. Without one, the lines that compilers end with are looked for in this order: an MLIR error, a failed
check of neuronx-cc, an assertion or another last word of a C++ program, a Python exception (which may only report that
the program it started has died, and so comes after it), and the last line that is no progress.

Uses the standard library alone: scripts that repeat a failure carry this file.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Sequence
from typing import Literal

from ...compiler.targets.diagnostics import failed_check, find_cause, log_lines, normalise_message, parse_diagnostics
from ...compiler.targets.supervision import ProcessResult
from .verdict import Signature

Match = Literal["signature", "code", "any"]

SIGNATURE_RULES = 2
"""Counts changes of what is kept of a message: signatures that were made by other rules are not compared."""

_SHELL_SIGNALS = frozenset(range(128 + 1, 128 + 32))
"""A shell, and a driver that is written like one, ends with 128 + n when its child was ended by signal n."""

_ENVELOPE = re.compile(r"F\d{3}")
_ERROR = re.compile(r"(?:^|[\s:])error: (?:[A-Z_]+: \S*:\d+:\d+: error: )?(?P<message>.+)")
_LAST_WORDS = tuple(
    map(
        re.compile,
        (
            r"(?P<message>Assertion (?:`|'|failure|failed).+)",
            r"(?P<message>LLVM ERROR: .+)",
            r"(?P<message>Check failed: .+)",
            r"(?P<message>UNREACHABLE executed.*)",
            r"(?P<message>terminate called .+)",
            r"(?P<message>Fatal Python error: .+)",
            r"(?P<message>panicked at .+)",
        ),
    )
)
_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^(?P<message>(?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)(?:: .*)?)$")

_PROGRESS = re.compile(r"^\S*\d{4}-\d\d-\d\d[T ]\S+\s.*\b(?:DEBUG|INFO|USER|WARNING)\b")
"""A line that a log has with and without a failure."""

_READ, _LONGEST = 1000, 300
"""Characters of a message that are read, and those of one that are kept."""

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]")
_SHELL = re.compile(r"^(?:\S*/)?(?:ba|da|z)?sh: (?:line )?\d+: ")
_COMMENT = re.compile(r"/\*.*?\*/")
_PRINTED_OPERATION = re.compile(r':\s*(?:%[\w:#.$-]+(?:,\s*)?)+\s*=\s*"?[\w.]+.*|:\s*"\w+\.\w+"\(.*')
_TORCH_OPERATOR = re.compile(r'"torch\.operator"\(.*\bname = "(?P<operator>[\w.]+)"')
"""torch-mlir prints every operator that it does not know as this operation."""

_HLO_TYPE = r"\b(?:pred|token|bf16|[suf]\d+\w*|c\d+)\[[^\]]*\](?:\{[^}]*\})?"
_INSTRUCTION = re.compile(rf"%?[\w.-]+ = (?:\([^=]*?\)|{_HLO_TYPE}) (?P<opcode>[a-z][\w-]*)\(.*")
_TYPES = (
    re.compile(_HLO_TYPE),
    re.compile(r"\b(?:float|bfloat|int|uint)\d+<[^<>]*>"),
    re.compile(r"\b(?:\d+|\?)(?:x(?:\d+|\?))*x(?:[suif]+\d+\w*|bf16|index)\b"),
)
_BRACKETED_TYPE = re.compile(r"(?:\b(?:tensor|vector|memref|strided|complex|tuple)|[!#][\w.]+)<[^<>]*>")
_VALUE = re.compile(r"%[\w.$-]+(?:[:#]\d+)?")
_SYMBOL = re.compile(r'@(?:"[^"]*"|[\w.$-]+)')
_FILE = re.compile(r"[\w./+~-]*\.(?:py|mlir|mlirbc|hlo|pb|neff|so|cpp|cc|c|h|hpp|td|txt)\b(?::\d+)*")
_NUMBER = re.compile(r"(?<![\w.%/$-])[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.$/-]*\w)")
_LISTED = re.compile(r"#(?:\s*[,x]\s*#)+|#,(?=[)\]])")
_REPEATED_TYPE = re.compile(r"\(?TYPE(?:\s*,\s*TYPE)+\)?|\(TYPE\)")
_BYTES = re.compile(r"#\s?(?:[KMGT]i?)?B\b")


def signature_of(result: ProcessResult, log: str) -> Signature | None:
    """The signature of a run; None if it succeeded.

    Args:
        result: how it ended.
        log: everything that it printed and logged.

    Raises:
        ValueError: it was cancelled, which says nothing about the module.
    """
    if result.outcome == "cancelled":
        raise ValueError("a run that was cancelled has no signature")
    if result.outcome == "ok":
        return None
    if result.outcome == "signal":
        return _of_signal(-result.status, log_lines(log))
    if result.outcome == "error":
        return _of_error(result.status, log)
    return Signature(result.outcome)


def without_program(damage: str) -> Signature:
    """The signature of a run that claims success and left no program; ``damage`` says what is wrong with it."""
    return Signature("error", message=stable_message(f"reported success: {damage}"))


def matches(wanted: Signature, seen: Signature | None, how: Match = "signature") -> bool:
    """Whether a failure is the wanted one.

    Args:
        wanted: the signature that is looked for.
        seen: what came of a candidate; None if it compiled.
        how: ``signature`` compares everything, ``code`` how it ended and its code (which may be none in both), ``any``
            takes every failure but that of a candidate which is at fault itself.
    """
    if seen is None or seen.outcome == "invalid":
        return False
    if how == "any":
        return True
    if how == "code":
        return (wanted.outcome, wanted.code) == (seen.outcome, seen.code)
    return wanted == seen


def stable_message(message: str) -> str:
    """A message without what differs from graph to graph: numbers, shapes, types, names of values, files and paths.

    Of an operation that is printed in it, only the name of an HLO opcode stays, or of the operator that a
    torch.operator stands for. Unreadable messages become empty.
    """
    if _UNPRINTABLE.search(message):
        return ""
    text = _COMMENT.sub("", _SHELL.sub("", message[:_READ]))
    text = _INSTRUCTION.sub(r"NAME is TYPE \g<opcode>", text)
    text = _PRINTED_OPERATION.sub(_operator, text)
    for pattern in _TYPES:
        text = pattern.sub("TYPE", text)
    text = _without_bracketed_types(text)
    for pattern, word in ((_VALUE, "NAME"), (_SYMBOL, "@NAME"), (_FILE, "PATH"), (_NUMBER, "#")):
        text = pattern.sub(word, text)
    text = normalise_message(text).replace("[]", "[#]")
    for pattern, word in ((_LISTED, "#"), (_REPEATED_TYPE, "TYPE"), (_BYTES, "#B")):
        text = pattern.sub(word, text)
    return text[:_LONGEST].strip()


def _operator(printed: re.Match[str]) -> str:
    found = _TORCH_OPERATOR.search(printed[0])
    return f": {found['operator']}" if found else ""


def _without_bracketed_types(text: str) -> str:
    """MLIR types can hold each other, the innermost go first."""
    while (shorter := _BRACKETED_TYPE.sub("TYPE", text)) != text:
        text = shorter
    return text


def _of_signal(number: int, lines: Sequence[str]) -> Signature:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return Signature("signal", name, stable_message(_last_words(lines)))


def _of_error(status: int, log: str) -> Signature:
    cause, lines = find_cause(parse_diagnostics(log)), log_lines(log)
    if cause is not None and cause.code:
        said = _last_words(lines) if _ENVELOPE.fullmatch(cause.code) else ""
        return Signature("error", cause.code, stable_message(said or cause.message))
    if status in _SHELL_SIGNALS and not any(_ERROR.search(line) for line in lines):
        return _of_signal(status - 128, lines)
    said = next(filter(None, (find(lines) for find in _FINDERS)), "")
    return Signature("error", message=stable_message(said) if said else f"status {status}")


def _first_error(lines: Sequence[str]) -> str:
    return next((match["message"] for line in lines if (match := _ERROR.search(line))), "")


def _last_words(lines: Sequence[str]) -> str:
    """The first failed assertion, or its like, of a C++ program."""
    found = (match["message"] for line in lines for pattern in _LAST_WORDS if (match := pattern.search(line)))
    return next(found, "")


def _last_exception(lines: Sequence[str]) -> str:
    """Type and message of the exception that ended a Python program: the last one of a chain."""
    found = [match["message"] for line in lines if (match := _EXCEPTION.match(line))]
    for number, line in enumerate(lines):
        if line.strip() == _TRACEBACK:
            found += [one for one in lines[number + 1 :] if one and not one[0].isspace()][:1]
    return found[-1] if found else ""


def _last_line(lines: Sequence[str]) -> str:
    said = (line.strip() for line in reversed(lines) if not _PROGRESS.match(line))
    return next((line for line in said if line.strip(".")), "")


_FINDERS: tuple[Callable[[Sequence[str]], str], ...] = (
    _first_error,
    failed_check,
    _last_words,
    _last_exception,
    _last_line,
)
