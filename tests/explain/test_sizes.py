from __future__ import annotations

import pytest
from deepinfer_neuron.explain.sizes import size_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 30, "3.0 GiB"),
        (1 << 41, "2048.0 GiB"),
    ],
)
def test_bytes_have_a_unit(count, text):
    assert size_text(count) == text
