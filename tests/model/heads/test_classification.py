"""Classes of rows against transformers' BERT and RoBERTa kinds, and against loops."""

import math

import pytest
import torch
import transformers

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.configuration.layer import InitConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from tests.model.heads.head_peers import BERT, PLACES, VOCABULARY, peers
from tests.model.small_models import batch_for, built, full_batch, only

SMALL = {"classes": 3, "hidden": "tanh"}

OURS = {
    "family": "encoder", "dim": 24, "layers": 1, "attention_heads": 3, "ffn_dim": 40, "type_vocab_size": 2,
    "eps": 1e-12, "norm_place": "post", "final_norm": False, "emb_norm": True,
    "position": PositionConfig(maximum=PLACES),
}  # fmt: skip
THEIRS = {
    "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3,
    "intermediate_size": 40, "max_position_embeddings": PLACES, "pad_token_id": 0, "attn_implementation": "eager",
    "num_labels": 3,
}  # fmt: skip
NAMES = [
    *BERT,
    (r"heads\.classification\.classifier\.dense", "bert.pooler.dense"),
    (r"heads\.classification\.classifier\.out", "classifier"),
]


def pair(problem, **options):
    theirs = transformers.BertForSequenceClassification(transformers.BertConfig(**THEIRS, problem_type=problem))
    heads = {"classification": {"classes": 3, "hidden": "tanh", **options}}
    return peers(ModelConfig(**OURS, heads=heads), theirs, NAMES)


@pytest.mark.parametrize(
    ("problem", "options"),
    [("single_label_classification", {}), ("multi_label_classification", {"multi_label": True})],
    ids=["one class", "any number"],
)
def test_scores_losses_and_gradients_equal(problem, options):
    models, tensors = pair(problem, **options), full_batch()
    tensors["row_weight"] = torch.ones(6)
    tensors["label"] = torch.tensor([2, 0, 1, 1, 0, 2])
    if options:
        tensors["label"] = torch.tensor([[0, 1, 1], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0, 1], [1, 0, 1]])
    places = torch.arange(11).expand(6, 11)
    mask = (places < tensors["lengths"][:, None]).long()
    labels = tensors["label"].float() if options else tensors["label"]
    found = models.theirs(input_ids=tensors["input_ids"], attention_mask=mask, labels=labels)
    assert (models.ours.logits(tensors)["classification"] - found.logits).abs().max() < 1e-5
    loss = only(models.ours(tensors))
    assert loss.count == 6
    assert (loss.total / loss.count).item() == pytest.approx(found.loss.item(), rel=1e-5)
    (loss.total / loss.count).backward()
    found.loss.backward()
    models.compare_gradients()


def test_only_rows_with_weight_and_label_count():
    network, tensors = built("encoder", heads={"classification": {"classes": 3}}).eval(), full_batch()
    scores = network.logits(tensors)["classification"].log_softmax(-1)
    labels = tensors["label"].tolist()
    wanted = -sum(scores[row, labels[row]].item() for row in (0, 1, 3, 4))
    loss = only(network(tensors))
    assert (loss.count, loss.total.item()) == (4, pytest.approx(wanted, rel=1e-5))
    right = sum(int(scores[row].argmax()) == labels[row] for row in (0, 1, 3, 4))
    assert loss.figures["accuracy"].item() == right


def test_rows_without_labels_have_no_part_in_multi_label_losses():
    network = built("encoder", heads={"classification": {"classes": 3, "multi_label": True}}).eval()
    tensors = full_batch()
    tensors["label"] = torch.tensor([[0, 1, 1], [0, 0, 0], [-100] * 3, [1, 0, 0], [-100] * 3, [1, 0, 1]])
    chances = network.logits(tensors)["classification"].sigmoid()
    wanted = 0.0
    for row in (0, 1, 3):
        for chance, label in zip(chances[row].tolist(), tensors["label"][row].tolist(), strict=True):
            wanted -= math.log(chance if label else 1 - chance) / 3
    loss = only(network(tensors))
    assert (loss.count, loss.total.item()) == (3, pytest.approx(wanted, rel=1e-5))
    predicted = (chances > 0.5).long()
    assert loss.figures["accuracy"].item() == sum(
        torch.equal(predicted[row], tensors["label"][row]) for row in (0, 1, 3)
    )


