"""A ``transformers`` cache of one step, whose layers lie in pools with a row for each request.

To the model, a step of several requests looks like the next token of a batch that was padded on the left: every
request's last token is at the end, and ``attention_mask`` says how far back it goes. Any decoder that ``generate`` can
run on such a batch can therefore be stepped, whatever it makes of positions, windows and masks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DummyLayer, LinearAttentionLayer

from .layer_pools import LayerPools
from .places import Places


class PooledCache(Cache):
    """Made anew in each step, so that a step changes nothing but the pools."""

    def __init__(self, pools: Iterable[LayerPools], places: Places):
        super().__init__(layers=[_layer(one, places) for one in pools])

    def store_states(self) -> None:
        """Keep the states as the model left them: it may have changed them in place."""
        for layer in self.layers:
            if isinstance(layer, PooledStates):
                layer.store()


class PooledAttention(CacheLayerMixin):
    """Keys and values of the last tokens of each request: all of them, or those of a window.

    It answers as a dynamic layer does that has seen ``max_context - 1`` tokens, most of them padding.
    """

    is_compileable = True
    """With it, models always make a mask, and never leave it to the ``is_causal`` of an attention function."""

    def __init__(self, pools: LayerPools, places: Places):
        super().__init__()
        self.pools = pools
        self.places = places
        self.is_sliding = pools.is_sliding
        self.is_initialized = True

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: the pools are there before the first step."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Keep the keys and values of a token, each [batch, heads, 1, width]; returns those of all that is kept."""
        self.places.store(self.pools.keys, key_states)
        self.places.store(self.pools.values, value_states)
        return self.places.window(self.pools.keys), self.places.window(self.pools.values)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many keys a mask covers, and the index of the first of them."""
        kept = self.pools.keys.shape[1]
        return kept, self.pools.max_context - kept

    def get_seq_length(self) -> int:
        """Tokens before this step's, padding included."""
        return self.pools.max_context - 1

    def get_max_length(self) -> int:
        """Tokens that a request may reach."""
        return self.pools.max_context


class PooledStates(LinearAttentionLayer):
    """Convolution and recurrent states of each request."""

    def __init__(self, pools: LayerPools, places: Places):
        super().__init__(number_of_states=max(len(pools.convolutions), len(pools.recurrences)))
        self.pools = pools
        self.places = places
        for index, pool in pools.convolutions.items():
            self.conv_states[index] = places.state(pool)
            self.conv_kernel_size[index] = pool.shape[-1]
            self.is_conv_states_initialized[index] = True
        for index, pool in pools.recurrences.items():
            self.recurrent_states[index] = places.state(pool)
            self.is_recurrent_states_initialized[index] = True
        for index in self.has_previous_state:
            self.has_previous_state[index] = True

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: the states are there before the first step."""

    def store(self) -> None:
        """Keep the states."""
        kinds = (self.pools.convolutions, self.conv_states), (self.pools.recurrences, self.recurrent_states)
        for pools, states in kinds:
            for index, pool in pools.items():
                state = states[index]
                assert state is not None, "every state that has a pool is there from the start"
                self.places.store_state(pool, state)


class PooledAttentionAndStates(PooledStates, PooledAttention):
    """A layer with both."""

    def __init__(self, pools: LayerPools, places: Places):
        PooledAttention.__init__(self, pools, places)
        PooledStates.__init__(self, pools, places)


def _layer(pools: LayerPools, places: Places) -> CacheLayerMixin | LinearAttentionLayer | DummyLayer:
    has_attention = pools.form.keys is not None
    has_states = bool(pools.form.convolutions or pools.form.recurrences)
    if has_attention and has_states:
        return PooledAttentionAndStates(pools, places)
    if has_attention:
        return PooledAttention(pools, places)
    return PooledStates(pools, places) if has_states else DummyLayer()
