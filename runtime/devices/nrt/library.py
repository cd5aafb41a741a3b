"""The functions of libnrt that are used here, as its headers declare them.

Source: aws-neuron-sdk, src/libnrt/include/nrt: nrt.h, nrt_experimental.h, nrt_version.h and nec.h.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from ....errors import DeviceError

DEFAULT_LIBRARY = Path("/opt/aws/neuron/lib/libnrt.so.1")
MAJOR_VERSION = 2

WITHOUT_FRAMEWORK = 1
"""``NRT_FRAMEWORK_TYPE_NO_FW``."""
ON_DEVICE = 0
"""``NRT_TENSOR_PLACEMENT_DEVICE``."""

NAME_BYTES = 256


class TensorInfo(ctypes.Structure):
    """``nrt_tensor_info_t``: an input (usage 0) or output (usage 1) of a loaded program."""

    _fields_ = (
        ("name", c_char * NAME_BYTES),
        ("usage", c_int),
        ("size", c_size_t),
        ("dtype", c_int),
        ("shape", POINTER(c_uint32)),
        ("ndim", c_uint32),
    )


class TensorInfoArray(ctypes.Structure):
    """``nrt_tensor_info_array_t``, whose ``tensor_count`` tensors follow ``tensors[0]`` in memory."""

    _fields_ = (("tensor_count", c_uint64), ("tensors", TensorInfo * 0))


class InstanceInfo(ctypes.Structure):
    """``nrt_instance_info_t``: the machine."""

    _fields_ = (
        ("family", c_uint32),
        ("size", c_uint32),
        ("arch_name", c_char * 16),
        ("device_revision", c_char * 8),
    )


class LibraryVersion(ctypes.Structure):
    """``nrt_version_t``."""

    _fields_ = (
        ("major", c_uint64),
        ("minor", c_uint64),
        ("patch", c_uint64),
        ("maintenance", c_uint64),
        ("detail", c_char * 128),
        ("git_hash", c_char * 64),
    )


_HANDLE = c_void_p
_NEW_HANDLE = POINTER(c_void_p)

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "nrt_init": (c_int, c_char_p, c_char_p),
    "nrt_close": (),
    "nrt_get_version": (POINTER(LibraryVersion), c_size_t),
    "nrt_get_instance_info": (POINTER(InstanceInfo), c_size_t),
    "nec_get_virtual_core_size": (POINTER(c_uint32),),
    "nrt_get_visible_vnc_count": (POINTER(c_uint32),),
    "nrt_load": (c_char_p, c_size_t, c_int32, c_int32, _NEW_HANDLE),
    "nrt_unload": (_HANDLE,),
    "nrt_get_model_tensor_info": (_HANDLE, POINTER(POINTER(TensorInfoArray))),
    "nrt_free_model_tensor_info": (POINTER(TensorInfoArray),),
    "nrt_tensor_allocate": (c_int, c_int, c_size_t, c_char_p, _NEW_HANDLE),
    "nrt_tensor_allocate_slice": (_HANDLE, c_size_t, c_size_t, c_char_p, _NEW_HANDLE),
    "nrt_tensor_free": (_NEW_HANDLE,),
    "nrt_tensor_read": (_HANDLE, c_void_p, c_size_t, c_size_t),
    "nrt_tensor_write": (_HANDLE, c_void_p, c_size_t, c_size_t),
    "nrt_allocate_tensor_set": (_NEW_HANDLE,),
    "nrt_destroy_tensor_set": (_NEW_HANDLE,),
    "nrt_add_tensor_to_tensor_set": (_HANDLE, c_char_p, _HANDLE),
    "nrt_execute": (_HANDLE, _HANDLE, _HANDLE),
}
"""Types of the arguments of each function. All return a status, except those of ``WITHOUT_STATUS``."""

WITHOUT_STATUS = frozenset({"nrt_close", "nrt_tensor_free", "nrt_destroy_tensor_set"})


def load_library(path: Path | None = None) -> ctypes.CDLL:
    """The library with its functions declared; by default the one that AWS's packages install.

    Raises:
        DeviceError: it is not there, cannot be loaded, lacks a function or is of another major version.
    """
    path = path or DEFAULT_LIBRARY
    if not path.exists():
        raise DeviceError(
            f"there is no Neuron runtime at {path}: install aws-neuronx-runtime-lib, or set DEEPINFER_NEURON_LIBNRT "
            "to the libnrt.so.1 of this machine"
        )
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(f"{path} cannot be loaded: {error}; install aws-neuronx-runtime-lib again") from error
    missing = [name for name in FUNCTIONS if not hasattr(library, name)]
    if missing:
        raise DeviceError(f"{path} has no {', '.join(missing)}: install the libnrt of Neuron SDK 2.32 or newer")
    for name, types in FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = types
        function.restype = None if name in WITHOUT_STATUS else c_int
    _check_version(library, path)
    return library


def _check_version(library: ctypes.CDLL, path: Path) -> None:
    version = LibraryVersion()
    status = library.nrt_get_version(ctypes.byref(version), ctypes.sizeof(version))
    if status or version.major != MAJOR_VERSION:
        found = f"status {status}" if status else f"version {version.major}.{version.minor}"
        raise DeviceError(f"{path} answers with {found}: libnrt {MAJOR_VERSION}.x is needed, install it")
