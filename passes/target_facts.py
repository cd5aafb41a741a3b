"""What passes and lowering have to know about the devices that graphs are shaped for."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigError

E4M3_MAX = 448.0
"""The largest float8_e4m3fn number."""


@dataclass(frozen=True)
class TargetFacts:
    """Facts about a target that decide how a graph for it looks and what it is lowered to.

    Attributes:
        has_int64: programs compute on 64-bit integers. neuronx-cc 2.32 narrows them to 32 bits without a word; an
            earlier one read wrong rows for int64 positions (aws-neuron-sdk#937).
        bitcasts_inputs: a program may see its input as another dtype of the same width.
        has_sort: programs may sort. neuronx-cc refuses sorts for trn2 (its error NCC_EVRF029); which other devices it
            takes them for is not documented. IREE 3.13 lets two sorts permute one buffer of positions, swaps equal keys
            and refuses some sorts of slices.
        e4m3_max: the largest number of its format of float8_e4m3fn's shape.
        fp8_max: the largest fp8 value that activations and caches are quantised to. Where the format ends at 240 it
            is half of 448: with scales that are powers of two, every code but the deepest keeps its mantissa.
        memory_bytes: device memory of a logical core of the default size; None if it does not limit programs. trn2
            has 24 GiB according to the compiler's own error NCC_EOOM001; the others by the memory and the cores of
            their devices.
    """

    has_int64: bool = False
    bitcasts_inputs: bool = False
    has_sort: bool = False
    e4m3_max: float = E4M3_MAX
    fp8_max: float = E4M3_MAX
    memory_bytes: int | None = None


TARGET_FACTS = {
    "host": TargetFacts(has_int64=True, bitcasts_inputs=True, has_sort=True),
    "iree": TargetFacts(has_int64=True, bitcasts_inputs=True),
    "trn1": TargetFacts(e4m3_max=240.0, fp8_max=E4M3_MAX / 2, memory_bytes=16 << 30),
    "trn2": TargetFacts(e4m3_max=240.0, fp8_max=E4M3_MAX / 2, memory_bytes=24 << 30),
    "trn3": TargetFacts(memory_bytes=36 << 30),
}
"""By the name of the target."""

TRAINIUM = ("trn1", "trn2", "trn3")
"""The targets that neuronx-cc compiles for."""

TOP_K_TARGETS = frozenset({"AwsNeuronTopK", "TopK", "mhlo.topk"})

KNOWN_CUSTOM_CALLS = frozenset(
    {
        *("AwsNeuronErf", "AwsNeuronGelu", "AwsNeuronGeluApprxTanh", "AwsNeuronGeluBackward"),
        *("AwsNeuronSilu", "AwsNeuronSiluBackward", "AwsNeuronRmsNorm"),
        *("AwsNeuronSoftmax", "AwsNeuronSoftmaxBackward", "AwsNeuronCollectiveMatmul", "AwsNeuronIntMatmult"),
        *("AwsNeuronArgMax", "AwsNeuronArgMin", "AwsNeuronTopK", "AwsNeuronDropoutMaskV1"),
        *("AwsNeuronCustomNativeKernel", "AwsNeuronCustomOp", "AwsNeuronDevicePrint"),
        *("ResizeNearest", "ResizeBilinear", "ResizeNearestGrad"),
        *("AwsNeuronLNCShardingConstraint", "AwsNeuronTransferWithStaticRing"),
        *("AwsNeuronModuleMarkerStart-Forward", "AwsNeuronModuleMarkerStart-Backward"),
        *("AwsNeuronModuleMarkerEnd-Forward", "AwsNeuronModuleMarkerEnd-Backward"),
        *("NeuronBoundaryMarker-Start", "NeuronBoundaryMarker-End"),
        *("QuantizeMX", "__op$block_scaled_dot"),
    }
)
"""Documented at error NCC_EVRF015, and the two of the MX errors NCC_EVRF036 to NCC_EVRF058."""


def facts_of(target: str) -> TargetFacts:
    """The facts about a target; raises ConfigError for one that has no entry in ``TARGET_FACTS``."""
    if target not in TARGET_FACTS:
        raise ConfigError(
            f"unknown target {target!r}: describe it in passes/target_facts.py, which has {', '.join(TARGET_FACTS)}"
        )
    return TARGET_FACTS[target]
