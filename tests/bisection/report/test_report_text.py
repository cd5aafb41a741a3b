"""The text of a bug report."""

from __future__ import annotations

from bisect_results import make_result, shell_recipe, sorting, traced
from deepinfer_neuron.bisection.probes.verdict import Signature
from deepinfer_neuron.bisection.report.facts import title_of
from deepinfer_neuron.bisection.report.minimal_graph import nodes_of
from deepinfer_neuron.bisection.report.report_text import HEAD_LINES, report_text
from deepinfer_neuron.bisection.report.repro import ReproRun
from deepinfer_neuron.bisection.search.result import Stage

RUN = ReproRun(0, "command: cc\nREPRODUCED\n")


def text_of(result, texts=(), run=RUN):
    return report_text(result, shell_recipe("exit 1"), run, nodes_of(result.reduction.minimal), texts)


def rows(text: str, title: str) -> list[str]:
    section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


def test_the_title_names_the_code_and_the_operators():
    assert title_of(make_result(), nodes_of(sorting())).startswith("EVRF029 on stablehlo.sort: Operation sort is not")
    result = make_result(minimal=traced(), signature=Signature("timeout"))
    assert title_of(result, nodes_of(traced())) == "timeout on aten.sin, aten.add.Tensor"
    long = make_result(signature=Signature("error", "", "x" * 500))
    assert len(title_of(long, nodes_of(sorting()))) == 120


def test_a_stage_without_questions_is_not_shown():
    stages = (Stage("regions", 12, 6, 4, 41.5), Stage("results", 6, 6, 0, 0.0), Stage("operations", 6, 2, 0, 0.1))
    shown = rows(text_of(make_result(stages=stages)), "What was tried")
    assert [row.split(" | ")[0] for row in shown] == ["| regions", "| operations"]


def test_every_fact_is_there():
    text = text_of(make_result())
    for part in (
        "EVRF029",
        "`nano, batch 4, trn2`",
        "neuronx-cc 2.27; --target=trn2",
        "the whole program 3 of 3 runs, the minimal one 5 of 5",
        "12 operations reduced to 1",
        "without any one of its operations it does not fail",
        "reproduced when it was run in a process of its own",
        "11 probes and 2 known answers in 1 min 53 s",
        "6.1 probes",
        "`good.mlir` has 0 operations",
        "* tensor %a: 512 rows to 4",
        "```text\ncommand: cc\nREPRODUCED\n```",
    ):
        assert part in text, part
    assert rows(text, "What was tried") == [
        "| regions | 12 | 6 | 4 | 41.5 s |",
        "| operations | 6 | 2 | 7 | 1 min 12 s |",
    ]
    assert rows(text, "Without one operation") == ["| `%op_3` | it compiles |", "| `%op_8` | it compiles |"]
    assert rows(text, "Also seen") == ["| 1 | `signal: SIGSEGV` | 0 | 2 |"]
    assert rows(text, "Lines of the model") == [
        "| `model/moe.py:13` | `%op_3 = aten.add.Tensor(%op_2, %op_-2) : f32[4]` |",
        "| `model/moe.py:18` | `%op_8 = aten.add.Tensor(%op_7, %op_3) : f32[4]` |",
    ]


def test_what_is_not_known_is_not_claimed():
    text = text_of(make_result(complete=False, is_minimal=False, good=None, others=(), simplifications=()), run=None)
    assert "the search was ended early" in text
    assert "it was run in a process" not in text and "was not run" in text
    for title in ("Also seen", "nearest program", "made simpler", "introduced by"):
        assert title not in text
    assert "not shown: some operation could be removed" in text_of(make_result(is_minimal=False))
    assert "introduced by: `pass 7, fold_casts`" in text_of(make_result(introduced_by="pass 7, fold_casts"))


def test_long_programs_are_shown_to_their_head():
    texts = [("Short", "a.txt", "line\n" * 60), ("Long", "b.mlir", "".join(f"line {n}\n" for n in range(61)))]
    text = text_of(make_result(), texts)
    assert text.count("\nline\n") + text.count("\nline") >= 60 and "a.txt" not in text
    assert f"line {HEAD_LINES - 1}\n" in text and f"line {HEAD_LINES}\n" not in text
    assert f"The first {HEAD_LINES} of 61 lines; all are in `b.mlir`." in text


def test_names_are_not_taken_for_markdown():
    hostile = "a|b `c` ```\n# d <script> *e*"
    result = make_result(
        subject=hostile,
        removals=(f"{hostile}: {hostile}",),
        simplifications=(hostile,),
        signature=Signature("error", "", hostile),
    )
    text = text_of(result, [("T", "f", hostile)])
    assert "\n# d" not in text.replace(f"````text\n{hostile}\n````", "")
    assert rows(text, "Without one operation")[0].count("|") == 3 + 2
    assert "````text" in text
    assert "\\<script\\>" in text.splitlines()[0]
