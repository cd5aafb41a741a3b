"""The operators of the model, a registry of the test's own, and a stand-in for NKI."""

from deepinfer_neuron.model.kernels import library, linear, normalization, rotary  # noqa: F401
from kernel_fixtures import empty_registry, nki_standin, write_source  # noqa: F401
