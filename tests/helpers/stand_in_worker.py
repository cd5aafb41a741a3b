"""Answers jobs without compiling anything, as fast as a process can start; the name of a job says how it goes.

Run as ``stand_in_worker.py``. Names of signals end the process, ``exit 3`` does so with that code, ``sleep`` takes
longer than any test, and everything else is answered with the number of this process as its size.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time


def main() -> None:
    while line := sys.stdin.buffer.readline():
        header = json.loads(line)
        sys.stdin.buffer.read(header["bytes"])
        name = header["name"]
        if name in signal.Signals.__members__:
            os.kill(os.getpid(), signal.Signals[name])
        if name == "exit 3":
            os._exit(3)
        if name == "sleep":
            time.sleep(600)
        print(json.dumps({"outcome": "made", "seconds": 0.0, "bytes": os.getpid()}), flush=True)


if __name__ == "__main__":
    main()
