"""StableHLO modules as text, each around one operation."""

from __future__ import annotations

GIB = (1 << 30) // 4
"""How many float32 values fill a GiB."""


def identity(type: str) -> str:
    return f"func.func public @main(%x: {type}) -> {type} {{ return %x : {type} }}"


def unary(operation: str, type: str) -> str:
    return main(f"%x: {type}", f"%y = {operation} %x : {type}", type)


def binary(operation: str, type: str) -> str:
    return main(f"%x: {type}, %z: {type}", f"%y = {operation} %x, %z : {type}", type)


def main(arguments: str, body: str, result: str) -> str:
    return f"func.func public @main({arguments}) -> ({result}) {{\n{body}\nreturn %y : {result}\n}}"


def dot(element: str) -> str:
    left, right, result = (f"tensor<{shape}x{element}>" for shape in ("2x3", "3x4", "2x4"))
    signature = f"({left}, {right}) -> {result}"
    body = f"%y = stablehlo.dot_general %x, %z, contracting_dims = [1] x [0] : {signature}"
    return main(f"%x: {left}, %z: {right}", body, result)


def custom_call(target: str, element: str = "f32") -> str:
    type = f"tensor<2x{element}>"
    return main(f"%x: {type}", f"%y = stablehlo.custom_call @{target}(%x) : ({type}) -> {type}", type)


def top_k(element: str) -> str:
    body = f"%y, %i = chlo.top_k(%x, k = 2) : tensor<8x{element}> -> (tensor<2x{element}>, tensor<2xi32>)"
    return main(f"%x: tensor<8x{element}>", body, f"tensor<2x{element}>")


def constant(element: str, number: int, first: int = 1) -> str:
    return main("", f"%y = stablehlo.constant dense<[{first}, {number}]> : tensor<2x{element}>", f"tensor<2x{element}>")


def sort(operation: str) -> str:
    if operation != "sort":
        return unary("stablehlo.negate", "tensor<4xf32>")
    body = """%y = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %less : tensor<i1>
      }) : (tensor<4xf32>) -> tensor<4xf32>"""
    return main("%x: tensor<4xf32>", body, "tensor<4xf32>")


def random_bits(algorithm: str) -> str:
    body = f"%s, %y = stablehlo.rng_bit_generator %x, algorithm = {algorithm} : "
    return main("%x: tensor<2xui32>", f"{body}(tensor<2xui32>) -> (tensor<2xui32>, tensor<4xui32>)", "tensor<4xui32>")


def folded(operation: str, element: str, operator: str = "add") -> str:
    """An all_reduce or a reduce_scatter over two devices."""
    result = f"tensor<{2 if operation == 'reduce_scatter' else 4}x{element}>"
    scatter = "scatter_dimension = 0 : i64, " if operation == "reduce_scatter" else ""
    body = f"""%y = "stablehlo.{operation}"(%x) <{{{scatter}replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %sum = stablehlo.{operator} %a, %b : tensor<{element}>
        stablehlo.return %sum : tensor<{element}>
      }}) : (tensor<4x{element}>) -> {result}"""
    return main(f"%x: tensor<4x{element}>", body, result)


def convolution(strides: int = 1, input_dilation: int = 1, kernel_dilation: int = 1) -> str:
    out = ((8 - 1) * input_dilation - (3 - 1) * kernel_dilation) // strides + 1
    body = f"""%y = stablehlo.convolution(%x, %z) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
      window = {{stride = [{strides}], lhs_dilate = [{input_dilation}], rhs_dilate = [{kernel_dilation}]}}
      {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
      : (tensor<1x8x1xf32>, tensor<3x1x1xf32>) -> tensor<1x{out}x1xf32>"""
    return main("%x: tensor<1x8x1xf32>, %z: tensor<3x1x1xf32>", body, f"tensor<1x{out}x1xf32>")


