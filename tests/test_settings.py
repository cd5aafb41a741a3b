from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.settings import Settings


def test_an_empty_environment_gives_the_defaults():
    assert Settings.from_environment({}) == Settings()


def test_every_variable_is_read():
    settings = Settings.from_environment(
        {
            "DEEPINFER_NEURON_DUMP": "graphs",
            "DEEPINFER_NEURON_PASS_LIMIT": "2",
            "DEEPINFER_ENFORCE_EAGER": "1",
            "DEEPINFER_NEURON_DEVICE": "cpu",
            "DEEPINFER_NEURON_NUM_KV_BLOCKS": "64",
            "DEEPINFER_NEURON_GRAPH_MODE": "regions",
            "DEEPINFER_NEURON_CC": "bin/neuronx-cc",
            "DEEPINFER_NEURON_CC_TIMEOUT": "60",
            "DEEPINFER_NEURON_CC_MEMORY_GB": "16",
            "DEEPINFER_NEURON_CC_RETRIES": "0",
            "NEURON_LOGICAL_NC_CONFIG": "1",
            "NEURON_CC_FLAGS": "--cache_dir=cache",
            "NEURON_COMPILE_CACHE_URL": "s3://bucket",
            "DEEPINFER_NEURON_CACHE": "programs, /shared/programs",
            "XLA_FLAGS": " --b=1 --a=2",
            "DEEPINFER_NEURON_LIBNRT": "lib/libnrt.so.1",
            "DEEPINFER_NEURON_LOCAL_RANK": "3",
            "NEURON_RT_VISIBLE_CORES": "0-3",
            "DEEPINFER_NEURON_FP8_MAX": "224",
            "DEEPINFER_NEURON_MODULE_FORMAT": "hlo",
            "DEEPINFER_NEURON_NKI": "auto",
        }
    )
    assert settings == Settings(
        dump_directory=Path("graphs"),
        pass_limit=2,
        enforce_eager=True,
        device="cpu",
        num_kv_blocks=64,
        graph_mode="regions",
        compiler=Path("bin/neuronx-cc"),
        compiler_timeout_s=60,
        compiler_memory_gb=16,
        compiler_retries=0,
        logical_core_size=1,
        compiler_flags="--cache_dir=cache",
        compile_cache_url="s3://bucket",
        cache_directories=(Path("programs"), Path("/shared/programs")),
        xla_flags=("--a=2", "--b=1"),
        neuron_library=Path("lib/libnrt.so.1"),
        local_rank=3,
        visible_cores="0-3",
        fp8_max=224.0,
        module_format="hlo",
        nki="auto",
    )
    assert Settings.from_environment({"DEEPINFER_NEURON_DEVICE": "neuron"}).device == "neuron"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("DEEPINFER_NEURON_PASS_LIMIT", "-1", "at least 0"),
        ("DEEPINFER_NEURON_PASS_LIMIT", "many", "at least 0"),
        ("DEEPINFER_NEURON_NUM_KV_BLOCKS", "0", "at least 1"),
        ("DEEPINFER_NEURON_CC_TIMEOUT", "0", "at least 1"),
        ("DEEPINFER_NEURON_CC_RETRIES", "some", "at least 0"),
        ("DEEPINFER_NEURON_MODULE_FORMAT", "text", "mlir or hlo"),
        ("DEEPINFER_NEURON_NKI", "on", "off or auto"),
        ("DEEPINFER_NEURON_FP8_MAX", "300", "one of 448, 240, 224"),
        ("DEEPINFER_NEURON_GRAPH_MODE", "halves", "whole or regions"),
        ("DEEPINFER_NEURON_CACHE", "programs,,shared", "one is empty"),
        ("DEEPINFER_ENFORCE_EAGER", "maybe", "1 or 0"),
        ("DEEPINFER_NEURON_DEVICE", "gpu", "expected cpu or neuron"),
        ("DEEPINFER_NEURON_LOCAL_RANK", "first", "at least 0"),
    ],
)
def test_an_unusable_value_is_refused_by_name(name, value, message):
    with pytest.raises(ConfigError, match=name) as caught:
        Settings.from_environment({name: value})
    assert message in str(caught.value)


def test_the_process_environment_is_read_once():
    code = (
        "import os; from deepinfer_neuron.settings import settings; first = settings();"
        "os.environ['DEEPINFER_NEURON_PASS_LIMIT'] = '5'; assert settings() is first; print(first.pass_limit)"
    )
    environment = {**os.environ, "DEEPINFER_NEURON_PASS_LIMIT": "3"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "3"
