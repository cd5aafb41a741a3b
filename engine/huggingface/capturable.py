"""A copy of a ``transformers`` model that can be captured as one static graph."""

from __future__ import annotations

import copy
import inspect
import itertools
from types import MethodType

from transformers import PreTrainedModel

EXPERTS = "batched_mm"
"""The experts of ``transformers`` whose shapes do not depend on how many tokens each expert is given."""


def capturable_copy(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of the modules that shares every parameter and buffer, for inference; ``model`` is left as it is."""
    shared = itertools.chain(model.parameters(), model.buffers())
    copied = copy.deepcopy(model, {id(tensor): tensor for tensor in shared}).eval()
    copied.set_experts_implementation(EXPERTS)
    for module in copied.modules():
        if isinstance(module, PreTrainedModel):
            _without_decorators(module)
    return copied


def _without_decorators(module: PreTrainedModel) -> None:
    """Call the ``forward`` that the model's author wrote.

    ``transformers`` decorates it to collect hidden states in a global variable, which no program can do; the other
    decorators rename old arguments and take defaults from the config, and a step passes what it means by name.
    There is no public way to ask for one without the other.
    """
    module.forward = MethodType(inspect.unwrap(type(module).forward), module)
