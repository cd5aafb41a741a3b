"""Imports go down the floors only: cli > llm > compiler | model > runtime > passes > errors, settings."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import deepinfer_neuron
import pytest

ROOT = Path(deepinfer_neuron.__file__).parent
NOT_SOURCE = {".venv", "build", "tests"}
FLOORS = {"errors": 0, "settings": 0, "console": 0, "passes": 1, "runtime": 2, "compiler": 3, "model": 3}
FLOORS |= {"llm": 4, "demo": 4, "demo_tables": 4, "workbench": 4, "verify": 4, "verify_tables": 4, "benchmarks": 4}
FLOORS |= {"explain": 4}
FLOORS |= {"cli": 5, "cli_vendor": 5, "__main__": 5, "__init__": 5}
