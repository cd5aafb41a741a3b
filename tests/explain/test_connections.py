from __future__ import annotations

from deepinfer_neuron.explain.connections import assign_tracks, connect
from explained_steps import make_step
from hypothesis import given
from hypothesis import strategies as st


def test_neighbours_are_joined_directly_and_others_by_the_lane_of_their_maker(layered_step):
    connections = connect(layered_step)
    assert [(one.maker, one.user) for one in connections.steps] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert [(lane.maker, [one.user for one in lane.connections]) for lane in connections.lanes] == [
        (0, [3, 4]),
        (1, [3]),
    ]
    assert {region: len(uses) for region, uses in connections.caches.items()} == {1: 1, 3: 2}


def test_values_of_one_pair_are_one_connection():
    step = make_step(["a", "b"], [1, 2], edges=[(0, 1), (0, 1)])
    (one,) = connect(step).steps
    assert one.bytes == 512
    assert one.title(["a", "b"]) == "a → b\nvalue_0: float32[64], 256 B\nvalue_0: float32[64], 256 B"


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted).map(tuple), max_size=30))
def test_tracks_hold_intervals_that_do_not_overlap_and_are_as_few_as_the_busiest_place(intervals):
    tracks = assign_tracks(intervals)
    covering = [
        [track for track, (start, end) in zip(tracks, intervals, strict=True) if start <= at <= end] for at in range(21)
    ]
    assert all(len(set(there)) == len(there) for there in covering)
    assert max(tracks, default=-1) + 1 == max(map(len, covering))
