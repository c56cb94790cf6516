"""A generator and a discriminator against two encoders with their weights, with tokens drawn by a
loop."""

import pytest
import torch
from pydantic import ValidationError

from clozeline.model.build import build_model
from clozeline.model.configuration.position import PositionConfig
from clozeline.tools.start.contracts.heads import rows_of
from tests.model.closeness import assert_gradients_close, gradients
from tests.model.small_models import VOCABULARY, batch_for, built, small_config

SMALL = {
    "norm_place": "post",
    "final_norm": False,
    "emb_norm": True,
    "type_vocab_size": 2,
    "generator": {"layers": 1, "dim": 18, "attention_heads": 3, "ffn_dim": 20},
    "heads": {"masked_lm": 1.0, "token": 50.0},
}

PLACES = 20
LENGTHS = [11, 1, 6]
DISENTANGLED = {"embedding_sharing": "disentangled"}


def network_for(seed=3, **changes):
    """A model with random numbers in every parameter, since zeros and ones hide mistakes."""
    changes = {"emb_dim": 12, "eps": 1e-12, "position": PositionConfig(maximum=PLACES)} | changes
    network = built("replaced_tokens", **changes).eval()
    draw = torch.Generator().manual_seed(seed)

    for parameter in network.parameters():
        noise = torch.randn(parameter.shape, generator=draw)
        parameter.data = (
            noise * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1 + noise * 0.2
        )

    return network


def drawn_by_a_loop(scores, words):
    """The first id whose sum of probabilities is above the fraction, for each label."""
    ids = []

    for row, word in zip(
        scores.float().softmax(-1),
        words.tolist(),
        strict=True,
    ):
        sums = row.cumsum(0)
        cut = (word >> 8) / 2**24
        ids.append(next(number for number, total in enumerate(sums) if total > cut * sums[-1]))

    return torch.tensor(ids)


@pytest.mark.parametrize("changes", [{}, DISENTANGLED], ids=["all", "disentangled"])
def test_losses_and_gradients_are_those_of_two_encoders(changes):
    network = network_for(**changes).double()
    tensors = batch_for("replaced_tokens", lengths=LENGTHS)
    sides = network.family.parts(network.config, network.state_dict(keep_vars=True))
    models = {
        side: build_model(config, VOCABULARY, {}).double().eval()
        for side, (config, _) in sides.items()
    }

    def losses(side, batch):
        """Of the encoder, so that gradients reach the weights of both."""
        return torch.func.functional_call(models[side], sides[side][1], (batch,))

    index = tensors["label_index"]
    with torch.no_grad():
        models["generator"].load_state_dict(sides["generator"][1])
        scores = models["generator"].logits(tensors)["masked_lm"].flatten(0, 1)[index]

    drawn = drawn_by_a_loop(scores, tensors["sample_words"])
    seen = tensors | {
        "input_ids": tensors["input_ids"].flatten().index_copy(0, index, drawn).view(3, 11)
    }
    expected = {
        "masked_lm": losses("generator", tensors)["masked_lm"],
        "token": losses("discriminator", seen)["token"],
    }
    found = network(tensors)
    for name, loss in expected.items():
        assert found[name].total.item() == pytest.approx(loss.total.item(), rel=1e-5)
        assert found[name].metrics == loss.metrics

    both = []

    for side in (found, expected):
        network.zero_grad()
        (side["masked_lm"].total + 50 * side["token"].total).backward()
        both.append({name: gradient.clone() for name, gradient in gradients(network).items()})

    if not changes:
        assert_gradients_close(*both)


