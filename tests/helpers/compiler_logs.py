"""What neuronx-cc printed in public reports, in the forms of the years."""

from __future__ import annotations

SORT = """\
[ERROR] [NCC_EVRF029] Operation sort is not supported on trn2. Use supported equivalent operation like TopK or replace \
it with an alternate implementation via Neuron Kernel Interface (NKI).
%sort.16 = (f32[16,256], s32[16,256]) sort(%p0, %iota.3), dimensions={1}
"""
MEMORY = (
    "[ERROR] [NCC_EOOM001] Maximum peak HBM usage of 32.00GB exceeds HBM limit of 24.00GB for Trn2. This consists of "
    "16.00GB I/O tensors, 0B intermediate tensors, and 16.00GB internal (scratchpad) allocations\n"
)
INPUTS = """\
[ERROR] [NCC_EVRF009] Total tensor I/O 53.6 GB exceeds available HBM 25.8 GB
Largest input tensor: f32[18,2,2048,16384] (input33)
"""
PARTITIONS = """\
Assertion failure: bir::samePartitionsAll(AP0, AP1)
  (neuronxcc/walrus/verifier/src/inst_visitor.cpp:3279)
[ModuleForkPass]: birverifier failed after 0.010 seconds
[ModuleForkPass]: Module 0 failed with error (I-3776),
  tensorizer(output tensor: float32<32 x 4> $3776[i75_0_1_2858], id: 3776)
  [INTERNAL_ERROR] [NCC_IBIR297] For specific instructions, base partition for access is expected to be the same
Compilation status: Total modules: 2, Passed: 0, Failed: 2
"""
BARE = """\
ERROR LOWERING Traceback:
[NCC_ITEN404] Internal tensorizer error: SimplifyNeuronTensor:idx i0: <class 'neuronxcc.pelican.ir.AffineIV'>
"""
ASSERTION = (
    "[INTERNAL_ERROR] [NCC_ITRF901] TritiumFusion assertion error: Unexpected remat axes - Please open a support \
ticket at https://github.com/aws-neuron/aws-neuron-sdk/issues/new\n"
)
LEGACY = """\
2024-08-15T14:01:19Z [TEN404] (aten__add_add.31237) Internal tensorizer error: NeuronValueNumbering:insertAtEnd(): \
incompatible function arguments.
2024-08-15T14:01:19Z USER 1454 [neuronxcc.driver.CommandDriver]: Diagnostic logs stored in /tmp/x/log-neuron-cc.txt
2024-08-15T14:01:19Z INFO 1332 [root]: Subcommand returned with exitcode=70
"""
NESTED = """\
... '--verbose=35']: [MFP002]  Compilation failed for the following modules:
  Module nc00/sg00: [NLA001]  Unhandled exception with message: (I-237367-0), line 0, Instruction DMACopy \
I-237367-0: Invalid Shape for Scalar DGE! - Please open a support ticket at \
https://github.com/aws-neuron/aws-neuron-sdk/issues/new
"""
KILLED = """\
2023-06-15T12:11:12Z ERROR 85724 [neuronx-cc]:   NeuronX Compiler version 2.6.0.19+3d819e565
[F137] neuronx-cc was forcibly killed - This most commonly occurs due to insufficient system memory. \
Using a smaller data type may help.
"""
FATAL = (
    "2025-01-03 08:45:20.301338: F hilo/MLIRPasses/Transforms/VerifyAliasing.cc:125] false && "
    '"Read after write on aliased input/output buffer."\n'
)
ABORTED = """\
2024-10-05T22:49:01Z ERROR 3808 [job.WalrusDriver.0]: Backend exited with code -6 and stderr: No existing axis k2 \
found in instruction I-33's parent list
"""
TRANSFORMATION = (
    "Non-signal exit. Backend exited with code 1 and stderr: [DVR002]  Internal transformation failed - Please open a "
    "support ticket at https://github.com/aws-neuron/aws-neuron-sdk/issues/new.\n"
)
