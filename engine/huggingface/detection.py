"""Tell a model of the ``transformers`` package from others without importing the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def is_hugging_face_model(model: nn.Module) -> TypeGuard[PreTrainedModel]:
    """Whether ``model`` is a ``transformers.PreTrainedModel`` that does not declare slots of its own."""
    if hasattr(model, "decode_slots"):
        return False
    bases = [(base.__module__.partition(".")[0], base.__name__) for base in type(model).__mro__]
    return ("transformers", "PreTrainedModel") in bases
