"""What the documents name exists, what exists is named, and what they show works."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import deepinfer_neuron
import pytest
import typer
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.compiler.lowering.inexact import INEXACT
from deepinfer_neuron.passes.pipeline import PASSES

ROOT = Path(deepinfer_neuron.__file__).parent
DOCUMENTS = (
    *("README.md", "COMPILE_NOTES.md", "CONTRIBUTING.md"),
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)
WITH_EXAMPLES = ("README.md", "docs/guide.md")

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*deepinfer-neuron +(\S.*)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MAKE_TARGET = re.compile(r"^make ([a-z-]+)", re.MULTILINE)
MADE_BY_A_COMMAND = {
    *("programs/", ".venv", "demo/", "nano/golden.safetensors", "nano/regions.html", "again.safetensors"),
    *("bisect/result/", "repro.py"),
}
OF_OTHER_TOOLS = {
    *("--auto-cast", "--native-int64", "--implicit-integer-downcast", "--internal-hlo2tensorizer-options"),
    *("--experimental-unsafe-fp8e4m3fn-as-fp8e4m3", "--lnc", "--retry_failed_compilation", "--cache_dir"),
    "--iree-opt-level",
}


def read(name: str) -> str:
    return (ROOT / name).read_text()


def blocks(name: str) -> list[tuple[str, str]]:
    """Language and text of each fenced block."""
    return FENCED.findall(read(name))


def spans(name: str) -> list[str]:
    """Inline code."""
    return re.findall(r"`([^`\n]+)`", FENCED.sub("", read(name)))


def all_commands() -> dict[str, typer.core.TyperCommand]:
    """Every command by its words, such as ``cache vendor ls``."""

    def walk(words: tuple[str, ...], command) -> Iterator[tuple[str, typer.core.TyperCommand]]:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                yield from walk((*words, name), inner)
        else:
            yield " ".join(words), command

    return dict(walk((), typer.main.get_command(main)))


COMMANDS = all_commands()
OPTIONS = {
    option
    for command in COMMANDS.values()
    for parameter in command.params
    for option in (*parameter.opts, *parameter.secondary_opts)
}


def shown(name: str) -> Iterator[tuple[str, bool]]:
    """The arguments of each command line of a document, and whether it is complete, as in a block to copy from."""
    for language, text in blocks(name):
        if language in ("", "text"):
            yield from ((found[1], True) for line in text.splitlines() if (found := COMMAND.fullmatch(line)))
    for span in spans(name):
        words = span.split()
        if (found := COMMAND.fullmatch(span)) and found[1] != "...":
            yield found[1], False
        elif len(words) > 1 and any(one == words[0] or one.startswith(f"{words[0]} ") for one in COMMANDS):
            yield span, False


def complaints(line: str, complete: bool) -> list[str]:
    """What the command line interface would refuse of a command line; paths need not exist."""
    words = shlex.split(line, comments=True)
    beginnings = (" ".join(words[:count]) for count in range(1, 4))
    name = next((one for one in beginnings if one in COMMANDS), None)
    if name is None:
        is_group = any(one.startswith(f"{line} ") for one in COMMANDS)
        return [] if is_group and not complete else ["no such command"]
    command, arguments = COMMANDS[name], words[len(name.split()) :]
    context = command.context_class(command, info_name=name)
    try:
        values, left, _ = command.make_parser(context).parse_args(arguments)
    except Exception as error:
        return [f"{name}: {error}"]
    found = [f"{name}: nothing takes {one!r}" for one in left]
    if not complete:
        return found
    for parameter in command.params:
        try:
            parameter.process_value(context, values.get(parameter.name))
        except Exception as error:
            found.append(f"{name}: {parameter.name}: {error}")
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("compile nano --batch-sizes 1,2 --explain  # a comment", []),
        ("compile nano --batch-size 2", ["No such option"]),
        ("compile nano --mode regional", ["mode: .*'regional' is not one of"]),
        ("compile", ["directory: Missing"]),
        ("cache vendor", ["no such command"]),
        ("doctor nano", ["doctor: nothing takes 'nano'"]),
        ("cache vendor import --store", ["'--store' requires an argument"]),
    ],
)
def test_wrong_command_lines_are_told_from_right_ones(line: str, expected: list[str]) -> None:
    found = complaints(line, complete=True)
    assert len(found) == len(expected)
    assert all(re.search(pattern, one) for one, pattern in zip(found, expected, strict=True)), found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_line_is_one_that_the_command_takes(document: str) -> None:
    assert [f"{one}: {line}" for line, complete in shown(document) for one in complaints(line, complete)] == []


def test_command_lines_are_found_where_they_are() -> None:
    counts = {document: len(list(shown(document))) for document in DOCUMENTS}
    assert counts["docs/guide.md"] > 30
    assert min(counts["README.md"], counts["COMPILE_NOTES.md"], counts["docs/numbers.md"]) > 5


@pytest.mark.parametrize("document", DOCUMENTS)
def test_inline_code_ends_on_its_line(document: str) -> None:
    assert [line for line in FENCED.sub("", read(document)).splitlines() if line.count("`") % 2] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_option_named_alone_exists(document: str) -> None:
    options = {re.split(r"[ =]", span)[0] for span in spans(document) if span.startswith("--")}
    assert options - OPTIONS - OF_OTHER_TOOLS == set()


def test_the_readme_names_every_command() -> None:
    text = read("README.md")
    assert [command for command in COMMANDS if not re.search(rf"[ `]{command}\b", text)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_exists(document: str) -> None:
    paths = [span for span in spans(document) if re.fullmatch(r"[\w.]+(/[\w.]*)+|[\w]+\.(py|md|toml)", span)]
    assert [path for path in paths if path not in MADE_BY_A_COMMAND and not (ROOT / path).exists()] == []


def anchors(document: Path) -> set[str]:
    """Of each heading, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document: str) -> None:
    lost = []
    for link in LINK.findall(FENCED.sub("", read(document))):
        path, _, anchor = link.partition("#")
        target = (ROOT / document).parent / path if path else ROOT / document
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


