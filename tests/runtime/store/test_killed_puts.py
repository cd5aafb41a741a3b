from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "helpers" / "killed_puts.py"


def kill_puts(root: Path, size: int, stride: int) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), str(root), str(size), str(stride)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_put_that_is_killed_leaves_nothing_wrong(tmp_path: Path) -> None:
    result = kill_puts(tmp_path / "store", 1000, stride=5)
    assert result["wrong"] == {}
    assert result["kills"] >= 20


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 100_000, (1 << 20) + 1])
def test_a_put_that_is_killed_at_any_call_leaves_nothing_wrong(tmp_path: Path, size: int) -> None:
    result = kill_puts(tmp_path / "store", size, stride=1)
    assert result["wrong"] == {}
    assert result["kills"] >= 60
