"""What neuronx-cc says when it fails, found in its output.

The output mixes progress dots, log lines of several threads and the error itself, whose form changed over the years:
``[ERROR] [NCC_EVRF029] cause - what to do``, the same without ``[ERROR]`` or after the name of a C++ function, and
``[TEN404] (operation) cause`` of older compilers. ``[F137]`` and its like say how the process ended and stand around
the error that made it end. Forms: AWS Neuron SDK documentation, "Neuron Compiler Error Codes", and the logs in
aws-neuron-sdk#947, #1000, #1253, #1304 and #1362.

Uses the standard library alone: scripts that repeat a failure carry this file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_CODE = re.compile(r"\[(?:NCC_(?P<code>[A-Z]{2,5}\d{3})|(?P<legacy>[A-Z]{3,4}\d{3})(?=\]\s)|(?P<envelope>F\d{3}))\]")
_LEVEL = re.compile(r"\[((?:INTERNAL_)?ERROR)\]\s*$")
_FATAL = re.compile(r"^(?:.*\s)?F\s+\S+?:\d+\]\s*(?P<message>.+)")
_BACKEND = re.compile(r"Backend exited with code -?\d+ and stderr: *(?P<message>.+)")
_RAISED = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): (?P<message>.+)")
_CHECKS = (_FATAL, _BACKEND)

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LEADING_DOTS = re.compile(r"^\.+(?=[^.\s])")
_TRAILING_DOTS = re.compile(r"\s\.{2,}$")
_LOG_LINE_INSIDE = re.compile(r"(?=\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)")

_INSTRUCTION_NAME = re.compile(r"\b(I-\d+(?:-\d+)?)\b")
_OPERATION = re.compile(r"^\s*(?:ROOT )?%?(?P<name>[\w.-]+) = \S.*?[\s)\]}](?P<opcode>[a-z][\w-]*)\(")
_LEGACY_OPERATION = re.compile(r"^\s*\((?P<name>[\w.-]+)\)\s")
_SOURCES = (
    re.compile(r'source_file="(?P<file>[^"]+)"\s+source_line=(?P<line>\d+)'),
    re.compile(r'loc\((?:"[^"]*"\()?"(?P<file>[^"]+)":(?P<line>\d+):\d+'),
)
_DEBUG_LOCATION = re.compile(r'"?(?P<file>[\w./-]+\.py)"?:(?P<line>\d+)')

_WORD = re.compile(r"[\w%.~+/$-]+")
_NUMBERED_NAME = re.compile(r"[A-Za-z_$][._$-]?\d*[._$-]\d|[A-Za-z][._$-]\d")
_NOT_THE_CAUSE = ("F", "MFP")
_CONTEXT_LINES = 12
_END_CHARACTERS = 4 << 20
_LINE_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error of the compiler.

    Attributes:
        code: category and number, such as ``EVRF029``, ``TEN404`` or ``F137``; empty if the compiler gives none.
        message: the cause, one line.
        resolution: what the compiler suggests; empty if nothing.
        level: ``ERROR``, ``INTERNAL_ERROR`` or empty. Compilers do not choose it by the code's first letter.
        instruction: of the back end, such as ``I-3776``; empty if none is named.
        operation: name of the HLO instruction or framework operator; empty if none is named.
        opcode: of the HLO instruction; empty if none is named.
        source: file and line of the model, such as ``model/moe.py:80``; empty if none is named.
    """

    code: str
    message: str
    resolution: str = ""
    level: str = ""
    instruction: str = ""
    operation: str = ""
    opcode: str = ""
    source: str = ""


def parse_diagnostics(text: str) -> tuple[Diagnostic, ...]:
    """Every error in a compiler's output, each once, in order; lines without a code only if none has one.

    Of an output of many megabytes the two ends are read.
    """
    lines = log_lines(text)
    places = [(number, match) for number, line in enumerate(lines) for match in _CODE.finditer(line)]
    found = [_coded(lines, places, position) for position in range(len(places))]
    return tuple(dict.fromkeys(found or _uncoded(lines)))


def find_cause(diagnostics: Sequence[Diagnostic]) -> Diagnostic | None:
    """The error that the others follow from: the first one that is no envelope around others."""
    causes = [one for one in diagnostics if one.code.rstrip("0123456789") not in _NOT_THE_CAUSE]
    return next(iter([*causes, *diagnostics]), None)


