"""jaxlib makes arrays without searching for jax, and nobody else notices."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from deepinfer_neuron.runtime.devices import jax_stand_in
from deepinfer_neuron.runtime.devices.jax_stand_in import call_without_jax
from deepinfer_neuron.runtime.devices.pjrt import PjrtDevice
from deepinfer_neuron.runtime.memory import aligned_empty

NAMES = ("jax", "jax._src", "jax._src.sharding_impls")

SEARCH = """
import importlib.abc, sys
import torch
from deepinfer_neuron.runtime.devices.pjrt import PjrtDevice
from deepinfer_neuron.runtime.memory import aligned_empty
searched = []
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        searched.append(name)
device = PjrtDevice()
sys.meta_path.insert(0, Finder())
device.buffer(aligned_empty((4,), torch.float32))
assert searched == [], searched
assert not [name for name in sys.modules if name.split(".")[0] == "jax"]
try:
    import jax
except ImportError:
    pass
else:
    raise AssertionError("jax can be imported")
"""


@pytest.fixture
def jax_is_absent(monkeypatch):
    monkeypatch.setattr(jax_stand_in, "_jax_is_installed", lambda: False)
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_no_search_and_no_trace():
    subprocess.run([sys.executable, "-c", SEARCH], check=True)


def test_stand_ins_are_there_during_the_call_only(jax_is_absent):
    def look(*args, **kwargs):
        return [name for name in NAMES if name in sys.modules], args, kwargs

    seen = call_without_jax(look, 1, a=2)
    assert seen == (["jax", "jax._src.sharding_impls"], (1,), {"a": 2})
    assert not any(name in sys.modules for name in NAMES)


def test_stand_ins_are_gone_after_an_error(jax_is_absent):
    with pytest.raises(ZeroDivisionError):
        call_without_jax(lambda: 1 // 0)
    assert not any(name in sys.modules for name in NAMES)


def test_an_imported_jax_is_left_alone(jax_is_absent, monkeypatch):
    real = object()
    monkeypatch.setitem(sys.modules, "jax", real)
    assert call_without_jax(lambda: sys.modules["jax"]) is real
    assert sys.modules["jax"] is real


def test_buffers_know_their_device(jax_is_absent):
    tensor = aligned_empty((4,), torch.float32)
    buffer = PjrtDevice().buffer(tensor)
    assert buffer.unsafe_buffer_pointer() == tensor.data_ptr()
    assert buffer.platform() == "cpu"