@pytest.mark.parametrize("changes", [{}, DISENTANGLED], ids=["all", "disentangled"])
def test_the_discriminator_gives_the_generator_no_gradient(changes):
    network = network_for(**changes)
    tensors = batch_for("replaced_tokens")
    network(tensors)["token"].total.backward()
    judged = {name for name, parameter in network.named_parameters() if parameter.grad is not None}

    assert not any(name.startswith(("family.generator", "heads.masked_lm")) for name in judged)
    assert ("family.tokens.weight" in judged) == (not changes)
    assert ("family.difference.weight" in judged) == bool(changes)

    network.zero_grad()
    network(tensors)["masked_lm"].total.backward()

    assert network.family.tokens.weight.grad.any()

    generated = {
        name for name, parameter in network.named_parameters() if parameter.grad is not None
    }

    assert judged | generated == {name for name, _ in network.named_parameters()}

    if changes:
        assert judged.isdisjoint(generated)


def test_a_disentangled_table_begins_as_the_generator_s():
    network = built("replaced_tokens", **DISENTANGLED).eval().double()
    tensors = batch_for("replaced_tokens")

    assert not network.family.difference.weight.any()

    with torch.no_grad():
        before = network.family(tensors)
        network.family.difference.weight += 0.5
        network.family.tokens.weight -= 0.5
        assert torch.allclose(network.family(tensors), before, atol=1e-10)


def test_draws_and_sums_do_not_depend_on_micro_batches():
    network = network_for()
    tensors = batch_for("replaced_tokens", lengths=[11, 8, 11, 3, 9, 6])
    tensors["row_weight"][4] = 0
    seen = network.family.views(tensors, network.heads)["token"].tensors["input_ids"]
    whole = network(tensors)

    for size in (1, 2, 3):
        parts = [rows_of(tensors, slice(first, first + size)) for first in range(0, 6, size)]
        drawn = [
            network.family.views(part, network.heads)["token"].tensors["input_ids"]
            for part in parts
        ]

        assert torch.equal(torch.cat(drawn), seen)

        for name, loss in whole.items():
            losses = [network(part)[name] for part in parts]

            assert sum(one.count for one in losses) == loss.count
            assert sum(one.total.item() for one in losses) == pytest.approx(
                loss.total.item(), rel=1e-5
            )

            for figure, total in loss.metrics.items():
                assert sum(one.metrics[figure] for one in losses) == total


def test_only_labeled_places_are_replaced_by_tokens_of_the_vocabulary():
    network = network_for(vocab_multiple=64)
    tensors = batch_for("replaced_tokens")

    for words in (0, (1 << 32) - 1):
        tensors["sample_words"] = torch.full_like(tensors["sample_words"], words)
        seen = network.family.views(tensors, network.heads)["token"].tensors["input_ids"]

        assert seen.max() < VOCABULARY

        kept = (
            torch.ones(seen.numel(), dtype=torch.bool)
            .index_fill(0, tensors["label_index"], 0)
            .view_as(seen)
        )

        assert torch.equal(seen[kept], tensors["input_ids"][kept])

    with torch.no_grad():
        network.heads["masked_lm"].projection.bias[0] = torch.nan

    assert (
        network.family.views(tensors, network.heads)["token"].tensors["input_ids"].max()
        < VOCABULARY
    )


def test_operations_are_those_of_both_stacks():
    network = network_for()
    alone = [
        built("encoder", **sizes)
        for sizes in (
            {"emb_dim": 12},
            {"emb_dim": 12, "layers": 1, "dim": 18, "attention_heads": 3, "ffn_dim": 20},
        )
    ]

    assert network.family.flops(11, 0) == sum(one.family.flops(11, 0) for one in alone)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": {"masked_lm": 1.0}}, "one or more heads of the discriminator.* export the run"),
        ({"heads": {"token": 1.0, "corrective": 1.0}}, "expected masked_lm"),
        (
            {"generator": {"layers": 1, "dim": 18, "attention_heads": 4, "ffn_dim": 9}},
            "not a multiple of 4 heads",
        ),
        (
            {"heads": {"masked_lm": 1.0, "corrective": 1.0}} | DISENTANGLED,
            "embedding_sharing: disentangled keeps",
        ),
    ],
)
def test_contradictions_are_named(changes, message):
    with pytest.raises(ValidationError, match=message):
        small_config("replaced_tokens", **changes)
