"""A machine with the Neuron runtime and no neuronx-cc serves what another one compiled, and nothing else.

The stand-in for neuronx-cc compiles in worker processes, the stand-in for libnrt runs what they stored.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.compiler.programs.plan_fingerprint import kernels_digest
from deepinfer_neuron.compiler.targets.neuron_fingerprint import asked_fingerprint, with_kernels
from deepinfer_neuron.compiler.targets.table import find_target
from deepinfer_neuron.engine.ahead_of_time import run_compile
from deepinfer_neuron.engine.decode_source import DecodeOptions, DecodeSource
from deepinfer_neuron.engine.loading import LoadedDecode, load_decode
from deepinfer_neuron.errors import CompilerMissingError, ConfigError, StoreMissError
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.runtime.loader import PLAN, DecodeVariant, store_plan
from deepinfer_neuron.runtime.plan import DecodePlan
from deepinfer_neuron.runtime.store.programs import PROGRAM
from deepinfer_neuron.runtime.store.store import ArtifactStore
from deepinfer_neuron.settings import settings
from neuron_compilers import install_compiler
from nrt_standin import Standin

STEP = {"batch_sizes": (1,), "max_context": 64, "mode": "regions"}
OPTIONS = STEP | {"on_miss": "error"}
VERSION, LATER = "2.27.5334.0+6f180f47", "2.28.1.0+abcdef01"
TOKENS = (3, 7, 13)
Environment = Callable[..., None]


def decode(loaded: LoadedDecode) -> torch.Tensor:
    request = loaded.open()
    return torch.stack([loaded.step([request], [token]).clone() for token in TOKENS])


@pytest.fixture(scope="module")
def compiled(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that a machine with a compiler, and without a core, has filled."""
    root = tmp_path_factory.mktemp("compiled")
    compiler = install_compiler(root / "compiler", version=VERSION)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEEPINFER_NEURON_CC", str(compiler))
        settings.cache_clear()
        options = DecodeOptions(**STEP, target="trn2")
        result = run_compile(small, options, ArtifactStore(root / "store"), jobs=2)
    settings.cache_clear()
    assert result.plan is not None
    return root / "store"


@pytest.fixture
def store(compiled: Path, tmp_path: Path) -> ArtifactStore:
    """A copy of it on the machine that serves."""
    shutil.copytree(compiled, tmp_path / "store")
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def environment(
    compiled: Path, standin: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Environment]:
    """Sets variables of this process, which has a core, and no compiler unless one is installed on the search path."""

    def choose(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()

    (tmp_path / "bin").mkdir()
    choose(PATH=str(tmp_path / "bin"), DEEPINFER_NEURON_DEVICE="neuron", DEEPINFER_NEURON_LIBNRT=str(standin.path))
    yield choose
    monkeypatch.undo()
    settings.cache_clear()


def plan_of(store: ArtifactStore, variant: DecodeVariant) -> DecodePlan:
    return DecodePlan.from_json(json.loads(store.require(variant.plan_key).read("plan.json")))


def versions_said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The versions in log lines about programs that another machine made."""
    lines = [record.getMessage() for record in caplog.records if "no compiler for trn2 here" in record.getMessage()]
    return [line.partition("made by neuronx-cc ")[2].partition(";")[0] for line in lines]


def add_version(small: Path, store: ArtifactStore, version: str) -> DecodeVariant:
    """Store the same plan as that of another version of the compiler."""
    with open_checkpoint(small) as checkpoint:
        (there,) = DecodeSource(checkpoint, DecodeOptions(**STEP)).stored_variants(store)
    later = replace(there, fingerprint=asked_fingerprint("trn2").of_version(version))
    store_plan(store, later, plan_of(store, there))
    return later


def test_what_another_machine_compiled_is_served(small, store, environment, standin, caplog):
    with caplog.at_level(logging.INFO, "deepinfer_neuron"):
        served = load_decode(small, store, **OPTIONS)
    assert not served.compiled
    assert versions_said(caplog) == [VERSION]
    before = standin.executions
    logits = decode(served)
    assert standin.executions - before == len(TOKENS) * len(served.runner.plan.replays[0].regions)
    assert len(logits) == len(TOKENS) and logits.isfinite().all()
    environment(PATH=str(install_compiler(Path(store.local.root).parent / "bin", version=VERSION).parent))
    caplog.clear()
    with caplog.at_level(logging.INFO, "deepinfer_neuron"):
        again = load_decode(small, store, **OPTIONS)
    assert versions_said(caplog) == []
    assert torch.equal(decode(again), logits)


def test_a_serving_process_imports_nothing_of_the_compiler_but_how_targets_are_named(small, store, environment):
    code = f"""
import json, sys
from pathlib import Path
from deepinfer_neuron.engine.decode_source import DecodeOptions, DecodeSource
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.runtime.store.store import ArtifactStore
source = DecodeSource(open_checkpoint(Path({str(small)!r})), DecodeOptions(**{STEP!r}))
assert source.stored_variants(ArtifactStore(Path({str(store.local.root)!r})))
print(json.dumps([name for name in sys.modules if name.startswith("deepinfer_neuron.compiler")]))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    names = {
        name.removeprefix("deepinfer_neuron.compiler").partition(".targets")[0] for name in json.loads(result.stdout)
    }
    assert names == {""}, names


def test_an_installed_compiler_of_another_version_is_a_miss(small, store, environment, tmp_path):
    install_compiler(tmp_path / "bin", version=LATER)
    with pytest.raises(StoreMissError, match=r"fingerprint: .*neuronx-cc 2\.27.* there, .*neuronx-cc 2\.28.* here"):
        load_decode(small, store, **OPTIONS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NEURON_CC_FLAGS", "--optlevel=1"),
        ("NEURON_LOGICAL_NC_CONFIG", "1"),
        ("DEEPINFER_NEURON_MODULE_FORMAT", "hlo"),
        ("DEEPINFER_NEURON_NKI", "auto"),
    ],
)
def test_what_the_compiler_was_told_must_be_what_is_asked_for(small, store, environment, name, value):
    environment(**{name: value})
    with pytest.raises(StoreMissError, match=r"whatever the compiler's version.*fingerprint: "):
        load_decode(small, store, **OPTIONS)