def test_every_document_is_linked_from_the_notes_or_the_readme() -> None:
    linked = {link.partition("#")[0] for name in ("README.md", "COMPILE_NOTES.md") for link in LINK.findall(read(name))}
    assert set(DOCUMENTS) - {"README.md"} <= linked


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    code = (text for document in DOCUMENTS for text in (*spans(document), *(text for _, text in blocks(document))))
    named = {target for text in code for target in MAKE_TARGET.findall(text)}
    assert {"demo", "test"} <= named
    assert named <= targets


def test_variables_in_the_guide_are_those_that_are_read() -> None:
    variable = r"DEEPINFER_[A-Z0-9_]+"
    documented = set(re.findall(rf"^\| `({variable})`", read("docs/guide.md"), re.MULTILINE))
    assert documented == set(re.findall(variable, read("settings.py")))
    for document in DOCUMENTS:
        assert set(re.findall(variable, read(document))) <= documented


def test_every_pass_is_described_in_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \|", read("COMPILE_NOTES.md"), re.MULTILINE)
    assert rows == [(entry.name, "yes" if entry.required else "no") for entry in PASSES]
    assert re.findall(r"^## `(\w+)`$", read("docs/passes.md"), re.MULTILINE) == [entry.name for entry in PASSES]


def test_every_inexact_operator_is_named() -> None:
    section = read("docs/quirks.md").partition("## Inexact operators")[2].partition("\n## ")[0]
    for overload in INEXACT:
        operator = overload._schema.name.partition("::")[2].strip("_").removeprefix("native_").removeprefix("linalg_")
        assert operator.replace("_", " ") in section.replace("_", " ").replace("-", " "), overload


@pytest.fixture(scope="module")
def folder(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the examples run, one after another, with a checkpoint ``nano``."""
    made = tmp_path_factory.mktemp("examples")
    (made / "nano").symlink_to(small)
    return made


@pytest.mark.parametrize(
    ("document", "number"),
    [
        (document, number)
        for document in WITH_EXAMPLES
        for number, (language, _) in enumerate(blocks(document))
        if language == "python"
    ],
)
def test_the_examples_run_and_print_what_is_shown(
    document: str, number: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    capsys.readouterr()
    exec(compile(blocks(document)[number][1], document, "exec"), {"__name__": "example"})
    language, printed = blocks(document)[number + 1]
    assert capsys.readouterr().out == (printed if language == "text" else "")


def test_the_package_list_is_complete() -> None:
    configured = tomllib.loads(read("pyproject.toml"))["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT) for path in ROOT.rglob("__init__.py")}
    folders = {folder for folder in folders if folder.parts[:1] not in {(".venv",), ("build",), ("tests",)}}
    assert set(configured) == {".".join(("deepinfer_neuron", *folder.parts)) for folder in folders}
    assert len(configured) == len(set(configured))
