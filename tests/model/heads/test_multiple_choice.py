"""Choices against transformers' BERT, and against loops."""

import pytest
import torch
import transformers

from clozeline.model.configuration.model_config import ModelConfig
from tests.model.heads.head_peers import peers
from tests.model.heads.test_classification import NAMES, OURS, THEIRS
from tests.model.small_models import batch_for, built, choice_batch, only, rows_of

SMALL = {"hidden": "tanh"}


def drawn():
    network = built("encoder", heads={"multiple_choice": {}}).eval()
    torch.nn.init.normal_(network.heads["multiple_choice"].classifier.out.weight)
    return network


def test_scores_and_losses_equal():
    renames = [(pattern.replace("classification", "multiple_choice"), theirs) for pattern, theirs in NAMES]
    config = ModelConfig(**OURS, heads={"multiple_choice": {"hidden": "tanh"}})
    models = peers(config, transformers.BertForMultipleChoice(transformers.BertConfig(**THEIRS)), renames)
    tensors = batch_for("encoder", rows=12)
    tensors |= {"choices": torch.tensor([3] * 4), "label": torch.tensor([2, 0, 1, 1]), "row_weight": torch.ones(4)}
    mask = (torch.arange(11) < tensors["lengths"][:, None]).long()
    inputs = {"input_ids": tensors["input_ids"], "attention_mask": mask}
    found = models.theirs(**{name: value.view(4, 3, 11) for name, value in inputs.items()}, labels=tensors["label"])
    assert (models.ours.logits(tensors)["multiple_choice"] - found.logits).abs().max() < 1e-5
    loss = only(models.ours(tensors))
    assert (loss.total / loss.count).item() == pytest.approx(found.loss.item(), rel=1e-5)


def test_an_example_has_the_scores_of_its_rows_in_their_order():
    network, tensors = drawn(), choice_batch()
    found, first = network.logits(tensors)["multiple_choice"], 0
    assert found.shape == (6, 4)
    wanted = 0.0
    for example, count in enumerate(tensors["choices"].tolist()):
        alone = []
        for row in range(first, first + count):
            text = {name: tensors[name][row : row + 1] for name in ("input_ids", "position_ids", "lengths")}
            alone.append(network.logits(text | {"choices": torch.tensor([1])})["multiple_choice"].item())
        assert found[example, :count].tolist() == pytest.approx(alone, abs=1e-5)
        assert found[example, count:].tolist() == [-torch.inf] * (4 - count)
        if example not in (2, 5):
            wanted -= torch.tensor(alone).log_softmax(0)[tensors["label"][example]].item()
        first += count
    loss = only(network(tensors))
    assert (loss.count, loss.total.item()) == (4, pytest.approx(wanted, rel=1e-4))
    labels = tensors["label"].masked_fill(tensors["row_weight"] == 0, -100)
    assert loss.figures["accuracy"].item() == (found.argmax(-1) == labels).sum()


def test_choices_change_places_with_their_scores():
    network, tensors = drawn(), rows_of(choice_batch(), slice(3, 4))
    order = torch.tensor([2, 0, 3, 1])
    turned = {name: value[order] if len(value) == 4 else value for name, value in tensors.items()}
    found = [network.logits(batch)["multiple_choice"][0] for batch in (tensors, turned)]
    assert torch.equal(found[0][order], found[1])
