from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from deepinfer_neuron.compiler.targets import working_directory as module
from deepinfer_neuron.compiler.targets.working_directory import file_system_type, working_directory
from deepinfer_neuron.errors import ConfigError

MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
23 22 0:40 / /shared rw,relatime shared:1 - {kind} server:/export rw
24 23 8:2 / /shared/local\\040disk rw,relatime - xfs /dev/sdb1 rw
25 22 0:41 / /scratch rw - {kind} server:/old rw
26 25 0:42 / /scratch rw - tmpfs tmpfs rw
"""


@pytest.fixture
def mounts(tmp_path, monkeypatch):
    """Replaces the table of mounts by one with a network file system of some kind."""

    def mount(kind: str) -> None:
        table = tmp_path / "mountinfo"
        table.write_text(MOUNTS.format(kind=kind))
        monkeypatch.setattr(module, "_MOUNTS", table)

    return mount


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/data", "ext4"),
        ("/shared", "nfs4"),
        ("/shared/me", "nfs4"),
        ("/sharedmore", "ext4"),
        ("/shared/local disk/me", "xfs"),
        ("/scratch/me", "tmpfs"),
    ],
)
def test_the_innermost_and_latest_mount_counts(mounts, path, kind):
    mounts("nfs4")
    assert file_system_type(Path(path)) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "9p", "fuse.sshfs", "fuse.s3fs"])
def test_network_file_systems_are_refused_by_name(mounts, kind):
    mounts(kind)
    with pytest.raises(ConfigError, match=rf"/shared/me is on a network file system \({kind}\).*set TMPDIR"):
        module.refuse_network(Path("/shared/me"))


@pytest.mark.parametrize("kind", ["ext4", "xfs", "tmpfs", "overlay", "btrfs", "fuse.fuse-overlayfs"])
def test_local_file_systems_are_taken(mounts, kind):
    mounts(kind)
    module.refuse_network(Path("/shared/me"))


def test_an_unknown_table_refuses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOUNTS", tmp_path / "none")
    assert file_system_type(Path("/shared")) == ""


def test_the_directory_is_private_and_goes_with_its_content(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with working_directory() as first, working_directory() as second:
        (first / "module.neff").write_text("half")
        assert first != second and first.parent == second.parent == tmp_path
        assert first.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_directory_that_is_none_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match=r"no temporary directory.*set TMPDIR"), working_directory():
        pass
