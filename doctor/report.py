"""All findings about this machine, and the table they make."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..reporting import Table
from ..settings import Settings, neuron_variables, settings
from .finding import Finding
from .host import find_host
from .neuron import find_neuron
from .packages import find_packages


@dataclass(frozen=True)
class DoctorReport:
    """Every finding, in the order of the table."""

    findings: list[Finding]

    @property
    def host_works(self) -> bool:
        """Whether everything is there that the host needs."""
        return all(finding.status == "ok" for finding in self.findings if finding.needed)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object with stable keys."""
        return asdict(self) | {"host_works": self.host_works}


def run_doctor(root: Path = Path("/")) -> DoctorReport:
    """Look at this machine, whose files are below ``root``; compiles one small program."""
    return DoctorReport([*find_host(), *find_packages(), *find_neuron(root, _asked(), neuron_variables())])


def _asked() -> Settings:
    """The environment's settings; the defaults if it cannot be used, which is a finding of its own."""
    try:
        return settings()
    except ConfigError:
        return Settings()


def doctor_table(report: DoctorReport) -> Table:
    """One row a finding; what the host needs is marked."""
    rows = tuple(
        (finding.name, "host" if finding.needed else "", finding.status, finding.found, finding.next_step)
        for finding in report.findings
    )
    title = "everything the host needs is there" if report.host_works else "the host lacks something it needs"
    return Table(title, ("what", "needed", "status", "found", "next step"), rows)
