"""Losses and figures of each head from its scores, by torch's own functions.

Rows 2 and 5 have no label or no weight.

That scores are those of transformers' classes is tested with their checkpoints.
"""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from clozeline.errors import ConfigurationError
from clozeline.model.registries import HEADS
from clozeline.tools.start.contracts.heads import batch_of, full_batch
from tests.model.small_models import built, only

ROWS = [0, 1, 3, 4]


def drawn(name, **options):
    network = built("encoder", heads={name: options}).eval()
    for parameter in network.heads[name].parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return network


def of_labels(key):
    return lambda scores, rows: (
        F.cross_entropy(scores, rows[key], reduction="sum"),
        scores.argmax(-1) == rows[key],
    )


def of_several_labels(scores, rows):
    loss = F.binary_cross_entropy_with_logits(scores, rows["label"].float(), reduction="sum") / 3
    return loss, ((scores > 0) == rows["label"]).all(-1)


def squared(share):
    return lambda scores, rows: (
        (scores - rows["target"]).mul(share).square().sum(),
        torch.zeros(0),
    )


def of_ends(scores, rows):
    scores = scores.masked_fill(~rows["answer_places"][..., None], -torch.inf)
    ends = torch.stack((rows["answer_start"], rows["answer_end"]), dim=1)
    return F.cross_entropy(scores, ends, reduction="sum") / 2, (scores.argmax(1) == ends).all(1)


CASES = {
    "classification": ({"classes": 3}, of_labels("label")),
    "classification multi": ({"classes": 3, "multi_label": True}, of_several_labels),
    "multiple_choice": ({}, of_labels("label")),
    "sentence": ({}, of_labels("sentence_label")),
    "regression": ({}, squared(1)),
    "regression scaled": ({"target_scale": [18.0, 4.5]}, squared(1 / 4.5)),
    "regression sigmoid": (
        {
            "output": "sigmoid",
            "range": [1.0, 5.0],
        },
        squared(1 / 4),
    ),
    "span": ({}, of_ends),
}


@pytest.mark.parametrize("case", CASES)
def test_the_loss_of_rows(case):
    name, (options, expected) = case.split()[0], CASES[case]
    network = drawn(name, **options)
    tensors = batch_of(HEADS.load_class(name))

    if "multi_label" in options:
        tensors["label"] = torch.tensor(
            [
                [0, 1, 1],
                [0, 0, 0],
                [-100] * 3,
                [1, 0, 0],
                [1, 0, 1],
                [1, 0, 1],
            ]
        )

    if name == "span":
        tensors["answer_places"] &= torch.arange(11).remainder(4) != 3
        tensors["answer_end"] -= (tensors["answer_end"] == 3).long()
        tensors["answer_start"] -= (tensors["answer_start"] == 3).long()

    rows = {key: value[ROWS] for key, value in tensors.items() if len(value) == 6}
    wanted, right = expected(network.logits(tensors)[name][ROWS], rows)
    loss = only(network(tensors))

    assert (loss.count, loss.total.item()) == (4, pytest.approx(wanted.item(), rel=1e-4))
    assert not loss.metrics or sum(loss.metrics.values()) == right.sum()


def by_label(scores, tensors):
    """Losses and correctness of each label, and how many labels its row has.

    Rows of weight 0 left out.
    """
    flat = scores.flatten(0, 1)[tensors["label_index"]]
    rows = tensors["label_index"] // 11
    kept = tensors["row_weight"][rows] > 0
    losses = F.cross_entropy(flat, tensors["label_ids"], reduction="none")
    return (
        losses[kept],
        (flat.argmax(-1) == tensors["label_ids"])[kept],
        rows.bincount()[rows][kept],
    )


@pytest.mark.parametrize("normalize", ["label", "row"])
@pytest.mark.parametrize(("name", "classes"), [("masked_lm", 37), ("lm", 37), ("tagging", 3)])
def test_the_loss_of_labels(name, classes, normalize):
    network = drawn(name, normalize=normalize, **({"classes": 3} if name == "tagging" else {}))
    tensors = full_batch()
    tensors["label_ids"] %= classes
    losses, right, labels = by_label(network.logits(tensors)[name], tensors)
    weights = 1 / labels if normalize == "row" else torch.ones(len(labels))
    loss = only(network(tensors))

    assert loss.count == (5 if normalize == "row" else len(labels))
    assert loss.total.item() == pytest.approx((losses * weights).sum().item(), rel=1e-5)
    assert loss.metrics.get("accuracy", (right * weights).sum()).item() == pytest.approx(
        (right * weights).sum().item()
    )


