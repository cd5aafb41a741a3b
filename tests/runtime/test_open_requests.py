"""A request is open from when it is added until it is removed, once."""

from __future__ import annotations

import pytest
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.runtime.open_requests import OpenRequests


def test_only_what_is_open_passes_and_can_be_removed():
    requests, first, second = OpenRequests(), object(), object()
    requests.add(first)
    requests.check([first])
    with pytest.raises(InputError, match=r"requests \[1\] of this call are not open"):
        requests.check([first, second])
    requests.remove(first)
    for call in (lambda: requests.remove(first), lambda: requests.check([first])):
        with pytest.raises(InputError, match="not open"):
            call()


def test_one_request_cannot_be_named_twice():
    requests, first = OpenRequests(), object()
    requests.add(first)
    with pytest.raises(InputError, match="named twice"):
        requests.check([first, first])
