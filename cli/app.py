"""The command line: a table of commands, each of which delegates to the module that does the work.

Modules are imported inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import typer

from .bench import bench
from .bisect import bisect_graph
from .cache import cache
from .compile import compile_step
from .demo import demo
from .doctor import doctor
from .dump import dump
from .golden import compare, golden
from .preflight import preflight
from .run import run
from .tiny import tiny
from .verify import verify

main = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
main.add_typer(tiny, name="tiny")
main.add_typer(cache, name="cache")
main.add_typer(bench, name="bench")
for name, command in {
    "doctor": doctor,
    "golden": golden,
    "compare": compare,
    "preflight": preflight,
    "compile": compile_step,
    "bisect": bisect_graph,
    "dump": dump,
    "run": run,
    "demo": demo,
    "verify": verify,
}.items():
    main.command(name)(command)


@main.callback(help="Compile and replay the decode step of a language model for AWS Trainium.")
def _root() -> None:
    pass
