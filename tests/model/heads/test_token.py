"""Replaced-token detection against transformers' ELECTRA, with random weights in every parameter."""

import pytest
import torch
import transformers

from clozeline.model.build import Model, build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from tests.model.heads.head_peers import BERT, PLACES, VOCABULARY, peers
from tests.model.small_models import full_batch

PREDICTS_CLASSES = False

ELECTRA = [
    *((ours, theirs.replace("bert.", "electra.")) for ours, theirs in BERT),
    (r"family\.stack\.embeddings\.project", "electra.embeddings_project"),
    (r"heads\.token\.dense", "discriminator_predictions.dense"),
    (r"heads\.token\.classifier", "discriminator_predictions.dense_prediction"),
]


@pytest.mark.parametrize("embedding", [24, 10])
def test_scores_loss_and_gradients_equal(embedding):
    theirs = transformers.ElectraForPreTraining(
        transformers.ElectraConfig(
            vocab_size=VOCABULARY, embedding_size=embedding, hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=40, max_position_embeddings=PLACES, pad_token_id=0, attn_implementation="eager",
        )
    )  # fmt: skip
    ours = ModelConfig(
        family="encoder", dim=24, layers=2, attention_heads=4, ffn_dim=40, type_vocab_size=2, eps=1e-12,
        emb_dim=embedding, norm_place="post", final_norm=False, emb_norm=True, position=PositionConfig(maximum=PLACES),
        heads={"token": 1.0},
    )  # fmt: skip
    models, tensors = peers(ours, theirs, ELECTRA), full_batch()
    tensors["row_weight"] = torch.ones(6)
    mask = torch.arange(11) < tensors["lengths"][:, None]
    replaced = torch.zeros(6, 11)
    for index, label in zip(tensors["label_index"].tolist(), tensors["label_ids"].tolist(), strict=True):
        replaced[index // 11, index % 11] = tensors["input_ids"][index // 11, index % 11] != label
    assert 0 < replaced.sum() < len(tensors["label_ids"]), "some inputs are the original ids"
    found = models.theirs(input_ids=tensors["input_ids"], attention_mask=mask.long(), labels=replaced.long())
    scores = models.ours.logits(tensors)["token"].squeeze(-1)
    assert (scores - found.logits)[mask].abs().max() < 1e-5
    loss = models.ours(tensors)["token"]
    assert loss.count == int(mask.sum())
    assert (loss.total / loss.count).item() == pytest.approx(found.loss.item(), rel=1e-5)
    (loss.total / loss.count).backward()
    found.loss.backward()
    models.compare_gradients()


def test_rows_without_labels_are_not_judged():
    """A row of another objective in the same stream has no labels: its tokens are neither original nor replaced."""
    tensors = full_batch()
    of_first = tensors["label_index"] < 11
    some = tensors | {name: tensors[name][of_first] for name in ("label_index", "label_ids")}
    model = ModelConfig(family="encoder", dim=8, layers=1, attention_heads=2, ffn_dim=8, heads={"token": 1.0})
    head = Model(model, VOCABULARY).heads["token"]
    assert head.count(some) == 11
    assert head.count(tensors) == 11 + 8 + 11 + 3 + 9


@pytest.mark.parametrize("name", ["token", "corrective"])
def test_tokens_judged_rightly_are_counted_in_rows_with_labels_and_weight_alone(name):
    tensors = full_batch()
    config = ModelConfig(family="encoder", dim=8, layers=1, attention_heads=2, ffn_dim=8, heads={name: 1.0})
    head = build_model(config, VOCABULARY, {}).heads[name]
    hidden = torch.randn(6, 11, 8, generator=torch.Generator().manual_seed(2))
    deciding = head.logits if name == "token" else lambda states: -head.copy(states)  # above 0: another token
    labels = dict(zip(tensors["label_index"].tolist(), tensors["label_ids"].tolist(), strict=True))
    found = {"accuracy": 0, "replaced": 0}
    for row, (length, weight) in enumerate(
        zip(tensors["lengths"].tolist(), tensors["row_weight"].tolist(), strict=True)
    ):
        for place in range(length if weight else 0):
            token = tensors["input_ids"][row, place].item()
            other = labels.get(row * 11 + place, token) != token
            found["replaced"] += other
            found["accuracy"] += (deciding(hidden[row, place]).item() > 0) == other
    assert {key: total.item() for key, total in head.figures(hidden, tensors).items()} == found
