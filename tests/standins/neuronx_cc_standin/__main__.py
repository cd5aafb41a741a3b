"""A stand-in for neuronx-cc: its command line, its refusals and its ways to fail, without its compiler.

``python tests/standins/neuronx_cc_standin compile module.mlir --framework XLA --target trn2 --output module.neff``
takes StableHLO bytecode in ``.mlir`` files and HLO protos in others, and writes a NEFF with the module in it.
``NEURONX_CC_STANDIN_VERSION`` is the version it claims; see ``faults.py`` for faults that no module causes, and
``plants.py`` for those that certain modules do.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from arguments import Arguments, UsageError, parse_arguments
from faults import INTERNAL_STATUS, fail, fault

VERSION = os.environ.get("NEURONX_CC_STANDIN_VERSION", "0.0.0.0+standin")
BYTECODE_MAGIC = b"ML\xefR"

# Of a run of a quarter of a second, the threads that numpy starts on import would take a third.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main(words: list[str]) -> int:
    """Carry out a command; returns the exit status."""
    if words == ["--version"]:
        print(f"NeuronX Compiler version {VERSION}\n\nPython version {sys.version.split()[0]}")
        return 0
    try:
        arguments = parse_arguments(words)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    fail(*fault())
    return compile_module(arguments)


def compile_module(arguments: Arguments) -> int:
    """Refuse the module or write its program."""
    # Imported here so that faults come at once.
    from jaxlib.mlir import ir
    from miscompile import miscompile
    from planted_errors import error_text
    from plants import find_plant, read_plants
    from refusals import find_refusal

    with make_context():
        try:
            bytecode = read_bytecode(arguments.module)
            module = ir.Module.parse(bytecode)
        except (ValueError, ir.MLIRError) as error:
            return report(arguments, f"[ERROR] [NCC_EVRF064] HLO verification failed: {error}")
        plants = read_plants(os.environ.get("NEURONX_CC_STANDIN_PLANT", ""))
        counts = Path(os.environ.get("NEURONX_CC_STANDIN_COUNT", "runs"))
        name, value, planted = find_plant(plants, module, bytecode, counts)
        if name == "error":
            return report(arguments, error_text(value, planted, bytecode))
        fail(name, value)
        refusal = find_refusal(module, arguments)
        if refusal:
            return report(arguments, refusal)
        if name in ("swap", "double"):
            bytecode = miscompile(module, planted[-1], name, value)
        # Imported only for modules that are compiled: it takes as long as the rest.
        from program import write_program

        write_program(module, bytecode, arguments, VERSION)
    arguments.log.write_text(f"neuronx-cc {VERSION}\nCompiler status PASS\n")
    print("..Completed run_backend_driver.\n\nCompiler status PASS")
    return 0


def report(arguments: Arguments, text: str) -> int:
    """Print an error as the compiler does, with more of it in the log file."""
    arguments.log.write_text(f"neuronx-cc {VERSION}\n{text}\nSubcommand returned with exitcode={INTERNAL_STATUS}\n")
    print(f"...{text}", file=sys.stderr)
    return INTERNAL_STATUS


def read_bytecode(path: Path) -> bytes:
    """The module as StableHLO bytecode; raises ValueError for another format."""
    content = path.read_bytes()
    if path.suffix == ".mlir":
        if not content.startswith(BYTECODE_MAGIC):
            raise ValueError(f"{path} is no MLIR bytecode")
        return content
    from jaxlib import _jax

    return _jax.mlir.hlo_to_stablehlo(content)


def make_context():
    """An MLIR context with the dialects of StableHLO modules."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _mlirHlo, _stablehlo

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    _chlo.register_dialect(context)
    _stablehlo.register_dialect(context)
    # A copy in an HLO proto has no form in StableHLO.
    _mlirHlo.register_mhlo_dialect(context)
    return context


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