def normalise_message(message: str) -> str:
    """A message without numbers, paths, and names that have a number."""
    words = _WORD.sub(lambda match: _normalise_word(match[0]), message)
    return re.sub(r"\s+", " ", re.sub(r"\d+(?:\.\d+)?", "#", words)).strip()


def log_lines(text: str) -> list[str]:
    """Lines without colours and progress dots; a log line that another thread wrote into one is a line of its own."""
    if len(text) > 2 * _END_CHARACTERS:
        text = f"{text[:_END_CHARACTERS]}\n{text[-_END_CHARACTERS:]}"
    plain = _COLOUR.sub("", text).replace("\r", "\n")
    lines = _LOG_LINE_INSIDE.sub("\n", plain).splitlines()
    return [_TRAILING_DOTS.sub("", _shorten(_LEADING_DOTS.sub("", line.rstrip()))) for line in lines]


def failed_check(lines: Sequence[str]) -> str:
    """The message of the first check that failed in the compiler, or of its back end's end; empty without one."""
    return next(
        (match["message"].strip() for pattern in _CHECKS for line in lines if (match := pattern.search(line))), ""
    )


def _normalise_word(word: str) -> str:
    if "/" in word:
        return "PATH"
    if word.startswith("%"):
        return "NAME"
    if word.startswith("0x"):
        return "#"
    return "NAME" if _NUMBERED_NAME.search(word) else word


def _shorten(line: str) -> str:
    """Of a very long line, as only noise is, the part around its first code."""
    if len(line) <= _LINE_CHARACTERS:
        return line
    code = _CODE.search(line)
    start = max(code.start() - _LINE_CHARACTERS // 4, 0) if code else 0
    return line[start : start + _LINE_CHARACTERS]


def _coded(lines: list[str], places: list[tuple[int, re.Match[str]]], position: int) -> Diagnostic:
    number, match = places[position]
    line = lines[number]
    starts_next = position + 1 < len(places) and places[position + 1][0] == number
    rest = line[match.end() : places[position + 1][1].start() if starts_next else None]
    rest = re.sub(r"\[(?:INTERNAL_)?ERROR\]\s*$", "", rest)
    legacy = _LEGACY_OPERATION.match(rest)
    message = rest[legacy.end() :] if legacy else rest
    before = places[position - 1][0] + 1 if position else 0
    after = places[position + 1][0] if position + 1 < len(places) else len(lines)
    following = lines[number + 1 : min(after, number + 1 + _CONTEXT_LINES)]
    preceding = lines[max(before, number - _CONTEXT_LINES) : number]
    if not message.strip() and following:
        message = following[0]
    cause, resolution = _split_resolution(message.strip())
    head = line[: match.start()]
    level = _LEVEL.search(head)
    context = [line, *following, *reversed(preceding)]
    operation = next(filter(None, map(_OPERATION.search, context)), None)
    return Diagnostic(
        code=match["code"] or match["legacy"] or match["envelope"],
        message=cause,
        resolution=resolution,
        level=level[1] if level else "",
        instruction=_first(_INSTRUCTION_NAME, context),
        operation=legacy["name"] if legacy else operation["name"] if operation else "",
        opcode=operation["opcode"] if operation else "",
        source=_source(head, context),
    )


def _uncoded(lines: list[str]) -> list[Diagnostic]:
    """Failed checks and exceptions, for compilers that end without a code."""
    for pattern in (*_CHECKS, _RAISED):
        messages = [match["message"].strip() for line in lines if (match := pattern.search(line))]
        if messages:
            return [Diagnostic("", message, instruction=_first(_INSTRUCTION_NAME, [message])) for message in messages]
    return []


def _split_resolution(message: str) -> tuple[str, str]:
    cause, dash, resolution = message.rpartition(" - ")
    return (cause.strip(), resolution.strip()) if dash and resolution[:1].isupper() else (message, "")


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> str:
    match = next(filter(None, map(pattern.search, lines)), None)
    return match[1] if match else ""


def _source(head: str, context: Sequence[str]) -> str:
    located = _DEBUG_LOCATION.search(head)
    for line in context:
        for pattern in _SOURCES:
            located = located or pattern.search(line)
    return f"{located['file']}:{located['line']}" if located else ""
