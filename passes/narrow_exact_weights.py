"""Take a float32 weight as bfloat16 where a product allows it and no value changes.

Checkpoints store some matrices in bfloat16 and models widen them to get a float32 product. A product of
two bfloat16 values is exact in float32, so a dot of the narrow operands that accumulates in float32
means the same, and a step that is bound by reading weights reads half as much.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .context import PassContext, emit_before, placeholders
from .result_type import as_type

aten = torch.ops.aten


def narrow_exact_weights(module: fx.GraphModule, context: PassContext) -> int:
    """Retype each float32 matrix that only meets widened bfloat16 values in products; returns how many."""
    updated = set(context.aliases.values())
    changed = 0
    for position, weight in enumerate(placeholders(module)):
        if position not in updated and _is_widened_operand(weight) and context.holds_bfloat16(position):
            _retype(weight)
            context.carriers[position] = torch.bfloat16
            changed += 1
    return changed


def _is_widened_operand(weight: fx.Node) -> bool:
    if weight.meta["val"].dtype is not torch.float32 or weight.meta["val"].dim() != 2 or not weight.users:
        return False
    return all(user.target is aten.t.default and _meets_widened_values(user) for user in weight.users)


def _meets_widened_values(transposed: fx.Node) -> bool:
    return all(
        product.target is aten.mm.default
        and product.args[1] is transposed
        and product.args[0] is not transposed
        and _is_widened(product.args[0])
        for product in transposed.users
    )


def _is_widened(value: Any) -> bool:
    if value.target is not aten._to_copy.default:
        return False
    (source,) = value.all_input_nodes
    return source.meta["val"].dtype is torch.bfloat16


def _retype(weight: fx.Node) -> None:
    weight.meta["val"] = as_type(weight.meta["val"]).to(torch.bfloat16)
    for transposed in list(weight.users):
        widened = emit_before(transposed, aten._to_copy.default, weight, dtype=torch.float32)
        transposed.args = (widened,)
