"""What ``repro.py`` does for a program that computes something else: compiles it, runs it and compares."""

from __future__ import annotations

import base64
import hashlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from ...errors import ArtifactError, CompileError, ConfigError, DeviceError
from ..accuracy.leave import leave as leave
from .accuracy_case import load_case
from .standalone import COMPILED, NO_COMPILER, OTHER_FAILURE, REPRODUCED, UNUSABLE, Parser


def run_script(script: str, module: str, sha256: str, case: str, words: Sequence[str]) -> int:
    """Carry out the script's command line; returns the exit status that ``standalone.py`` names.

    Args:
        script: path of the script, beside which the other files are.
        module: in base64, or ``@`` and the name of a file; ``sha256``: of its bytes.
        case: name of the file with the tensors.
        words: of the command line.
    """
    parser = Parser(description="Compiles and runs a module and compares what it computes.")
    parser.add_argument("--runs", type=int, default=1, help="run it so often and count")
    count = max(1, parser.parse_args(words).runs)
    directory = Path(script).parent
    try:
        loaded, content = load_case(directory / case), _read(directory, module, sha256)
        found = [loaded.differences(content) for _ in range(count)]
    except (ArtifactError, OSError) as error:
        print(f"cannot be run: {error}", file=sys.stderr)
        return UNUSABLE
    except (ConfigError, DeviceError) as error:
        print(f"no compiler: {error}", file=sys.stderr)
        return NO_COMPILER
    except CompileError as error:
        print(f"{error}\nANOTHER FAILURE")
        return OTHER_FAILURE
    except Exception:
        # Python's own status for it would say that the results are right.
        traceback.print_exc()
        return UNUSABLE
    different = [lines for lines in found if lines]
    print("\n".join(different[0] if different else []))
    print(f"computed something else in {len(different)} of {count} runs")
    print("REPRODUCED" if different else "NOT REPRODUCED: it computes what it should")
    return REPRODUCED if different else COMPILED


def _read(directory: Path, module: str, sha256: str) -> bytes:
    content = (directory / module[1:]).read_bytes() if module[:1] == "@" else base64.b64decode(module)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ArtifactError("the module is damaged: its sha256 is another one")
    return content
