"""Ends of answers against transformers' BERT, and against loops."""

import pytest
import torch
import transformers

from clozeline.model.configuration.model_config import ModelConfig
from tests.model.heads.head_peers import BERT, peers
from tests.model.heads.test_classification import OURS, THEIRS
from tests.model.small_models import built, full_batch, only

PREDICTS_CLASSES = False

NAMES = [*BERT, (r"heads\.span\.classifier\.out", "qa_outputs")]


def test_scores_losses_and_gradients_equal():
    """Return a batch where an answer may be anywhere, as in their loss, and no place is padding."""
    theirs = transformers.BertForQuestionAnswering(transformers.BertConfig(**THEIRS | {"num_labels": 2}))
    models = peers(ModelConfig(**OURS, heads={"span": {}}), theirs, NAMES)
    tensors = full_batch()
    tensors |= {"input_ids": tensors["input_ids"].clamp(min=5), "lengths": torch.full((6,), 11)}
    tensors |= {"row_weight": torch.ones(6), "answer_places": torch.ones(6, 11, dtype=torch.bool)}
    tensors |= {"answer_start": torch.tensor([4, 0, 2, 1, 2, 3]), "answer_end": torch.tensor([6, 0, 7, 1, 5, 4])}
    ends = {"start_positions": tensors["answer_start"], "end_positions": tensors["answer_end"]}
    found = models.theirs(input_ids=tensors["input_ids"], **ends)
    scores = models.ours.logits(tensors)["span"]
    for half, expected in enumerate((found.start_logits, found.end_logits)):
        assert (scores[..., half] - expected).abs().max() < 1e-5
    loss = only(models.ours(tensors))
    assert (loss.total / loss.count).item() == pytest.approx(found.loss.item(), rel=1e-5)
    (loss.total / loss.count).backward()
    found.loss.backward()
    models.compare_gradients()


def test_only_places_that_are_allowed_have_probability():
    network, tensors = built("encoder", heads={"span": {}}).eval(), full_batch()
    places = [[0, 4, 5, 6], [0, 2], [3], [1, 2], [2, 4, 5], [3, 4]]
    tensors["answer_places"] = torch.zeros(6, 11, dtype=torch.bool)
    for row, allowed in enumerate(places):
        tensors["answer_places"][row, allowed] = True
    scores = network.logits(tensors)["span"]
    wanted, exact = 0.0, 0
    for row in (0, 1, 3, 4):  # row 2 has no answer, row 5 no weight
        ends = tensors["answer_start"][row].item(), tensors["answer_end"][row].item()
        right = []
        for half, place in enumerate(ends):
            chances = scores[row, places[row], half].log_softmax(0)
            wanted -= chances[places[row].index(place)].item() / 2
            right.append(places[row][int(chances.argmax())] == place)
        exact += all(right)
    loss = only(network(tensors))
    assert (loss.count, loss.total.item()) == (4, pytest.approx(wanted, rel=1e-5))
    assert loss.figures["exact"].item() == exact


def test_a_row_that_lacks_one_end_has_no_label():
    network, tensors = built("encoder", heads={"span": {}}).eval(), full_batch()
    tensors["answer_end"][0] = -100
    assert only(network(tensors)).count == 3


def test_a_row_without_allowed_places_leaves_the_gradient_finite():
    network, tensors = built("encoder", heads={"span": {}}), full_batch()
    tensors["answer_places"][2] = False
    only(network(tensors)).total.backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())
