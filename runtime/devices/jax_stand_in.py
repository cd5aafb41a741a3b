"""Let jaxlib make arrays where jax is not installed.

For every array that it makes, jaxlib calls ``jax._src.sharding_impls.make_single_device_sharding``. Without jax it
searches the whole path in vain each time and then makes the sharding itself, by a constructor of its own. Here that
constructor is given to it under the name that it looks for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]


def call_without_jax(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of jaxlib that makes arrays.

    Only during the call are there modules that stand in for jax: others who try to import it find that it is absent.
    Where jax is installed jaxlib gets the real one.
    """
    if "jax" in sys.modules or _jax_is_installed():
        return function(*args, **kwargs)
    stand_ins = _stand_ins()
    sys.modules.update(stand_ins)
    try:
        return function(*args, **kwargs)
    finally:
        for name in stand_ins:
            del sys.modules[name]


@cache
def _jax_is_installed() -> bool:
    return find_spec("jax") is not None


@cache
def _stand_ins() -> dict[str, ModuleType]:
    """The two modules that the import machinery looks up: the package and the module in it."""
    shardings = ModuleType("jax._src.sharding_impls")
    shardings.make_single_device_sharding = _jax.SingleDeviceSharding  # pyright: ignore[reportAttributeAccessIssue]
    return {"jax": ModuleType("jax"), shardings.__name__: shardings}