def test_a_plan_with_device_kernels_is_served_where_the_same_kernels_are(small, store, environment, caplog):
    with open_checkpoint(small) as checkpoint:
        (there,) = DecodeSource(checkpoint, DecodeOptions(**STEP)).stored_variants(store)
    environment(DEEPINFER_NEURON_NKI="auto")
    kernels = kernels_digest(find_target("trn2"))
    replaced = replace(there, fingerprint=with_kernels(there.fingerprint, kernels))
    store_plan(store, replaced, plan_of(store, there))
    with caplog.at_level(logging.INFO, "deepinfer_neuron"):
        assert not load_decode(small, store, **OPTIONS).compiled
    assert f"; kernels {kernels}" in caplog.text
    environment(DEEPINFER_NEURON_NKI="off")
    with open_checkpoint(small) as checkpoint:
        assert DecodeSource(checkpoint, DecodeOptions(**STEP)).stored_variants(store) == [there]


@pytest.mark.parametrize("on_miss", ["error", "compile"])
def test_another_step_is_a_miss_that_is_no_matter_of_versions(small, store, environment, on_miss):
    with pytest.raises(StoreMissError) as miss:
        load_decode(small, store, **(OPTIONS | {"max_context": 128, "on_miss": on_miss}))
    assert "max_context: 64 there, 128 here" in str(miss.value)
    assert "fingerprint: " not in str(miss.value)
    assert "neuronx-cc: no such compiler" in str(miss.value)
    assert len(store.entries(PLAN)) == 1


def test_the_youngest_version_is_served_and_an_older_one_if_that_is_damaged(small, store, environment, caplog):
    later = add_version(small, store, LATER)
    with caplog.at_level(logging.INFO, "deepinfer_neuron"):
        load_decode(small, store, **OPTIONS)
        path = store.local.layout.entry(later.plan_key.digest) / "plan.json"
        path.write_bytes(path.read_bytes()[:-1])
        load_decode(small, store, **OPTIONS)
    assert versions_said(caplog) == [LATER, VERSION]


def test_a_lost_program_is_a_miss_that_compiles_nothing(small, store, environment):
    victim, _ = store.entries(PROGRAM)[0]
    shutil.rmtree(store.local.layout.entry(victim.digest))
    with pytest.raises(StoreMissError, match="the stored plan needs program"):
        load_decode(small, store, **STEP)


def test_shared_stores_are_asked_too(small, store, environment, tmp_path):
    local = ArtifactStore(tmp_path / "local", [store.local.root])
    assert not load_decode(small, local, **OPTIONS).compiled
    assert len(local.entries(PLAN)) == 1


def test_a_compiler_that_is_named_must_be_there(small, store, environment, tmp_path):
    environment(DEEPINFER_NEURON_CC=str(tmp_path / "neuronx-cc"))
    with pytest.raises(ConfigError, match="neuronx-cc: no such compiler") as error:
        load_decode(small, store, **OPTIONS)
    assert not isinstance(error.value, CompilerMissingError)
