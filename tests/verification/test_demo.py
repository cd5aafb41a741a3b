"""The main job end to end on a nano checkpoint, through the command line."""

import json

import pytest
import torch
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.model.accuracy.golden_pool import load_golden_prompts, make_pool
from deepinfer_neuron.model.accuracy.teacher_forced import add_prompts, rewind, run_forced
from deepinfer_neuron.runtime.store import default
from deepinfer_neuron.runtime.store.store import ArtifactStore
from deepinfer_neuron.settings import Settings
from deepinfer_neuron.verification import demo
from typer.testing import CliRunner
from verdicts import verdict_of


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "nano"


@pytest.fixture(scope="module")
def store(directory):
    """What the demo compiles is kept, so that no test compiles it again."""
    return ArtifactStore(directory.parent / "store")


@pytest.fixture(scope="module")
def report(directory, store):
    out = directory.parent / "report.json"
    arguments = ["demo", "--dir", str(directory), "--size", "nano", "--batch-sizes", "2", "--json", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "settings", lambda: Settings(cache_directories=(store.local.root,)))
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "Compiled against golden choices" in result.output
    assert "First layer against the reference" in result.output
    assert "operation that differs" not in result.output
    good, found, _ = verdict_of(result.stdout)
    assert good == "good"
    assert "choices equal the reference" in found
    return json.loads(out.read_text())


def test_the_eager_model_makes_every_golden_choice_and_stays_at_the_floor(report):
    assert [prompt["tokens"] for prompt in report["prompts"]] == [11, 172, 715]
    for prompt in report["prompts"]:
        assert prompt["argmax_match"] == prompt["steps"] == 9
        assert prompt["logits_rel"] <= prompt["floor_rel"]
        assert 1 - prompt["logits_cos"] <= 1 - prompt["floor_cos"]
        assert prompt["kl"] >= 0


def test_the_first_layer_has_no_differing_bit(report):
    names = [comparison["op"] for comparison in report["layer0"]]
    assert len(names) == len(set(names)) > 40
    assert {name.rpartition("[")[2] for name in names} == {"prefill]", "decode]"}
    assert [comparison for comparison in report["layer0"] if not comparison["equal"]] == []


def test_compiled_steps_follow_the_eager_ones(report):
    assert [one["batch_size"] for one in report["compiled"]] == [2]
    for one in report["compiled"]:
        assert (one["mode"], one["regions"], one["programs"]) == ("whole", 1, 1)
        assert one["steps"] == 8 * 4
        assert one["argmax_match"] >= 0.8 * one["steps"]
        assert one["rel_rms_to_eager"] < 0.3
        assert 0 <= one["teacher_forced_mismatch"] < 0.5
        assert min(one[key] for key in ("ms_per_step", "eager_ms_per_step", "nodes", "capture_s", "compile_s")) > 0


def test_choices_that_differ_lie_within_the_noise_of_the_reference(report):
    assert report["agrees"] is True
    assert report["noise_margin"] > 0
    for one in (*report["prompts"], *report["compiled"]):
        assert len(one["miss_margins"]) == one["steps"] - one["argmax_match"]
        assert all(0 <= margin <= report["noise_margin"] for margin in one["miss_margins"])


@pytest.mark.slow
def test_the_mode_reaches_the_compiler(report, directory, monkeypatch):
    asked = []

    def refuse(model, batch_sizes, mode, progress):
        asked.append(mode)
        raise ConfigError("nothing is compiled here")

    monkeypatch.setattr(demo, "compile_decode", refuse)
    for arguments, mode in ((["--mode", "regions"], "regions"), ([], None)):
        result = CliRunner().invoke(main, ["demo", "--dir", str(directory), "--batch-sizes", "1", *arguments])
        assert result.exit_code == 1
        assert asked.pop() == mode
    assert CliRunner().invoke(main, ["demo", "--mode", "halves"]).exit_code == 2


def test_a_second_run_uses_what_is_there(report, directory):
    stamps = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    load_golden_prompts(directory, "nano", lambda line: pytest.fail(f"unexpected work: {line}"))
    assert {path.name: path.stat().st_mtime_ns for path in directory.iterdir()} == stamps


def test_caches_are_updated_in_place_and_two_runs_agree_to_the_bit(report, directory, store):
    checkpoint, golden = load_golden_prompts(directory, "nano", print)
    pool = make_pool(checkpoint, golden, 4)
    forced = add_prompts(pool, list(golden.prompts.values())[:2])
    prefilled = pool.model.cache.snapshot()
    runner = compile_decode(pool.model, [2], store=store, assert_hit=True)
    pointers = {name: root.data_ptr() for name, root in pool.model.cache.named_buffers()}
    first = run_forced(pool, forced, runner)
    written = pool.model.cache.snapshot()
    assert {name: root.data_ptr() for name, root in pool.model.cache.named_buffers()} == pointers
    assert all(not torch.equal(written[name], prefilled[name]) for name in written)
    rewind(pool, forced, prefilled)
    assert torch.equal(run_forced(pool, forced, runner), first)
    assert all(torch.equal(root, written[name]) for name, root in pool.model.cache.named_buffers())


@pytest.mark.parametrize("sizes", ["0", "1,x", "", "-1"])
def test_bad_batch_sizes_are_named(tmp_path, sizes):
    result = CliRunner().invoke(main, ["demo", "--dir", str(tmp_path / "none"), f"--batch-sizes={sizes}"])
    assert result.exit_code == 1
    assert not (tmp_path / "none").exists()


def test_a_damaged_golden_file_is_refused(report, directory, tmp_path):
    for path in directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    golden = tmp_path / "golden.safetensors"
    golden.write_bytes(golden.read_bytes()[:-100])
    result = CliRunner().invoke(main, ["demo", "--dir", str(tmp_path), "--batch-sizes", "1"])
    assert result.exit_code == 1
