import torch

from clozeline.model.checkpoints import export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import saved


def test_norms_by_name(tmp_path):
    """Before attention, before the feed-forward block, and after the last layer; none after the embeddings."""
    theirs = saved(tmp_path, "megatron-bert", num_hidden_layers=2)
    tensors = read_checkpoint(tmp_path).tensors
    places = {
        "family.stack.layers.1.attention.norm.weight": theirs.bert.encoder.layer[1].attention.ln.weight,
        "family.stack.layers.1.feed_forward.norm.weight": theirs.bert.encoder.layer[1].ln.weight,
        "family.stack.norm.weight": theirs.bert.encoder.ln.weight,
    }
    assert all(torch.equal(tensors[name], weight) for name, weight in places.items())
    assert not any("embeddings.norm" in name for name in tensors)
    names = export_checkpoint(read_checkpoint(tmp_path)).tensors.keys()
    assert "bert.encoder.ln.weight" in names
