"""An option that a command would ignore is refused before any work."""

from __future__ import annotations

from pathlib import Path

import pytest
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.model.checkpoint.tiny import make_checkpoint
from typer.testing import CliRunner

CASES = [
    ("compile DIR --no-store --store STORE", "--store"),
    ("compile DIR --no-store --assert-hit", "--assert-hit"),
    ("compile DIR --no-store --jobs 2", "--jobs"),
    ("compile DIR --jobs 2", "--jobs"),
    ("compile DIR --store STORE --assert-hit --jobs 2", "--jobs"),
    ("run DIR --mode regions --hidden", "--hidden"),
    ("run DIR --mode whole --hidden", "--hidden"),
    ("run DIR --mode eager --numerics exact", "--numerics"),
    ("verify DIR --level 1 --numerics fast", "--numerics"),
    ("golden DIR --prompts FILE", "--out"),
    ("bisect FILE --target host --batch-size 2", "--batch-size"),
    ("bisect FILE --target host --region end", "--region"),
    ("bisect FILE --target host --mode whole", "--mode"),
    ("bisect FILE --target host --max-context 64", "--max-context"),
    ("bisect FILE --target host --passes", "--passes"),
    ("bisect FILE --command COMPILER --target host", "--target"),
    ("bisect --model DIR --target host --format hlo", "--format"),
    ("bisect --model DIR --target host --accuracy --no-simplify", "--simplify"),
    ("bisect --model DIR --target host --accuracy --max-context 64", "--max-context"),
    ("cache clear --store STORE --failures --kind program", "--kind"),
    ("cache clear --store STORE --failures --unused-for 3", "--unused-for"),
]


@pytest.mark.parametrize(("words", "option"), CASES)
def test_an_option_that_would_be_ignored_is_refused(words: str, option: str, tmp_path: Path):
    places = {"DIR": "nano", "STORE": "store", "FILE": "graph.json"}
    arguments = [str(tmp_path / places[word]) if word in places else word for word in words.split()]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    assert f"Invalid value for {option}:" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_size_of_a_checkpoint_that_is_there_is_not_asked_for_twice(tmp_path: Path):
    make_checkpoint(tmp_path / "nano", "nano")
    result = CliRunner().invoke(main, ["demo", "--dir", str(tmp_path / "nano"), "--size", "tiny"])
    assert result.exit_code == 2
    assert "Invalid value for --size:" in result.stderr
    assert not (tmp_path / "nano" / "golden.safetensors").exists()


@pytest.mark.parametrize("flag", ["--preflight", "--rules", "--histogram"])
def test_compile_leaves_the_preflight_to_its_own_command(flag: str, tmp_path: Path):
    assert CliRunner().invoke(main, ["compile", str(tmp_path / "nano"), flag]).exit_code == 2