def test_a_batch_of_filler_alone_has_no_multi_label_loss():
    network = built("encoder", heads={"classification": {"classes": 3, "multi_label": True}}).eval()
    loss = only(network(full_batch() | {"label": torch.full((6, 1), -100)}))
    assert (loss.count, loss.total.item()) == (0, 0.0)


@pytest.mark.parametrize("classes", [2, 3, 9])
def test_the_first_loss_is_that_of_chance(classes):
    network = built("encoder", heads={"classification": {"classes": classes}}).eval()
    tensors = batch_for("encoder", rows=64) | {"label": torch.arange(64) % classes}
    loss = only(network(tensors))
    assert loss.total.item() / loss.count == pytest.approx(math.log(classes), abs=0.05)


def test_thirty_two_rows_are_learned_by_heart():
    network = built("encoder", heads={"classification": {"classes": 3, "hidden": "tanh"}})
    draw = torch.Generator().manual_seed(4)
    tensors = batch_for("encoder", rows=32) | {"label": torch.randint(0, 3, (32,), generator=draw)}
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    for _ in range(200):
        loss = only(network(tensors))
        if loss.figures["accuracy"].item() == loss.count:
            break
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
    assert loss.figures["accuracy"].item() == 32


def pairs(count, seed, blank):
    """Two texts of three symbols of eight, and whether they begin with the same one; the second text may be blanked."""
    draw = torch.Generator().manual_seed(seed)
    texts = torch.randint(5, 13, (count, 2, 3), generator=draw)
    label = torch.arange(count) % 2
    other = texts[:, 0, 0] + torch.randint(1, 8, (count,), generator=draw)
    texts[:, 1, 0] = torch.where(label == 1, texts[:, 0, 0], 5 + (other - 5) % 8)
    second = torch.full_like(texts[:, 1], 3) if blank else texts[:, 1]
    cls, sep = torch.full((count, 1), 1), torch.full((count, 1), 2)
    ids = torch.cat((cls, texts[:, 0], sep, second, sep), dim=1)
    return {
        "input_ids": ids, "position_ids": torch.arange(9)[None], "lengths": torch.full((count,), 9), "label": label,
        "type_ids": torch.tensor([0] * 5 + [1] * 4).expand(count, 9), "row_weight": torch.ones(count),
    }  # fmt: skip


@pytest.mark.slow
def test_a_label_that_depends_on_both_texts_is_learned_from_both_alone():
    """Held-out pairs; without the second text there is nothing to know, and both segments have a gradient."""
    found = {}
    for blank in (False, True):
        heads = {"classification": {"classes": 2, "pool": "cls"}}
        network = built("encoder", dim=64, layers=2, attention_heads=4, ffn_dim=128, type_vocab_size=2, heads=heads,
                        init=InitConfig(std=0.1))  # fmt: skip
        optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
        for step in range(200):
            loss = only(network(pairs(64, step, blank)))
            optimizer.zero_grad()
            (loss.total / loss.count).backward()
            optimizer.step()
        types = next(one for name, one in network.named_parameters() if "types" in name)
        assert types.grad.abs().sum(1).min() > 0
        with torch.no_grad():
            judged = only(network.eval()(pairs(1000, 10**6, blank)))
        found[blank] = judged.figures["accuracy"].item() / 1000
    assert found[False] > 0.97
    assert 0.45 < found[True] < 0.55


@pytest.mark.parametrize(
    ("options", "found"),
    [({}, "2 or more, got none"), ({"classes": 1}, "2 or more, got 1"), ({"multi_label": True}, "1 or more, got none")],
    ids=["none", "one", "multi"],
)
def test_classes_have_to_be_known(options, found):
    with pytest.raises(ConfigurationError, match=rf"model.heads.classification.classes: expected {found}"):
        built("encoder", heads={"classification": options})


def test_names_of_classes_say_their_number():
    config = ModelConfig(**OURS, heads={"classification": {"labels": ["no", "yes"]}})
    assert Model(config, VOCABULARY).heads["classification"].classifier.out.out_features == 2
