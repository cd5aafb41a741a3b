from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest
from deepinfer_neuron.errors import ConfigError, InputError
from deepinfer_neuron.runtime.vendor_cache import DEFAULT_ROOT, cache_root, find_modules
from vendor_caches import COMPILER, MODULE, OLD_COMPILER, make_module

HLO = {"model.hlo_module.pb": b"module"}
LOCK = {"model.hlo_module.pb.lock": b""}
HOLD = """
import fcntl, sys
with open(sys.argv[1]) as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("files", "age_s", "state"),
    [
        (HLO | {"model.neff": b"program", "model.done": b""}, 0, "success"),
        (HLO | LOCK | {"model.neff": b"program", "model.done": b"", "model.log": b"warning"}, 9999, "success"),
        (HLO | {"model.log": b"error"}, 0, "failed"),
        (HLO | LOCK | {"model.log": b"error"}, 0, "failed"),
        (HLO | {"model.log": b"error", "model.neff": b"", "model.done": b""}, 0, "failed"),
        (HLO | LOCK | {"model.log": b"KeyboardInterrupt"}, 9999, "failed"),
        (HLO | LOCK, 0, "active"),
        (HLO | LOCK, 3500, "active"),
        (HLO | LOCK, 3700, "stale"),
        (HLO | LOCK | {"model.neff": b"half"}, 3700, "stale"),
        (HLO | {"model.neff": b"half"}, 0, "stale"),
        (HLO | {"model.neff": b"", "model.done": b""}, 0, "stale"),
        (HLO, 0, "empty"),
        ({}, 0, "empty"),
        ({"model.done": b""}, 0, "empty"),
    ],
    ids=[
        "done",
        "done-with-log-and-lock",
        "log",
        "log-and-lock",
        "log-and-empty-program",
        "interrupted",
        "locked",
        "locked-for-long",
        "locked-for-too-long",
        "killed-while-writing",
        "program-not-done",
        "empty-program",
        "module-only",
        "no-files",
        "done-only",
    ],
)
def test_every_state_is_told_apart(tmp_path, files, age_s, state):
    directory = make_module(tmp_path, files, age_s=age_s)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in directory.iterdir())
    (module,) = find_modules(tmp_path)
    assert module.state == state
    assert (module.neff is not None) == bool(files.get("model.neff"))
    assert module.neff_bytes == len(files.get("model.neff", b""))
    assert module.hlo == (directory / "model.hlo_module.pb" if files.get("model.hlo_module.pb") else None)
    assert age_s <= module.age_s < age_s + 60
    assert sorted((path.name, path.stat().st_mtime_ns) for path in directory.iterdir()) == before


def test_a_lock_that_is_held_is_active_however_old(tmp_path):
    directory = make_module(tmp_path, HLO | LOCK | {"model.log": b"compiling"}, age_s=99999)
    lock = directory / "model.hlo_module.pb.lock"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "held\n"
        assert find_modules(tmp_path)[0].state == "active"
        process.communicate("")
    assert find_modules(tmp_path)[0].state == "failed"


def test_asking_leaves_the_lock_free(tmp_path):
    directory = make_module(tmp_path, HLO | LOCK)
    find_modules(tmp_path)
    with (directory / "model.hlo_module.pb.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_time_until_a_lock_is_stale_can_be_chosen(tmp_path):
    make_module(tmp_path, HLO | LOCK, age_s=100)
    assert [find_modules(tmp_path, seconds)[0].state for seconds in (50, 500)] == ["stale", "active"]


def test_a_clock_that_went_back_gives_no_negative_age(tmp_path):
    make_module(tmp_path, HLO, age_s=-5000)
    assert find_modules(tmp_path)[0].age_s == 0


def test_versions_and_flags_are_kept_apart(tmp_path):
    flags = ["--target=trn1", "--model-type=transformer", "--auto-cast=none"]
    make_module(tmp_path, HLO)
    make_module(tmp_path, HLO, name="MODULE_1494686516964995913+617f6939", flags=flags)
    make_module(tmp_path, HLO, compiler=OLD_COMPILER, flags=[])
    found = [(module.compiler_version, module.flags_hash, module.flags) for module in find_modules(tmp_path)]
    assert found == [
        ("2.14.227.0+2d4f85be", "d41d8cd9", ()),
        ("2.27.5334.0+6f180f47", "617f6939", tuple(flags)),
        ("2.27.5334.0+6f180f47", "d41d8cd9", None),
    ]
    assert {module.module_hash for module in find_modules(tmp_path)} == {"1494686516964995913"}


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 100_000], ids=["empty", "object", "bytes", "deep"])
def test_damaged_flags_are_unknown_flags(tmp_path, content):
    make_module(tmp_path, {"compile_flags.json": content})
    assert find_modules(tmp_path)[0].flags is None


@pytest.mark.parametrize("name", ["model.hlo_module.pb.gz", "model.hlo.pb", "model.hlo.pb.gz"])
def test_other_names_of_the_module_are_known(tmp_path, name):
    directory = make_module(tmp_path, {name: b"module"})
    assert find_modules(tmp_path)[0].hlo == directory / name


def test_the_end_of_the_log_is_kept(tmp_path):
    make_module(tmp_path, {"model.log": b"\xff" * 9000 + b"\n" + b"".join(b"line %d\n" % n for n in range(100))})
    assert find_modules(tmp_path)[0].log_tail.splitlines() == [f"line {number}" for number in range(80, 100)]


def test_what_is_no_module_is_passed_over(tmp_path):
    make_module(tmp_path, HLO)
    (tmp_path / "somebody's").mkdir()
    (tmp_path / COMPILER / "MODULE_without_flags").mkdir()
    (tmp_path / COMPILER / "MODULE_file+d41d8cd9").write_bytes(b"")
    (tmp_path / "neuronxcc-file").write_bytes(b"")
    (tmp_path / COMPILER / MODULE / "model.log").symlink_to(tmp_path / "gone")
    (tmp_path / COMPILER / MODULE / "model.done").mkdir()
    (module,) = find_modules(tmp_path)
    assert (module.state, module.log_tail) == ("empty", "")


def test_a_module_removed_meanwhile_is_empty(tmp_path, monkeypatch):
    directory = make_module(tmp_path, HLO)
    is_dir = Path.is_dir

    def is_dir_and_is_removed(path):
        found = is_dir(path)
        if path == directory:
            (directory / "model.hlo_module.pb").unlink()
            directory.rmdir()
        return found

    monkeypatch.setattr(Path, "is_dir", is_dir_and_is_removed)
    assert find_modules(tmp_path)[0].state == "empty"


def test_files_of_another_user_are_judged_by_their_names(tmp_path, monkeypatch):
    make_module(tmp_path, HLO | LOCK, age_s=9999)
    make_module(tmp_path, {"model.log": b"secret"}, name="MODULE_7+7", flags=["--target=trn1"])

    def forbidden(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", forbidden)
    monkeypatch.setattr(Path, "open", forbidden)
    monkeypatch.setattr(Path, "read_bytes", forbidden)
    found = [(module.state, module.flags, module.log_tail) for module in find_modules(tmp_path)]
    assert found == [("stale", None, ""), ("failed", None, "")]


def test_a_missing_root_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no such directory"):
        find_modules(tmp_path / "gone")


@pytest.mark.parametrize(
    ("url", "flags", "root"),
    [
        ("", "", DEFAULT_ROOT),
        ("/data/cache", "", Path("/data/cache")),
        ("cache", "", Path("cache")),
        ("file:///data/my%20cache", "", Path("/data/my cache")),
        ("s3://bucket", "--cache_dir=/data", Path("/data")),
        ("/url", "-O1 --cache_dir '/my data' --model-type transformer", Path("/my data")),
        ("/url", "--cache_dir=/first --cache_dir=/second", Path("/second")),
        ("/url", "--no_cache", Path("/url")),
    ],
    ids=["default", "url", "relative", "file", "flag-first", "two-words", "last-flag", "other-flags"],
)
def test_the_root_is_where_the_vendors_tools_look(url, flags, root):
    assert cache_root(url, flags) == root


@pytest.mark.parametrize(
    ("url", "flags", "message"),
    [
        ("s3://bucket/cache", "", "only directories"),
        ("", "--cache_dir=s3://bucket", "only directories"),
        ("file://host/cache", "", "only directories"),
        ("", "--cache_dir='/data", "NEURON_CC_FLAGS=.*shell words"),
    ],
    ids=["s3", "s3-flag", "other-host", "quotes"],
)
def test_a_root_that_cannot_be_read_is_refused(url, flags, message):
    with pytest.raises(ConfigError, match=message):
        cache_root(url, flags)
