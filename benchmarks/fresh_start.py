"""One start from a full store, timed in a process of its own. Run by ``engine/loading.py``; prints JSON.

The clock starts before anything is imported, so this file imports nothing at its top but the standard library.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def start_step(description: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each part of a start, from the first import to the first token.

    ``description`` has the ``store``, and either a checkpoint ``directory`` with the keywords of ``load_decode``, or
    the ``variant`` and ``weights`` of ``load_runner``.
    """
    began = time.perf_counter()

    from ..engine.loading import load_decode
    from ..runtime.devices.pjrt import host_device
    from ..runtime.loader import DecodeVariant, load_runner
    from ..runtime.slots import padding_inputs
    from ..runtime.store.store import ArtifactStore

    imported = time.perf_counter()
    store = ArtifactStore(Path(description["store"]))
    if "directory" in description:
        decode = load_decode(description["directory"], store, **description["options"])
        runner, report = decode.runner, decode.report
        inputs = decode.table.step_inputs([decode.open()], [decode.table.config.bos_token_id])
    else:
        variant = DecodeVariant(**description["variant"])
        loaded = load_runner(store, variant, description["weights"], _refuse, host_device())
        runner, report = loaded.runner, loaded.report
        inputs = padding_inputs(runner.plan.slots, 1)
    loaded_at = time.perf_counter()
    token = int(runner(**inputs).argmax())
    return {
        "import_s": imported - began,
        "load_s": loaded_at - imported,
        "first_step_s": time.perf_counter() - loaded_at,
        "token": token,
        "report": vars(report),
        "compiler_imported": any(name.startswith(f"{__package__.split('.')[0]}.compiler") for name in sys.modules),
    }


def _refuse(plan: object) -> Any:
    raise RuntimeError("the weights are not stored")


if __name__ == "__main__":
    print(json.dumps(start_step(json.loads(sys.argv[1]))))
