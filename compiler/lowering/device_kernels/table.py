"""The kernels that ship, in the order in which they are tried. None of them has run here."""

from __future__ import annotations

from .kernel import DeviceKernel
from .rms_norm import RMS_NORM
from .rotate import ROTATE

KERNELS: tuple[DeviceKernel, ...] = (RMS_NORM, ROTATE)