def window(base: int = 1, dilation: int = 1, tensors: int = 1) -> str:
    size = (8 - 1) * base + 1 - ((2 - 1) * dilation + 1) + 1
    operands = ", ".join(["%x"] * tensors + ["%zero"] * tensors)
    types = ", ".join(["tensor<8xf32>"] * tensors + ["tensor<f32>"] * tensors)
    names = [f"%a{index}" for index in range(2 * tensors)]
    arguments = ", ".join(f"{name}: tensor<f32>" for name in names)
    returned, results = ", ".join(names[:tensors]), ", ".join(["tensor<f32>"] * tensors)
    body = f"""%zero = stablehlo.constant dense<0.0> : tensor<f32>
      %all{":2" if tensors == 2 else ""} = "stablehlo.reduce_window"({operands}) <{{
        window_dimensions = array<i64: 2>, base_dilations = array<i64: {base}>,
        window_dilations = array<i64: {dilation}>}}> ({{
      ^bb0({arguments}):
        stablehlo.return {returned} : {results}
      }}) : ({types}) -> ({", ".join([f"tensor<{size}xf32>"] * tensors)})
      %y = stablehlo.negate %all{"#0" if tensors == 2 else ""} : tensor<{size}xf32>"""
    return main("%x: tensor<8xf32>", body, f"tensor<{size}xf32>")


def gather(rows: int, positions: int) -> str:
    body = f"""%count = stablehlo.iota dim = 0 : tensor<{positions}xi32>
      %i = stablehlo.reshape %count : (tensor<{positions}xi32>) -> tensor<{positions}x1xi32>
      %y = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 4>}}> : (tensor<{rows}x4xf32>, tensor<{positions}x1xi32>)
        -> tensor<{positions}x4xf32>"""
    return main(f"%x: tensor<{rows}x4xf32>", body, f"tensor<{positions}x4xf32>")


def gather_of_pairs(columns: int, positions: int) -> str:
    """Element (index, count) of a matrix."""
    indices, pairs = f"tensor<{positions}x1xi32>", f"tensor<{positions}x2xi32>"
    body = f"""%count = stablehlo.iota dim = 0 : {indices}
      %i = stablehlo.concatenate %z, %count, dim = 1 : ({indices}, {indices}) -> {pairs}
      %y = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
        start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}}>
        : (tensor<2x{columns}xf32>, {pairs}) -> tensor<{positions}xf32>"""
    return main(f"%x: tensor<2x{columns}xf32>, %z: {indices}", body, f"tensor<{positions}xf32>")


def scatter(element: str, body: str, rows: int = 4, counted: int | None = None) -> str:
    """Rows %z into %x at the rows %i; with ``counted``, as many of them at the rows from 0 on."""
    updates = counted or 2
    operand, update, index = _scatter_types(element, rows, updates)
    lines = [scatter_operation(element, body, rows, updates), f"%y = stablehlo.reshape %new : ({operand}) -> {operand}"]
    arguments = f"%x: {operand}, %z: {update}"
    if counted is None:
        arguments += f", %i: {index}"
    else:
        lines.insert(0, f"%i = stablehlo.iota dim = 0 : {index}")
    return main(arguments, "\n".join(lines), operand)


def scatter_operation(element: str, body: str, rows: int = 4, updates: int = 2) -> str:
    operand, update, index = _scatter_types(element, rows, updates)
    return f"""%new = "stablehlo.scatter"(%x, %i, %z) <{{
        scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        {body}
      }}) : ({operand}, {index}, {update}) -> {operand}"""


def _scatter_types(element: str, rows: int, updates: int) -> tuple[str, str, str]:
    return f"tensor<{rows}x3x{element}>", f"tensor<{updates}x3x{element}>", f"tensor<{updates}x1xi32>"


def overwrite(element: str) -> str:
    return f"stablehlo.return %b : tensor<{element}>"


def combine(element: str) -> str:
    return f"%c = stablehlo.maximum %a, %b : tensor<{element}>\nstablehlo.return %c : tensor<{element}>"


def update_in_place(read_late: bool) -> str:
    """An update in place of %x, and a read of its old value after or before."""
    operand, update, index = _scatter_types("f32", 4, 2)
    lines = [f"%old = stablehlo.negate %x : {operand}", scatter_operation("f32", overwrite("f32"))]
    body = "\n".join(reversed(lines) if read_late else lines)
    arguments = f"%x: {operand} {{tf.aliasing_output = 0 : i32}}, %z: {update}, %i: {index}"
    results = f"{operand}, {operand}"
    return f"func.func public @main({arguments}) -> ({results}) {{\n{body}\nreturn %new, %old : {results}\n}}"
