"""MobileBERT: neighbors, documents, and losses and gradients of transformers' class for pretraining."""

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from clozeline.model.checkpoints._conversion.tensor_layouts import to_ours
from clozeline.model.checkpoints.mobilebert import MobileBert
from tests.model.checkpoints.published import VOCABULARY, saved
from tests.model.closeness import assert_gradients_close, gradients
from tests.model.small_models import batch_for, built, changed, states

SMALL = {
    "norm_place": "post",
    "final_norm": False,
    "emb_norm": True,
    "type_vocab_size": 2,
    "activation": "relu",
    "bottleneck_dim": 12,
    "feed_forwards": 2,
    "heads": {"masked_lm": 1.0},
}

CLOSE = 1e-9
BODIES = {
    "as published": {"normalization_type": "no_norm", "use_bottleneck_attention": False},
    "narrow values": {"normalization_type": "no_norm", "use_bottleneck_attention": True},
    "layer norms": {"normalization_type": "layer_norm", "use_bottleneck_attention": False},
}


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_states_scores_losses_and_gradients_are_those_of_transformers(body, layers, tmp_path):
    shared = not body["use_bottleneck_attention"]
    sizes = {"num_attention_heads": 3, "num_hidden_layers": layers, "hidden_size": 13, "embedding_size": 5}
    sizes |= {"intra_bottleneck_size": 6, "type_vocab_size": 2, "num_feedforward_networks": 3}
    sizes |= {"key_query_shared_bottleneck": shared}
    theirs = saved(tmp_path, "mobilebert masked_lm+sentence", **body, **sizes).double()
    ours = build_checkpoint(read_checkpoint(tmp_path)).double()  # states without norms are large: fp32 rounds them
    draw = torch.Generator().manual_seed(1)
    lengths, places = torch.tensor([11, 1, 6]), torch.arange(11).expand(3, 11)
    valid = places < lengths[:, None]
    ids = torch.randint(4, VOCABULARY, (3, 11), generator=draw).masked_fill(~valid, 0)
    labels = torch.randint(4, VOCABULARY, (3, 11), generator=draw)
    labeled = valid & (torch.rand((3, 11), generator=draw) < 0.5)
    types = torch.randint(0, 2, (3, 11), generator=draw)
    tensors = {"input_ids": ids, "position_ids": places, "lengths": lengths, "type_ids": types}
    found = theirs(
        input_ids=ids, attention_mask=valid.long(), token_type_ids=types, output_hidden_states=True,
        labels=labels.masked_fill(~labeled, -100), next_sentence_label=torch.tensor([0, 1, 1]),
    )  # fmt: skip
    with torch.no_grad():
        scores = ours.logits(tensors)
        assert (ours.family(tensors) - found.hidden_states[-1])[valid].abs().max() < CLOSE
    assert (scores["masked_lm"] - found.prediction_logits)[valid].abs().max() < CLOSE
    assert (scores["sentence"] - found.seq_relationship_logits).abs().max() < CLOSE
    tensors |= {"label_index": labeled.flatten().nonzero().squeeze(1), "label_ids": labels[labeled]}
    tensors |= {"row_weight": torch.ones(3), "sentence_label": torch.tensor([0, 1, 1])}
    losses = ours(tensors)
    assert losses["masked_lm"].count == int(labeled.sum())
    loss = sum(head.total / head.count for head in losses.values())
    assert loss.item() == pytest.approx(found.loss.item(), rel=1e-5)
    loss.backward()
    found.loss.backward()
    own = gradients(ours)
    assert_gradients_close(own, to_ours(MobileBert(), ours.config, gradients(theirs), own))


def test_packed_documents_read_nothing_of_each_other():
    network = built("mobilebert")
    tensors = batch_for("mobilebert", lengths=[11])
    tensors["document_ids"] = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2]])
    before = states(network, tensors)[0]
    for place in range(11):
        same = (before == states(network, changed(tensors, "input_ids", 0, place))[0]).all(-1)
        assert same.tolist() == (tensors["document_ids"][0] != tensors["document_ids"][0, place]).tolist()


def test_rows_in_one_direction_are_refused():
    tensors = batch_for("mobilebert") | {"attention": torch.tensor([0, 1, 2, 3]), "prefix_length": torch.ones(4)}
    with pytest.raises(BatchError, match="reads both neighbors of a token"):
        built("mobilebert")(tensors)
