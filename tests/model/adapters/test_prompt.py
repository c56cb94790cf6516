import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.position import PositionConfig
from tests.model.adapters.adapted_models import adapted, scores
from tests.model.small_models import batch_for, built

CASE = ("encoder_decoder", {"length": 4})

TOKENS = [7, 3, 9]
LONG = PositionConfig(kind="learned", maximum=20)


def with_tokens(family, tensors):
    """The batch whose rows begin with the tokens of the prompt, and the places that it adds to the
    scored rows."""
    count = len(tensors["input_ids"])
    length = len(TOKENS)
    first = torch.tensor(TOKENS).expand(count, -1)
    places = torch.arange(tensors["position_ids"].shape[1] + length).expand(count, -1)
    longer = tensors | {
        "input_ids": torch.cat((first, tensors["input_ids"]), 1),
        "position_ids": places,
    }
    longer["lengths"] = tensors["lengths"] + length
    for name in ("type_ids", "document_ids"):
        if name in tensors:
            longer[name] = torch.nn.functional.pad(tensors[name], (length, 0))

    return longer, 0 if family == "encoder_decoder" else length


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder_decoder"])
def test_vectors_of_tokens_are_these_tokens(family):
    model = built(family, **({"position": LONG} if family == "encoder" else {})).eval()
    model.adapters.add("own", {"name": "prompt", "length": 3, "tokens": TOKENS})
    tensors = batch_for(family)
    if family == "encoder":
        tensors["type_ids"] = torch.ones_like(tensors["input_ids"])
    longer, added = with_tokens(family, tensors)
    expected = scores(model, longer)[:, added:]
    alone = scores(model, tensors)
    model.adapters.use("own")
    found = scores(model, tensors)
    real = (
        torch.arange(found.shape[1]) < tensors.get("decoder_lengths", tensors["lengths"])[:, None]
    )

    assert found.shape == alone.shape
    assert (found - expected)[real].abs().max() <= 1e-5
    assert (alone - expected)[real].abs().max() > 1e-3


def test_it_begins_with_its_tokens_again_and_again_or_with_some_drawn_from_the_seed():
    model = built("encoder")
    adapter = model.adapters.add("own", {"name": "prompt", "length": 5, "tokens": TOKENS})
    (part,) = adapter.parts.values()

    assert torch.equal(part.rows, model.family.tokens.weight[[7, 3, 9, 7, 3]])

    drawn = [
        model.adapters.add(f"a{number}", {"name": "prompt"}, seed=number % 2) for number in range(3)
    ]
    rows_of = [next(iter(adapter.parts.values())).rows for adapter in drawn]

    assert torch.equal(rows_of[0], rows_of[2])
    assert not torch.equal(rows_of[0], rows_of[1])

    table = {tuple(row.tolist()) for row in model.family.tokens.weight}

    assert {tuple(row.tolist()) for row in rows_of[0]} <= table


def test_tokens_beyond_the_vocabulary_are_refused():
    with pytest.raises(ConfigurationError, match="expected ids below 37, got 37"):
        built("encoder").adapters.add("own", {"name": "prompt", "tokens": [37]})


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder_decoder"])
def test_packed_documents_read_the_prompt_and_not_each_other_by_way_of_it(family, monkeypatch):
    """Without the kernels for documents, which would hide the prompt."""
    monkeypatch.setattr("clozeline.model.layers.stack.reads_documents", lambda *_, **__: True)
    model = adapted(family, "prompt", length=3)
    ids = torch.randint(1, 37, (1, 8))
    places = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]])
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])

    def read(part):
        size = part.stop - part.start
        batch = {
            "input_ids": ids[:, part],
            "position_ids": places[:, part],
            "lengths": torch.tensor([size]),
        }

        batch["document_ids"] = documents[:, part]
        bounds = torch.tensor([0, *([3] if size == 8 else []), size], dtype=torch.int32)
        batch |= {"cu_seqlens": bounds, "max_seqlen": torch.tensor(5)}

        if family == "encoder_decoder":
            batch |= {"decoder_input_ids": ids[:, part], "decoder_position_ids": places[:, part]}
            batch |= {"decoder_document_ids": documents[:, part], "decoder_cu_seqlens": bounds}
            batch["decoder_max_seqlen"] = torch.tensor(5)

        return scores(model, batch)

    assert torch.allclose(
        read(slice(0, 8))[:, 3:],
        read(slice(3, 8)),
        atol=1e-5,
    )


def test_a_prompt_is_before_padding_on_the_left():
    model = adapted("decoder", "prompt", length=3)
    tensors = batch_for("decoder", lengths=[6])
    short = {name: value[:, :6] if value.ndim == 2 else value for name, value in tensors.items()}
    ids = torch.nn.functional.pad(short["input_ids"], (4, 0))
    places = torch.nn.functional.pad(short["position_ids"], (4, 0))
    padded = short | {"input_ids": ids, "position_ids": places, "left_padding": torch.tensor([4])}

    assert torch.allclose(scores(model, padded)[:, 4:], scores(model, short), atol=1e-5)


@pytest.mark.parametrize("family", ["mobilebert", "xlnet", "awd_lstm"])
def test_families_without_stacks_are_refused(family):
    with pytest.raises(
        ConfigurationError, match="expected a family with standard stacks of layers"
    ):
        adapted(family, "prompt")
