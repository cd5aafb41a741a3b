"""Modules that index with 64-bit integers, which our own lowering never emits."""

from __future__ import annotations

import re

_SCATTER = re.compile(r'"stablehlo\.scatter"\((?P<into>%[\w#]+), (?P<index>%[\w#]+), ')
_TYPE = re.compile(r"\}\) : \(tensor<[^>]*>, (?P<narrow>tensor<[\dx]+xi32>)")


def with_wide_indices(text: str) -> str:
    """StableHLO text in which scatters read their indices as int64: one conversion for each index tensor."""
    lines, written, wide = text.splitlines(), [], {}
    for number, line in enumerate(lines):
        scatter, type = _SCATTER.search(line), _TYPE.search(line)
        if "func.func" in line:
            wide = {}
        if scatter:
            narrow = next(found["narrow"] for one in lines[number:] if (found := _TYPE.search(one)))
            index = scatter["index"]
            if index not in wide:
                wide[index] = f"%wide_{len(wide)}"
                converted = f"({narrow}) -> {narrow.replace('i32', 'i64')}"
                written.append(f"{wide[index]} = stablehlo.convert {index} : {converted}")
            line = line.replace(f", {index}, ", f", {wide[index]}, ", 1)
        elif type:
            line = line.replace(type["narrow"], type["narrow"].replace("i32", "i64"), 1)
        written.append(line)
    return "\n".join(written) + "\n"
