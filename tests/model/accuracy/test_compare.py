import json

import pytest
import torch
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.model.accuracy.compare import NOISE_FACTOR, compare_files
from deepinfer_neuron.model.accuracy.tensor_file import read_tensors, write_tensors
from typer.testing import CliRunner


@pytest.fixture
def changed(golden_file, tmp_path):
    """A function that writes the golden file with some tensors replaced (None: left out)."""
    tensors, metadata = read_tensors(golden_file[0])

    def write(**replacements):
        new = tensors | {name.replace("__", "/"): value for name, value in replacements.items()}
        path = tmp_path / "candidate.safetensors"
        write_tensors(path, {name: value for name, value in new.items() if value is not None}, metadata)
        return path

    return write


def test_a_file_agrees_with_itself(golden_file):
    path, golden = golden_file
    comparison = compare_files(path, path)
    assert comparison.agrees
    assert [row.error.rel for row in comparison.logits] == [0, 0]
    assert [row.rel for row in comparison.layers] == [[0.0] * 2] * 2
    assert [(row.name, row.different) for row in comparison.values] == [("one/tokens", 0), ("twenty/tokens", 0)]
    assert {row.noise_rel for row in comparison.logits} == {max(p.noise.rel for p in golden.prompts.values())}


def test_errors_beyond_the_noise_disagree(golden_file, changed):
    path, golden = golden_file
    logits = golden.prompts["twenty"].logits
    noise = max(prompt.noise.rel for prompt in golden.prompts.values())
    for factor, agrees in ((0.9, True), (1.1, False)):
        # A scaled row keeps its argmax: only the size of the error decides.
        moved = logits.clone()
        moved[1] *= 1 + factor * max(NOISE_FACTOR * noise, 1e-6)
        assert compare_files(changed(twenty__logits=moved), path).agrees is agrees


def test_a_clear_argmax_that_moves_is_no_noise(golden_file, changed):
    path, golden = golden_file
    logits = golden.prompts["twenty"].logits.clone()
    logits[2, int(logits[2].argmin())] = logits[2].max() + 1
    row = next(row for row in compare_files(changed(twenty__logits=logits), path).logits if row.name == "twenty/logits")
    assert row.error.argmax == 0.75
    assert not row.decided
    assert not row.agrees


def test_layers_and_values_are_located(golden_file, changed):
    path, golden = golden_file
    hidden, tokens = golden.prompts["one"].hidden.clone(), torch.tensor(golden.prompts["one"].tokens)
    hidden[2, 1] *= 2
    tokens[-1] += 1
    comparison = compare_files(changed(one__hidden=hidden, one__tokens=tokens), path)
    layers = next(row.rel for row in comparison.layers if row.name == "one/hidden")
    assert layers == [0, pytest.approx(1)]
    assert next((row.name, row.different) for row in comparison.values) == ("one/tokens", 1)


def test_a_lacking_prompt_is_named(golden_file, changed):
    comparison = compare_files(changed(one__logits=None), golden_file[0])
    assert comparison.missing == ["one/logits"]
    assert not comparison.agrees


def test_incomparable_files_are_refused(golden_file, changed, nano_a):
    with pytest.raises(ArtifactError, match="no tensor in common"):
        compare_files(nano_a / "outputs.safetensors", golden_file[0])
    with pytest.raises(ArtifactError, match="one/logits is"):
        compare_files(changed(one__logits=torch.zeros(2, 2)), golden_file[0])


def test_commands(nano_a, tmp_path):
    """``golden --prompts`` writes the published values of any checkpoint; ``compare`` reads them."""
    prompts = json.loads((nano_a / "inputs.json").read_text())["prompts"]
    inputs, out, report = tmp_path / "inputs.json", tmp_path / "ours.safetensors", tmp_path / "report.json"
    inputs.write_text(json.dumps({"prompts": {"p17": prompts["p17"]}}))
    switches = ["--dtype", "fp32", "--kv-quant", "off", "--act-quant", "off"]
    arguments = ["golden", str(nano_a), "--prompts", str(inputs), "--out", str(out), "--json", str(report), *switches]
    made = CliRunner().invoke(main, arguments)
    assert made.exit_code == 0, made.output
    assert sorted(json.loads(report.read_text())["tensors"]) == sorted(read_tensors(out)[0])

    published = str(nano_a / "outputs.safetensors")
    compared = CliRunner().invoke(main, ["compare", published, str(out), "--json", str(report)])
    assert compared.exit_code == 0, compared.output
    written = json.loads(report.read_text())
    assert written["agrees"] is True
    assert {row["name"] for row in written["logits"]} >= {"fp32/p17/logits"}
    assert max(row["error"]["rel"] for row in written["logits"]) < 1e-5

    incomplete = CliRunner().invoke(main, ["compare", str(out), published])
    assert incomplete.exit_code == 1
    assert "fp32/p150/logits" in incomplete.output
