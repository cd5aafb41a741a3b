"""Copies of code that run where the package is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from deepinfer_neuron.bisection.report.repro import body
from deepinfer_neuron.bisection.report.script_source import standalone_source
from deepinfer_neuron.errors import ConfigError


def write(directory: Path, **files: str) -> Path:
    (directory / "inner").mkdir()
    for name, text in files.items():
        (directory / name.replace("__", "/")).with_suffix(".py").write_text(text)
    return directory / "main.py"


def test_only_what_is_used_is_copied_and_in_the_order_of_use(tmp_path):
    main = write(
        tmp_path,
        main="from .inner.deep import double\nimport sys\n\nRESULT = double(4)\n",
        inner__deep=(
            "import math\nfrom functools import cache\nfrom .. import nothing\nfrom ..base import Number\n"
            "@cache\ndef double(x):\n    return even(x) and Number(2 * x).value\n"
            "def even(x):\n    return x == 0 or not odd(x)\n\ndef odd(x):\n    return x != 0 and not even(x - 2)\n"
            "UNUSED = math.pi\n"
        ),
        base=(
            "import os\nclass Base:\n    def __init__(self, value):\n        self.value = value\n\n\n"
            "class Number(Base):\n    pass\n"
        ),
    )
    source = standalone_source(main)
    names: dict = {}
    exec(compile(source, "script", "exec"), names)
    assert names["RESULT"] == 8
    assert "UNUSED" not in source and "import os" not in source and "import math" not in source
    assert source.index("class Base") < source.index("class Number") < source.index("RESULT =")


def test_what_does_not_come_with_python_is_refused(tmp_path):
    main = write(tmp_path, main="import torch\n\ndef f(x):\n    return torch.sin(x)\n")
    with pytest.raises(ConfigError, match="uses torch, which does not come with Python"):
        standalone_source(main)


def test_two_files_cannot_define_one_public_name(tmp_path):
    main = write(
        tmp_path,
        main="from .other import f\n\ndef helper():\n    return f()\n",
        other="def f():\n    return helper()\n\ndef helper():\n    return 1\n",
    )
    with pytest.raises(ConfigError, match="both define helper: rename one"):
        standalone_source(main)


def test_private_names_of_two_files_keep_apart(tmp_path):
    main = write(
        tmp_path,
        main="from .other import f\n\n_X = 1\nRESULT = (_X, f())\n",
        other="_X = 2\n_XY = 3\n\ndef f():\n    return _X, f'{_X}', _XY\n",
    )
    names: dict = {}
    exec(compile(standalone_source(main), "script", "exec"), names)
    assert names["RESULT"] == (1, (2, "2", 3))


def test_annotations_need_no_definitions(tmp_path):
    main = write(
        tmp_path,
        main="from .other import Large\n\ndef f(x: Large) -> Large:\n    return x\n\nRESULT = f(5)\n",
        other="import torch\n\nclass Large(torch.nn.Module):\n    pass\n",
    )
    names: dict = {}
    exec(compile(standalone_source(main), "script", "exec"), names)
    assert names["RESULT"] == 5


def test_the_script_of_a_report_is_short_enough_to_read():
    assert 400 < body().count("\n") < 900
    assert "from .." not in body()
