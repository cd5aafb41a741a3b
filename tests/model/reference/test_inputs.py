import pytest
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.model.reference.dspark import DraftModel
from deepinfer_neuron.model.reference.model import ReferenceModel


@pytest.fixture
def model(published_a):
    return ReferenceModel(published_a.checkpoint)


@pytest.mark.parametrize(
    ("token_ids", "positions", "message"),
    [
        ([], None, "empty"),
        ([1, 512], None, "token id 512"),
        ([1, -1], None, "token id -1"),
        ([1, 507], None, "token id 507 stands for an image"),
        ([1] * 4097, None, "max_position_embeddings 4096"),
        ([1, 2], [2], "position 2 of a prompt of 2"),
    ],
)
def test_bad_prompts_are_refused(model, token_ids, positions, message):
    with pytest.raises(InputError, match=message):
        model.prefill(token_ids, positions)


def test_decode_before_prefill_is_refused(model):
    with pytest.raises(InputError, match="call prefill"):
        model.decode(1)


def test_a_refused_token_leaves_the_request_as_it_was(model, published_a):
    model.prefill(published_a.ids("p17"))
    with pytest.raises(InputError):
        model.decode(512)
    assert model.state.token_ids == published_a.ids("p17")


def test_bad_drafts_are_refused(model):
    stages = DraftModel(model.weights)
    with pytest.raises(InputError, match="call write first"):
        stages.draft(1)
    stages.write(model.prefill([1, 2]).main_hidden, 0)
    with pytest.raises(InputError, match="pass 4"):
        stages.draft(1, [3])
    with pytest.raises(InputError, match="token id 512"):
        stages.draft(512)


def test_observer_sees_the_documented_names(published_a):
    seen = {}
    model = ReferenceModel(published_a.checkpoint, observe=seen.__setitem__)
    model.prefill(published_a.ids("p17"))
    layer_5 = {name.removeprefix("layers.5.") for name in seen if name.startswith("layers.5.")}
    assert layer_5 == {
        *(f"{site}.mix.{part}" for site in ("attn", "ffn") for part in ("pre", "post", "comb")),
        *(f"{site}.{part}" for site in ("attn", "ffn") for part in ("collapse", "norm", "output", "expand")),
        *(f"attn.{part}" for part in ("q_lora", "q", "kv", "latent", "sparse", "output_a", "candidates", "selection")),
        *(f"attn.index_{part}" for part in ("query", "key", "weights", "scores")),
        *(f"ffn.{part}" for part in ("expert_ids", "expert_weights", "routed", "shared")),
    }
    assert "layers.1.engram" in seen
    assert {name for name in seen if not name.startswith("layers.")} == {
        "embed",
        "final.collapse",
        "final.norm",
        "logits",
    }
