"""What a module is made of, counted by element types."""

from __future__ import annotations

import pytest
from deepinfer_neuron.preflight.histogram import FLOAT8, SORT, UNSIZED, UNWANTED, WIDE, histogram_of

PLAIN = """
func.func public @main(%table: tensor<8x4xbf16>, %rows: tensor<2x1xi32>, %mask: tensor<2x4xi1>) -> tensor<2x4xbf16> {
  %0 = func.call @gathered(%table, %rows) : (tensor<8x4xbf16>, tensor<2x1xi32>) -> tensor<2x4xbf16>
  %1 = stablehlo.negate %0 : tensor<2x4xbf16>
  %2 = stablehlo.select %mask, %0, %1 : tensor<2x4xi1>, tensor<2x4xbf16>
  return %2 : tensor<2x4xbf16>
}
func.func private @gathered(%table: tensor<8x4xbf16>, %rows: tensor<2x1xi32>) -> tensor<2x4xbf16> {
  %0 = "stablehlo.gather"(%table, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}>
    : (tensor<8x4xbf16>, tensor<2x1xi32>) -> tensor<2x4xbf16>
  return %0 : tensor<2x4xbf16>
}
"""
FLOAT8_MODULE = """
func.func public @main(%x: tensor<4xf8E4M3FN>) -> tensor<4xf32> {
  %0 = stablehlo.convert %x : (tensor<4xf8E4M3FN>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
SORT_MODULE = """
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
WIDE_MODULE = """
func.func public @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = stablehlo.convert %x : (tensor<4xi32>) -> tensor<4xi64>
  %1 = stablehlo.convert %0 : (tensor<4xi64>) -> tensor<4xi32>
  return %1 : tensor<4xi32>
}
"""
UNKNOWN_SIZE = """
func.func public @main(%x: tensor<4xf32>, %size: tensor<1xi32>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_reshape %x, %size : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
# Counts of what a core should not be given; a function's own types count once more.
MODULES = {FLOAT8: (FLOAT8_MODULE, 2), SORT: (SORT_MODULE, 1), WIDE: (WIDE_MODULE, 2), UNSIZED: (UNKNOWN_SIZE, 1)}


def test_operations_are_counted_with_what_they_take_and_make():
    histogram = histogram_of([PLAIN.encode()])
    counts = {(one.operation.name, one.operation.takes, one.operation.makes): one.count for one in histogram.operations}
    assert counts == {
        ("builtin.module", (), ()): 1,
        ("func.func", ("bf16", "i32", "i1"), ("bf16",)): 1,
        ("func.func", ("bf16", "i32"), ("bf16",)): 1,
        ("func.call", ("bf16", "i32"), ("bf16",)): 1,
        ("func.return", ("bf16",), ()): 2,
        ("stablehlo.gather", ("bf16", "i32"), ("bf16",)): 1,
        ("stablehlo.negate", ("bf16",), ("bf16",)): 1,
        ("stablehlo.select", ("i1", "bf16"), ("bf16",)): 1,
    }
    assert histogram.elements == {"bf16": 8, "i32": 4, "i1": 2}
    assert histogram.unwanted == dict.fromkeys(UNWANTED, 0)


def test_modules_are_counted_together():
    once, twice = histogram_of([PLAIN.encode()]), histogram_of([PLAIN.encode()] * 2)
    assert twice.names == {name: 2 * count for name, count in once.names.items()}
    assert twice.names["func.func"] == 4
    assert twice.elements == {element: 2 * count for element, count in once.elements.items()}


@pytest.mark.parametrize("what", UNWANTED)
def test_what_a_core_should_not_be_given_is_seen(what):
    module, expected = MODULES[what]
    assert histogram_of([module.encode()]).unwanted == dict.fromkeys(UNWANTED, 0) | {what: expected}
