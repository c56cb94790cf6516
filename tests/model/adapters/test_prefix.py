import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.adapters.prefix import Prefix
from clozeline.model.configuration.position import DisentangledConfig, LocalConfig, PositionConfig
from clozeline.model.layers.cache import Cache
from tests.model.adapters.adapted_models import adapted, scores
from tests.model.small_models import VOCABULARY, built

CASE = ("decoder", {"length": 4})

LEARNED = PositionConfig(kind="learned", maximum=20)
CONTEXT = 5


def decoder_rows(ids, start=0):
    """A batch without padding."""
    places = torch.arange(start, start + ids.shape[1]).expand(len(ids), -1)
    return {
        "input_ids": ids,
        "position_ids": places,
        "lengths": torch.full((len(ids),), ids.shape[1]),
    }


def with_context(model, context):
    """The model with a prefix that holds its own keys and values of the tokens of a context."""

    cache = Cache(len(context))
    with torch.no_grad():
        model.family.decode(decoder_rows(torch.tensor([context])), cache)
    adapter = model.adapters.add("context", {"name": "prefix", "length": len(context)})
    kept = {owner: pair for (owner, _), pair in cache._stored.items()}

    with torch.no_grad():
        for path, table in adapter.parts.items():
            pair = kept[model.family.get_submodule(path)]
            table.rows.copy_(
                torch.cat([part[0].transpose(0, 1).flatten(1) for part in pair], dim=1)
            )

    model.adapters.use("context")
    return model


@pytest.mark.parametrize("left", [0, 3], ids=["full", "left padding"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"position": LEARNED},
        {"kv_heads": None},
        {"local": LocalConfig(window=20, global_every=2)},
    ],
    ids=["rope", "learned", "all heads", "local"],
)
def test_keys_and_values_of_a_context_are_the_context(changes, left):
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(1, VOCABULARY, (2, CONTEXT + 6), generator=draw)
    ids[1, :CONTEXT] = ids[0, :CONTEXT]
    model = built("decoder", **changes).eval()
    whole = scores(model, decoder_rows(ids))[:, CONTEXT:]
    batch = decoder_rows(ids[:, CONTEXT:])

    if left:
        batch["input_ids"] = torch.nn.functional.pad(batch["input_ids"], (left, 0))
        batch["position_ids"] = torch.nn.functional.pad(batch["position_ids"], (left, 0))
        batch["left_padding"] = torch.full((2,), left)

    found = scores(with_context(model, ids[0, :CONTEXT].tolist()), batch)[:, left:]

    assert (found - whole).abs().max() <= 1e-5

    model.adapters.use(None)

    assert (scores(model, batch)[:, left:] - whole).abs().max() > 1e-3


def test_a_computed_prefix_is_that_of_its_formula():
    model = adapted("decoder", "prefix", length=3, hidden=7)
    adapter = model.adapters["own"]
    trunk = adapter.trunk
    hidden = torch.tanh(trunk.rows @ trunk.weight.T + trunk.bias)

    for path, part in adapter.parts.items():
        assert torch.allclose(
            adapter.keys_and_values(path), hidden @ part.weight.T + part.bias, atol=1e-6
        )


def test_packed_documents_and_prefixes_read_it_too():
    model = adapted("decoder", "prefix", length=3)
    ids = torch.randint(1, VOCABULARY, (1, 8))
    packed = decoder_rows(ids) | {"document_ids": torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])}
    packed["position_ids"] = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])

    assert torch.allclose(
        scores(model, packed)[:, 3:], scores(model, decoder_rows(ids[:, 3:])), atol=1e-5
    )

    both = decoder_rows(ids) | {"prefix_length": torch.tensor([4])}

    assert not torch.allclose(
        scores(model, both)[:, :3], scores(model, decoder_rows(ids))[:, :3], atol=1e-4
    )


@pytest.mark.parametrize(
    ("family", "changes", "kind"),
    [
        ("awd_lstm", {}, "none"),
        ("elmo", {}, "none"),
        ("xlnet", {}, "RelativeAttention"),
        (
            "encoder",
            {"position": PositionConfig(kind="none", disentangled=DisentangledConfig())},
            "Disentangled",
        ),
    ],
    ids=["awd_lstm", "elmo", "xlnet", "deberta"],
)
def test_families_without_plain_self_attention_are_refused(family, changes, kind):
    with pytest.raises(ConfigurationError, match=f"standard self-attention, .* has {kind}"):
        Prefix(Prefix.Options(), built(family, **changes).family)
