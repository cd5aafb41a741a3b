"""End a process whose work is done."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


def leave(status: int) -> NoReturn:
    """End this process with ``status`` after the handlers for its end, but without unloading libraries.

    XLA's threads may still be ending when their objects are destroyed, which aborts the process now and then and would
    be taken for a crash of the program that it ran.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
