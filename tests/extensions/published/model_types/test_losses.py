"""Losses and gradients of classes with other heads than one over the vocabulary."""

from dataclasses import replace

import pytest
import torch

from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.extensions.published.peers import rows, saved
from tests.model.closeness import assert_gradients_close, gradients

SIZES = {
    "albert masked_lm+sentence": {
        "hidden_size": 12,
        "num_attention_heads": 3,
        "num_hidden_layers": 3,
    },
    "mobilebert masked_lm+sentence": {"num_hidden_layers": 2},
    "electra token": {"embedding_size": 5},
}


@pytest.mark.parametrize("case", SIZES)
def test_sums_over_labels_and_rows_divided_by_their_counts_are_the_loss_of_the_class(
    tmp_path, case
):
    theirs = saved(tmp_path, case, **SIZES[case]).double()
    ours, their, valid = rows(theirs)
    index = torch.tensor([0, 4, 13])
    ours |= {
        "label_index": index,
        "label_ids": torch.tensor([5, 36, 9]),
        "row_weight": torch.ones(2),
    }

    ours["input_ids"].view(-1)[4] = 36  # one label is the token that is there

    if case == "electra token":
        labels = torch.zeros_like(valid, dtype=torch.int64)
        counts = {"token": int(valid.sum())}
        labels.view(-1)[index[[0, 2]]] = 1
        more = {}
    else:
        labels = torch.full_like(valid, -100, dtype=torch.int64)
        counts = {"masked_lm": 3, "sentence": 2}
        labels.view(-1)[index] = ours["label_ids"]
        ours["sentence_label"] = torch.tensor([1, 0])
        name = "sentence_order_label" if case.startswith("albert") else "next_sentence_label"
        more = {name: ours["sentence_label"]}

    expected = theirs(**their, labels=labels, **more).loss
    expected.backward()
    checkpoint = read_checkpoint(tmp_path)
    model = build_checkpoint(checkpoint).double()
    losses = model(ours)

    assert {name: loss.count for name, loss in losses.items()} == counts

    loss = sum(loss.total / loss.count for loss in losses.values())

    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)

    loss.backward()
    found = export_checkpoint(replace(checkpoint, tensors=gradients(model))).tensors
    trained = {
        name: gradient for name, gradient in gradients(theirs).items() if gradient is not None
    }

    assert_gradients_close({name: found[name] for name in trained}, trained)
