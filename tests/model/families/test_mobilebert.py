"""MobileBERT: neighbors, documents, positions.

Its losses are compared with transformers' in the checkpoints.
"""

import pytest
import torch

from clozeline.errors import BatchError
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


def test_packed_documents_read_nothing_of_each_other():
    network = built("mobilebert")
    tensors = batch_for("mobilebert", lengths=[11])
    tensors["document_ids"] = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2]])
    before = states(network, tensors)[0]

    for place in range(11):
        same = (before == states(network, changed(tensors, "input_ids", 0, place))[0]).all(-1)
        assert (
            same.tolist()
            == (tensors["document_ids"][0] != tensors["document_ids"][0, place]).tolist()
        )


def test_rows_in_one_direction_are_refused():
    tensors = batch_for("mobilebert") | {
        "attention": torch.tensor([0, 1, 2, 3]),
        "prefix_length": torch.ones(4),
    }
    with pytest.raises(BatchError, match="reads both neighbors of a token"):
        built("mobilebert")(tensors)
