"""The passes, in the order they run."""

from __future__ import annotations

from pathlib import Path

from torch import fx

from .alias_input_mutations import alias_input_mutations
from .carry_float8_as_uint8 import carry_float8_as_uint8
from .carry_mutated_bfloat16_as_int16 import carry_mutated_bfloat16_as_int16
from .choose_by_mask import choose_by_mask
from .context import PassContext
from .drop_assertions import drop_assertions
from .index_as_strided import index_as_strided
from .mark_stages import mark_stages
from .merge_duplicate_inputs import merge_duplicate_inputs
from .narrow_exact_weights import narrow_exact_weights
from .narrow_integers import narrow_integers
from .observer import AfterPass, Pass, PassRecord, run_pass
from .order_cache_reads import order_cache_reads
from .remove_dead_code import remove_dead_code
from .reslice_kv_views import reslice_kv_views
from .row_major_scales import row_major_scales
from .store_single_rows_twice import store_single_rows_twice
from .verify import (
    ALWAYS,
    BOUNDED_INDICES,
    FLOAT8_RANGE,
    FUNCTIONAL,
    NO_FLOAT8_BOUNDARY,
    NO_INPUT_BITCAST,
    NO_LATE_READS,
    NO_STRIDED_VIEWS,
    NO_WIDE_INTEGERS,
    ONE_ALIAS,
    verify,
)

PASSES = (
    Pass(mark_stages, required=True),
    Pass(drop_assertions, required=True),
    Pass(alias_input_mutations, required=True, promises=(FUNCTIONAL, ONE_ALIAS)),
    Pass(reslice_kv_views),
    Pass(row_major_scales),
    Pass(index_as_strided, required=True, promises=(NO_STRIDED_VIEWS,)),
    Pass(carry_float8_as_uint8, required=True, promises=(NO_FLOAT8_BOUNDARY, FLOAT8_RANGE, NO_INPUT_BITCAST)),
    Pass(choose_by_mask),
    Pass(merge_duplicate_inputs),
    Pass(narrow_exact_weights),
    Pass(store_single_rows_twice),
    Pass(carry_mutated_bfloat16_as_int16),
    Pass(narrow_integers, required=True, promises=(NO_WIDE_INTEGERS, BOUNDED_INDICES)),
    Pass(order_cache_reads, promises=(NO_LATE_READS,)),
    Pass(remove_dead_code),
)


def run_passes(
    module: fx.GraphModule,
    context: PassContext,
    *,
    limit: int | None = None,
    dump_directory: Path | None = None,
    after_pass: AfterPass = lambda record, module, context: None,
) -> tuple[PassRecord, ...]:
    """Run ``PASSES`` on ``module`` in place; verify what each promises after it, and everything at the end.

    Args:
        limit: run only the first ``limit`` passes that are not required; None runs all.
        dump_directory: where each pass leaves its graph before and after.
        after_pass: called with the graph as each pass left it.

    Raises:
        GraphError: a pass broke its promise, or the graph that came out breaks one of them.
    """
    records = []
    promised = list(ALWAYS)
    optional = 0
    for number, entry in enumerate(PASSES):
        optional += not entry.required
        if limit is None or entry.required or optional <= limit:
            records.append(run_pass(number, entry, module, context, dump_directory))
            verify(module, context, entry.promises)
            promised.extend(entry.promises)
            after_pass(records[-1], module, context)
    verify(module, context, promised)
    module.recompile()
    return tuple(records)
