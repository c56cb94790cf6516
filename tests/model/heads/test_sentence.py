"""The classes of segment pairs beside masked LM, against transformers, with random weights in every parameter."""

import pytest
import torch
import transformers

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from tests.model.heads.head_peers import BERT, PLACES, VOCABULARY, peers
from tests.model.small_models import full_batch

CLOSE = 1e-5
SHARED = {
    "family": "encoder", "dim": 24, "layers": 1, "attention_heads": 4, "ffn_dim": 40, "type_vocab_size": 2,
    "eps": 1e-12, "norm_place": "post", "final_norm": False, "emb_norm": True,
    "position": PositionConfig(maximum=PLACES), "heads": {"masked_lm": 1.0, "sentence": 1.0},
}  # fmt: skip
THEIRS = {
    "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4,
    "intermediate_size": 40, "max_position_embeddings": PLACES, "pad_token_id": 0, "attn_implementation": "eager",
}  # fmt: skip
ALBERT = [
    (r"family\.tokens", "albert.embeddings.word_embeddings"),
    (r"family\.stack\.position\.table", "albert.embeddings.position_embeddings"),
    (r"family\.stack\.embeddings\.types", "albert.embeddings.token_type_embeddings"),
    (r"family\.stack\.embeddings\.norm", "albert.embeddings.LayerNorm"),
    (r"family\.stack\.embeddings\.project", "albert.encoder.embedding_hidden_mapping_in"),
    (r"family\.stack\.layers\.0", "albert.encoder.albert_layer_groups.0.albert_layers.0"),
    (r"attention\.body\.out", "attention.dense"),
    (r"attention\.body", "attention"),
    (r"attention\.norm", "attention.LayerNorm"),
    (r"feed_forward\.body\.up", "ffn"),
    (r"feed_forward\.body\.down", "ffn_output"),
    (r"feed_forward\.norm", "full_layer_layer_norm"),
    (r"heads\.masked_lm\.transform", "predictions.dense"),
    (r"heads\.masked_lm\.norm", "predictions.LayerNorm"),
    (r"heads\.masked_lm\.projection\.bias", "predictions.bias"),
    (r"heads\.sentence\.pooler\.dense", "albert.pooler"),
    (r"heads\.sentence\.classifier", "sop_classifier.classifier"),
]


def bert():
    theirs = transformers.BertForPreTraining(transformers.BertConfig(**THEIRS))
    return peers(ModelConfig(**SHARED), theirs, BERT), "seq_relationship_logits", "next_sentence_label"


def albert():
    theirs = transformers.AlbertForPreTraining(transformers.AlbertConfig(**THEIRS, embedding_size=10))
    ours = ModelConfig(**SHARED | {"emb_dim": 10, "activation": "gelu_tanh"})
    return peers(ours, theirs, ALBERT), "sop_logits", "sentence_order_label"


@pytest.mark.parametrize("peer", [bert, albert])
def test_scores_losses_and_gradients_equal(peer):
    """The joint loss of the peer is the sum of both means, each over its own count."""
    models, name, label = peer()
    tensors = full_batch()
    tensors["row_weight"] = torch.ones(6)
    tensors["sentence_label"] = torch.tensor([0, 1, 1, 0, 1, 1])
    places = torch.arange(11).expand(6, 11)
    labels = torch.full((6, 11), -100)
    labels.view(-1)[tensors["label_index"]] = tensors["label_ids"]
    inputs = {"input_ids": tensors["input_ids"], "attention_mask": (places < tensors["lengths"][:, None]).long()}
    inputs["token_type_ids"] = tensors["type_ids"] = (places > 3).long()
    found = models.theirs(**inputs, labels=labels, **{label: tensors["sentence_label"]})
    scores = models.ours.logits(tensors)
    assert (scores["sentence"] - found[name]).abs().max() < CLOSE
    valid = inputs["attention_mask"].bool()
    assert (scores["masked_lm"] - found.prediction_logits)[valid].abs().max() < CLOSE
    losses = models.ours(tensors)
    assert losses["sentence"].count == 6
    total = sum(loss.total / loss.count for loss in losses.values())
    assert total.item() == pytest.approx(found.loss.item(), rel=1e-5)
    total.backward()
    found.loss.backward()
    models.compare_gradients()
