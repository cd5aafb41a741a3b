import pytest
import torch
from deepinfer_neuron.compiler.lowering.registry import LOWERINGS
from deepinfer_neuron.verification.operator_comparison import compare_operators

aten = torch.ops.aten


def by_operator(comparisons):
    found = {}
    for comparison in comparisons:
        found.setdefault(comparison.operator, []).append(comparison)
    return found


@pytest.fixture(scope="module")
def progress():
    return []


@pytest.fixture(scope="module")
def exact(step, progress):
    return compare_operators(step, "exact", lambda done, total: progress.append((done, total)))


def test_exact_numerics_stay_within_the_table(exact, progress):
    assert not [comparison for comparison in exact if comparison.unexplained]
    assert progress == [(done, len(progress)) for done in range(1, len(progress) + 1)]
    found = by_operator(exact)
    for kernel in ("rms_norm", "sinkhorn", "hyper_connection_expand"):
        (one,) = found[f"deepinfer.{kernel}.default"]
        assert (one.places, one.calls, one.mismatched, one.allowed_ulps) == (2, 2, 0, None)
    (product,) = found["aten.mm.default"]
    assert product.allowed_ulps > 0
    assert "(3, 64)" in product.signature


def test_calls_inside_loops_are_counted_as_often_as_they_run(exact):
    divisions = by_operator(exact)["aten.div.Tensor"]
    three_more_rounds_of_two_divisions = 2 + 3 * 2
    assert sum(one.calls for one in divisions) >= 2 * three_more_rounds_of_two_divisions
    assert max(one.calls for one in divisions) > max(one.places for one in divisions)


def test_a_wrong_lowering_is_found_where_it_is_and_explains_the_kernels_around_it(step, monkeypatch):
    right = LOWERINGS[aten.sub.Tensor]
    monkeypatch.setitem(
        LOWERINGS, aten.sub.Tensor, lambda emitter, result, a, b, **keywords: right(emitter, result, b, a, **keywords)
    )
    comparisons = compare_operators(step, "exact")
    assert {one.operator for one in comparisons if one.unexplained} == {"aten.sub.Tensor"}
    assert {one.operator for one in comparisons if one.mismatched} >= {"aten.sub.Tensor", "deepinfer.sinkhorn.default"}


def test_an_error_of_one_ulp_is_found(step, monkeypatch):
    """A multiplication that adds the smallest step to each product, in exact numerics."""
    right = LOWERINGS[aten.mul.Tensor]
    add = LOWERINGS[aten.add.Tensor]

    def off(emitter, result, a, b):
        product = right(emitter, result, a, b)
        step_up = torch.finfo(result.dtype).eps
        return add(emitter, result, product, right(emitter, result, product, step_up))

    monkeypatch.setitem(LOWERINGS, aten.mul.Tensor, off)
    found = by_operator(compare_operators(step, "exact"))
    assert all(one.unexplained and one.max_ulps <= 2 for one in found["aten.mul.Tensor"])
    assert not any(one.unexplained for name in found if name != "aten.mul.Tensor" for one in found[name])


def test_fusion_that_changes_a_kernel_is_unexplained(step, monkeypatch):
    """Every operator of the decomposition is right by itself; only the kernel as a whole is lowered wrongly."""
    target = torch.ops.deepinfer.rms_norm.default
    right = LOWERINGS[aten.neg.default]
    monkeypatch.setitem(LOWERINGS, target, lambda emitter, result, x, weight, eps: right(emitter, result, x))
    found = by_operator(compare_operators(step, "exact"))
    assert found["deepinfer.rms_norm.default"][0].unexplained > 0


def test_fast_numerics_are_measured_and_leave_the_step_alone(step):
    before = [tensor.clone() for tensor in step.inputs]
    comparisons = compare_operators(step, "fast")
    assert sum(one.mismatched for one in comparisons) > 0
    assert all(one.max_ulps < 100 for one in comparisons if "float64" not in one.signature)
    assert all(torch.equal(tensor, kept) for tensor, kept in zip(step.inputs, before, strict=True))
