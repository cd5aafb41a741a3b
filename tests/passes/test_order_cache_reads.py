from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.alias_input_mutations import alias_input_mutations
from deepinfer_neuron.passes.order_cache_reads import late_reads, order_cache_reads
from deepinfer_neuron.passes.verify import NO_LATE_READS, verify
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import fx


class Cache(torch.nn.Module):
    """Updates one cache twice; ``read`` says what is read of its three versions."""

    def __init__(self, read):
        super().__init__()
        self.read = read
        self.register_buffer("root", torch.randn(8, 4))

    def forward(self, x, rows):
        before = self.root.clone()
        self.root.index_put_((rows,), x)
        between = self.root.clone()
        self.root.index_copy_(0, rows + 1, x * 2)
        return self.read(before, between, self.root, rows)


INPUTS = [torch.randn(2, 4), torch.tensor([1, 4])]


def late(checked, read, target="trn2"):
    """A case in which clones are gone and reads of old versions stand at the end of the graph."""
    case = checked(Cache(read), INPUTS, target=target)
    alias_input_mutations(case.module, case.context)
    for node in list(case.module.graph.nodes):
        if node.target is torch.ops.aten.clone.default:
            node.replace_all_uses_with(node.args[0])
            case.module.graph.erase_node(node)
    return case


def test_reads_move_in_front_of_the_store_that_replaces_what_they_read(checked):
    case = late(checked, lambda before, between, after, rows: before[rows * 1] + between[2:][rows] + after[rows])
    assert len(list(late_reads(case.module, case.context))) == 2
    assert order_cache_reads(case.module, case.context) == 2
    assert list(late_reads(case.module, case.context)) == []
    verify(case.module, case.context, [NO_LATE_READS])
    case.module.graph.lint()
    case.assert_same_bits()


def test_reads_of_the_last_version_and_the_host_are_left_alone(checked):
    case = late(checked, lambda before, between, after, rows: after[rows])
    assert order_cache_reads(case.module, case.context) == 0
    case = late(checked, lambda before, between, after, rows: before[rows], target="host")
    assert order_cache_reads(case.module, case.context) == 0
    verify(case.module, case.context, [NO_LATE_READS])


def test_a_read_that_needs_the_new_value_is_refused(checked):
    case = late(checked, lambda before, between, after, rows: before[after[rows, 0].long() % 8])
    assert order_cache_reads(case.module, case.context) == 0
    with pytest.raises(Exception, match="read it before the update, or read the new value"):
        verify(case.module, case.context, [NO_LATE_READS])


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), min_size=1, max_size=4))
def test_random_reads_keep_every_bit(checked, reads):
    def read(*versions_and_rows):
        *versions, rows = versions_and_rows
        total = 0
        for number, shift, view in reads:
            source = versions[number].view(2, 4, 4)[1] if view else versions[number]
            total = total + source[(rows + shift) % source.shape[0]]
        return total

    case = late(checked, read)
    order_cache_reads(case.module, case.context)
    assert list(late_reads(case.module, case.context)) == []
    assert isinstance(case.module, fx.GraphModule)
    case.module.graph.lint()
    case.assert_same_bits()
