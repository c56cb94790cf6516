"""Classes of places against transformers' BERT, and against loops."""

import pytest
import torch
import transformers

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head import HeadConfig
from clozeline.model.configuration.model_config import ModelConfig
from tests.model.heads.head_peers import BERT, peers
from tests.model.heads.test_classification import OURS, THEIRS
from tests.model.small_models import VOCABULARY, built, full_batch, only

SMALL = {"classes": VOCABULARY}

NAMES = [*BERT, (r"heads\.tagging\.classifier\.out", "classifier")]


def test_scores_losses_and_gradients_equal():
    theirs = transformers.BertForTokenClassification(transformers.BertConfig(**THEIRS))
    models = peers(ModelConfig(**OURS, heads={"tagging": {"classes": 3}}), theirs, NAMES)
    tensors = full_batch()
    tensors |= {"row_weight": torch.ones(6), "label_ids": tensors["label_ids"] % 3}
    mask = (torch.arange(11) < tensors["lengths"][:, None]).long()
    labels = torch.full((6, 11), -100)
    labels.view(-1)[tensors["label_index"]] = tensors["label_ids"]
    found = models.theirs(input_ids=tensors["input_ids"], attention_mask=mask, labels=labels)
    assert (models.ours.logits(tensors)["tagging"] - found.logits)[mask.bool()].abs().max() < 1e-5
    loss = only(models.ours(tensors))
    assert (loss.total / loss.count).item() == pytest.approx(found.loss.item(), rel=1e-5)
    (loss.total / loss.count).backward()
    found.loss.backward()
    models.compare_gradients()


@pytest.mark.parametrize("normalise", ["label", "row"])
def test_the_accuracy_is_that_of_labels_in_rows_with_weight(normalise):
    network = built("encoder", heads={"tagging": HeadConfig(classes=3, normalise=normalise)}).eval()
    tensors = full_batch()
    tensors["label_ids"] = tensors["label_ids"] % 3
    predicted = network.logits(tensors)["tagging"].flatten(0, 1).argmax(-1)[tensors["label_index"]]
    by_row = {}
    for place, right in zip(tensors["label_index"].tolist(), (predicted == tensors["label_ids"]).tolist(), strict=True):
        by_row.setdefault(place // 11, []).append(right)
    del by_row[5]
    wanted = sum(sum(row) / (len(row) if normalise == "row" else 1) for row in by_row.values())
    loss = only(network(tensors))
    assert loss.count == (5 if normalise == "row" else sum(map(len, by_row.values())))
    assert loss.figures["accuracy"].item() == pytest.approx(wanted)


def test_classes_have_to_be_known():
    with pytest.raises(ConfigurationError, match=r"model.heads.tagging.classes: expected 2 or more, got none"):
        built("encoder", heads={"tagging": {}})
