from dataclasses import replace

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, rows, saved
from tests.model.closeness import assert_gradients_close, gradients


def options(draw, found):
    groups = draw.choice([1, found["num_hidden_layers"]])
    return {"num_hidden_groups": groups, "inner_group_num": draw.choice([1, 2])}


@pytest.mark.parametrize(("layers", "groups", "inner"), [(1, 1, 1), (5, 2, 1), (4, 2, 2), (3, 1, 3)])
def test_groups_of_layers(tmp_path, layers, groups, inner):
    """`num_hidden_layers` counts how many groups follow each other; each has `inner_group_num` layers."""
    sizes = {"num_hidden_layers": layers, "num_hidden_groups": groups, "inner_group_num": inner}
    theirs = saved(tmp_path, "albert", hidden_size=12, num_attention_heads=3, **sizes)
    checkpoint = read_checkpoint(tmp_path)
    model = build_checkpoint(checkpoint)
    assert checkpoint.config.layers == layers * inner
    assert len(model.family.stack.layers) == groups * inner
    assert model.num_parameters() == theirs.num_parameters()
    assert difference(model, theirs) < 1e-5
    written = export_checkpoint(checkpoint).config
    assert {key: written[key] for key in sizes} == sizes


def test_both_losses_and_their_gradients(tmp_path):
    """Sums over labels and over rows, divided by their counts, are transformers' loss; so are all gradients."""
    sizes = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 3}
    theirs = saved(tmp_path, "albert masked_lm+sentence", **sizes).double()
    ours, their, valid = rows(theirs)
    ours |= {"label_index": torch.tensor([0, 4, 13]), "label_ids": torch.tensor([5, 36, 9])}
    ours |= {"sentence_label": torch.tensor([1, 0]), "row_weight": torch.ones(2)}
    labels = torch.full_like(valid, -100, dtype=torch.int64)
    labels.view(-1)[ours["label_index"]] = ours["label_ids"]
    expected = theirs(**their, labels=labels, sentence_order_label=ours["sentence_label"])
    expected.loss.backward()
    checkpoint = read_checkpoint(tmp_path)
    model = build_checkpoint(checkpoint).double()
    losses = model(ours)
    assert (losses["masked_lm"].count, losses["sentence"].count) == (3, 2)
    loss = sum(loss.total / loss.count for loss in losses.values())
    assert loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)
    loss.backward()
    found = export_checkpoint(replace(checkpoint, tensors=gradients(model))).tensors
    expected = gradients(theirs)
    assert_gradients_close({name: found[name] for name in expected}, expected)


def test_a_table_as_wide_as_the_layers_is_refused(tmp_path):
    saved(tmp_path, "albert", hidden_size=12, num_attention_heads=3, embedding_size=12)
    with pytest.raises(ConfigurationError, match="embedding_size: expected another width than hidden_size 12"):
        read_checkpoint(tmp_path)


def test_defaults_of_old_files_are_those_of_the_class(tmp_path):
    sizes = {"num_hidden_groups": 1, "inner_group_num": 1, "layer_norm_eps": 1e-12, "type_vocab_size": 2}
    theirs = saved(tmp_path, "albert", hidden_act="gelu_new", **sizes)
    edit_config(tmp_path, hidden_act=None, tie_word_embeddings=None, **dict.fromkeys(sizes))
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5
