"""A directory of one compilation's own, on a disk of this machine."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import ConfigError

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = re.compile(r"nfs\d*|cifs|smb\w*|lustre|ceph|afs|9p|gpfs|beegfs\w*|glusterfs|fuse\.(?!fuse-overlayfs).+")


@contextmanager
def working_directory() -> Iterator[Path]:
    """A new directory under ``TMPDIR``, removed afterwards with what the compiler left in it.

    Compilers write files with fixed names, which those of concurrent compilations would overwrite, and many small ones,
    which network file systems serve slowly and sometimes late.

    Raises:
        ConfigError: there is no writable temporary directory, or it is on a network file system.
    """
    try:
        parent = Path(tempfile.gettempdir()).resolve()
        refuse_network(parent)
        directory = tempfile.TemporaryDirectory(prefix="deepinfer-neuron-", dir=parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise ConfigError(f"no temporary directory: {error}; set TMPDIR to one that can be written") from error
    with directory as name:
        yield Path(name)


def refuse_network(directory: Path) -> None:
    """Raise ConfigError if a directory is on a network file system."""
    kind = file_system_type(directory)
    if _NETWORK.fullmatch(kind):
        raise ConfigError(
            f"{directory} is on a network file system ({kind}), where compilers cannot work; set TMPDIR to a "
            "directory on a local disk"
        )


def file_system_type(directory: Path) -> str:
    """The type of the file system that holds an absolute path, such as ``ext4``; empty if it cannot be told."""
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return ""
    longest, kind = -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), before.split()[4]))
        # Of two mounts on one place the later one is seen.
        if directory.is_relative_to(mount) and len(mount.parts) >= longest:
            longest, kind = len(mount.parts), after.split()[0]
    return kind