def tokens_of(tensors):
    """Which places hold tokens of rows with labels and weight, and the original id of each."""
    originals = tensors["input_ids"].clone()
    originals.view(-1)[tensors["label_index"]] = tensors["label_ids"]
    return (torch.arange(11) < tensors["lengths"][:, None]) & (tensors["row_weight"] > 0)[
        :, None
    ], originals


@pytest.mark.parametrize("name", ["token", "corrective"])
def test_the_loss_of_tokens(name):
    """`corrective` by equations 2 and 3 of its paper."""
    network = drawn(name, **({"copy_weight": 3.0} if name == "corrective" else {}))
    tensors = full_batch()
    head = network.heads[name]
    hidden = torch.randn(6, 11, 24)
    real, originals = tokens_of(tensors)
    other = (originals != tensors["input_ids"])[real]

    if name == "token":
        scores = head.logits(hidden)[real].squeeze(-1)
        expected = F.binary_cross_entropy_with_logits(scores, other.float(), reduction="sum")
    else:
        scores = -head.copy(hidden)[real].squeeze(-1)
        likely = head.logits(hidden)[real].softmax(-1)
        likely = likely.gather(1, originals[real][:, None]).squeeze(1)
        copied = scores.neg().sigmoid()
        expected = -(torch.where(other, 0.0, copied) + (1 - copied) * likely).log().sum()
        expected -= 3.0 * torch.where(other, 1 - copied, copied).log().sum()

    loss = head.loss(hidden, tensors)

    assert (loss.count, loss.total.item()) == (len(other), pytest.approx(expected.item(), rel=1e-5))
    assert loss.metrics == {
        "accuracy": ((scores > 0) == other).sum(),
        "replaced": other.sum(),
    }


def test_the_loss_of_tokens_does_not_train_the_decision_to_copy():
    network = drawn("corrective")
    tensors = full_batch()
    head = network.heads["corrective"]
    head.options = replace(head.options, copy_weight=0.0)
    with torch.no_grad():
        head.copy.bias.fill_(200.0)  # a sure copy of an unlikely token is finite
    head.loss(torch.randn(6, 11, 24), tensors).total.backward()

    assert not head.copy.weight.grad.any()
    assert head.transform.weight.grad.isfinite().all()


def test_rows_that_lack_an_end_or_a_label_or_places_are_finite_and_do_not_count():
    network = drawn("span")
    tensors = full_batch()
    tensors["answer_end"][0] = -100
    tensors["answer_places"][2] = False
    loss = only(network(tensors))
    loss.total.backward()

    assert loss.count == 3
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())

    loss = only(
        drawn("classification", classes=3, multi_label=True)(
            tensors | {"label": torch.full((6, 1), -100)}
        )
    )

    assert (loss.count, loss.total.item()) == (0, 0.0)


@pytest.mark.parametrize(
    ("heads", "error"),
    [
        ({"classification": {}}, "classification.classes: expected 2 or more, got none"),
        (
            {"classification": {"multi_label": True}},
            "classification.classes: expected 1 or more, got none",
        ),
        ({"tagging": {}}, "tagging.classes: expected 2 or more, got none"),
        (
            {"similarity": {"pool": "pair"}},
            "similarity.pool: expected 'cls', 'mean', 'max' or 'last', got 'pair'",
        ),
        (
            {"regression": {"output": "sigmoid", "range": [5.0, 1.0]}},
            "the lower bound comes first",
        ),
        (
            {"classification": {"classes": 2, "pool": "decoder_last"}},
            "an encoder_decoder has the pool decoder_last",
        ),
    ],
)
def test_options_that_make_no_head_are_refused(heads, error):
    with pytest.raises((ConfigurationError, ValueError), match=error):
        built("encoder", heads=heads)
    with pytest.raises(ConfigurationError, match="cannot read states of width 24"):
        built("encoder", emb_dim=10, heads={"masked_lm": {"transform": False}})


def test_scores_of_t5_are_those_of_states_over_the_root_of_the_width():
    plain, scaled = (
        built("encoder_decoder", out_scale=out_scale).heads["lm"] for out_scale in (False, True)
    )
    hidden = torch.randn(2, 3, 24)
    torch.testing.assert_close(scaled.logits(hidden), plain.logits(hidden / 24**0.5))
