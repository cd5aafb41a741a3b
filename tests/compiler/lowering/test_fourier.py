from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.lowering.fourier import half_to_whole, transform_all
from deepinfer_neuron.errors import LoweringError

LENGTHS = (1, 2, 7, 64, 67, 100, 1024, 2 * 3 * 5 * 7 * 11)


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("forward", [True, False])
def test_transforms_are_those_of_pytorch(size, forward):
    parts = torch.randn(2, 3, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    real, imaginary = transform_all((parts[0], parts[1]), [-1], forward)
    signal = torch.complex(parts[0], parts[1])
    expected = torch.fft.fft(signal) if forward else torch.fft.ifft(signal, norm="forward")
    torch.testing.assert_close(torch.complex(real, imaginary), expected, rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize("size", LENGTHS)
def test_the_other_half_of_a_real_signal_is_its_mirror(size):
    signal = torch.randn(3, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    half = torch.fft.rfft(signal)
    whole = torch.complex(*half_to_whole((half.real, half.imag), 1, size))
    torch.testing.assert_close(whole, torch.fft.fft(signal))


def test_long_primes_are_refused_with_their_length():
    signal = torch.zeros(4099)
    with pytest.raises(LoweringError, match="length 4099, a prime"):
        transform_all((signal, signal), [0], True)
