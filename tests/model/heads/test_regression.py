"""Numbers of rows against transformers' BERT, and against loops."""

import math

import pytest
import torch
import transformers

from clozeline.model.configuration.model_config import ModelConfig
from tests.model.heads.head_peers import peers
from tests.model.heads.test_classification import NAMES, OURS, THEIRS
from tests.model.small_models import batch_for, built, full_batch, only

SMALL = {"pool": "mean"}
PREDICTS_CLASSES = False

NAN = float("nan")


def test_scores_and_losses_equal():
    settings = transformers.BertConfig(**THEIRS | {"num_labels": 1}, problem_type="regression")
    renames = [(pattern.replace("classification", "regression"), theirs) for pattern, theirs in NAMES]
    config = ModelConfig(**OURS, heads={"regression": {"hidden": "tanh"}})
    models = peers(config, transformers.BertForSequenceClassification(settings), renames)
    tensors = full_batch()
    tensors |= {"row_weight": torch.ones(6), "target": torch.tensor([0.0, 5.0, 2.5, 1.2, 3.3, 4.0])}
    mask = (torch.arange(11) < tensors["lengths"][:, None]).long()
    found = models.theirs(input_ids=tensors["input_ids"], attention_mask=mask, labels=tensors["target"])
    scores = models.ours.logits(tensors)["regression"]
    assert scores.shape == (6,)
    assert (scores - found.logits[:, 0]).abs().max() < 1e-5
    loss = only(models.ours(tensors))
    assert (loss.total / loss.count).item() == pytest.approx(found.loss.item(), rel=1e-5)


@pytest.mark.parametrize("output", ["identity", "sigmoid"])
def test_the_loss_is_the_squared_error_of_rows_with_weight_and_target(output):
    options = {"output": output, "range": [1.0, 5.0]} if output == "sigmoid" else {}
    network = built("encoder", heads={"regression": options}).eval()
    torch.nn.init.normal_(network.heads["regression"].classifier.out.weight)
    tensors = full_batch()
    found = network.logits(tensors)["regression"].tolist()
    wanted = 0.0
    for row in (0, 1, 3, 4):
        error = found[row] - tensors["target"][row].item()
        wanted += (error / 4) ** 2 if output == "sigmoid" else error**2
    loss = only(network(tensors))
    assert (loss.count, loss.total.item()) == (4, pytest.approx(wanted, rel=1e-4))


def test_a_sigmoid_maps_scores_into_the_range():
    network = built("encoder", heads={"regression": {"output": "sigmoid", "range": [1.0, 5.0]}}).eval()
    out = network.heads["regression"].classifier.out
    for score, number in ((0.0, 3.0), (100.0, 5.0), (-100.0, 1.0), (math.log(3), 4.0)):
        with torch.no_grad():
            out.weight.zero_()
            out.bias.fill_(score)
        assert network.logits(full_batch())["regression"].tolist() == pytest.approx([number] * 6)


def test_a_range_has_a_lower_end_and_a_higher_one():
    with pytest.raises(ValueError, match="range: expected a lower number before a higher one"):
        built("encoder", heads={"regression": {"output": "sigmoid", "range": [5.0, 1.0]}})


def test_a_number_in_the_row_is_read():
    """Errors of a row against the targets of all rows would fall a little, and correlate with nothing."""
    network = built("encoder", heads={"regression": {"pool": "mean"}})
    draw = torch.Generator().manual_seed(4)
    tensors = batch_for("encoder", lengths=[6] * 64)
    digit = torch.randint(1, 6, (64,), generator=draw)
    tensors["input_ids"] = torch.full((64, 11), 20).masked_fill(torch.arange(11) >= 6, 0)
    tensors["input_ids"][:, 2] = digit
    tensors["target"] = digit.float()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    for _ in range(150):
        loss = only(network(tensors))
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    found = network.eval().logits(tensors)["regression"].detach()
    assert torch.corrcoef(torch.stack((found, tensors["target"])))[0, 1] > 0.99
