"""What the Neuron runtime answers, by number.

Numbers, names and meanings: aws-neuron-sdk, src/libnrt/include/nrt/nrt_status.h, and the "Neuron Runtime
Troubleshooting" guide of its documentation.
"""

from __future__ import annotations

from dataclasses import dataclass

SUCCESS = 0


@dataclass(frozen=True, slots=True)
class Status:
    """An answer other than success.

    Attributes:
        number, name: as in the runtime's header.
        meaning: what happened.
        next_step: what to do about it.
        is_final: the core cannot be used any more by this process.
    """

    number: int
    name: str
    meaning: str
    next_step: str
    is_final: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.number}): {self.meaning}; {self.next_step}"


_LOG = "read the runtime's log (NEURON_RT_LOG_LEVEL=INFO)"
_RESTART = "end this process and start it again"
_REPLACE = "end this process; if it happens again, stop and start the instance to get another machine"
_REPORT = "report it with the runtime's log"
_OTHER_WORKERS = "look for the first error in the logs of all workers, then start them all again"

STATUSES: tuple[Status, ...] = (
    Status(1, "NRT_FAILURE", "a failure of no special kind", _LOG),
    Status(2, "NRT_INVALID", "an invalid program, or a tensor whose name, size or core does not fit", _LOG),
    Status(3, "NRT_INVALID_HANDLE", "a handle that the runtime did not give out, or that was freed", _REPORT),
    Status(4, "NRT_RESOURCE", "no memory left on the device", "use fewer batch sizes, KV blocks or programs a core"),
    Status(
        5,
        "NRT_TIMEOUT",
        "execution took longer than NEURON_RT_EXEC_TIMEOUT seconds",
        f"raise it if the program is that slow, else {_RESTART}",
        is_final=True,
    ),
    Status(6, "NRT_HW_ERROR", "the device failed, or the program is for another one", _REPLACE, is_final=True),
    Status(7, "NRT_QUEUE_FULL", "too many executions are waiting", "wait for some of them to end"),
    Status(
        9,
        "NRT_LOAD_NOT_ENOUGH_NC",
        "the program needs a core that is not there",
        "give the process more in NEURON_RT_VISIBLE_CORES, or compile for fewer",
    ),
    Status(
        10,
        "NRT_UNSUPPORTED_NEFF_VERSION",
        "the program comes from a compiler that this runtime does not know",
        "install compiler and runtime of one Neuron SDK release, then compile again",
    ),
    Status(11, "NRT_FAIL_HOST_MEM_ALLOC", "no memory left on the host", "use fewer processes on this machine"),
    Status(13, "NRT_UNINITIALIZED", "called before the runtime was initialised", _REPORT),
    Status(14, "NRT_CLOSED", "called after the runtime was closed", _REPORT),
    Status(15, "NRT_QUEUE_EMPTY", "there is nothing to read", _REPORT),
    Status(101, "NRT_EXEC_UNIT_UNRECOVERABLE", "the execution unit has shut down", _REPLACE, is_final=True),
    Status(1002, "NRT_EXEC_BAD_INPUT", "an input does not fit the program", "compile again"),
    Status(
        1003,
        "NRT_EXEC_COMPLETED_WITH_NUM_ERR",
        "the program ran to its end and made NaN or infinity",
        "compare its regions with eager PyTorch on the same inputs; caches hold what it wrote",
    ),
    Status(
        1004, "NRT_EXEC_COMPLETED_WITH_ERR", "the program ran to its end and its results are wrong", _LOG, is_final=True
    ),
    Status(1005, "NRT_EXEC_NC_BUSY", "another process has the core", "give each process cores of its own"),
    Status(
        1006,
        "NRT_EXEC_OOB",
        "the program addressed memory outside of a tensor",
        "check positions and block tables, and that each slot's maximum holds",
    ),
    Status(1100, "NRT_COLL_PENDING", "a collective operation has not ended", _OTHER_WORKERS),
    Status(
        1200,
        "NRT_EXEC_HW_ERR_COLLECTIVES",
        "a collective operation hangs, here or on another worker",
        _OTHER_WORKERS,
        is_final=True,
    ),
    Status(1201, "NRT_EXEC_HW_ERR_HBM_UE", "device memory lost bits for good", _REPLACE, is_final=True),
    Status(1202, "NRT_EXEC_HW_ERR_NC_UE", "the core's own memory lost bits", _REPLACE, is_final=True),
    Status(1203, "NRT_EXEC_HW_ERR_DMA_ABORT", "a copy on the device was aborted", _REPLACE, is_final=True),
    Status(
        1204, "NRT_EXEC_SW_NQ_OVERFLOW", "the program sends notifications too fast", "compile again, then report it"
    ),
    Status(1205, "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE", "device memory lost bits", _RESTART, is_final=True),
    Status(1206, "NRT_NETWORK_PROXY_FAILURE", "the network between workers failed", _OTHER_WORKERS, is_final=True),
)
"""Every answer that means failure, in the order of their numbers."""

_BY_NUMBER = {status.number: status for status in STATUSES}


def status_of(number: int) -> Status:
    """What a number means; a status of its own if the headers do not name it."""
    unknown = Status(number, "unknown status", "this runtime is newer than the status codes known here", _LOG)
    return _BY_NUMBER.get(number, unknown)
