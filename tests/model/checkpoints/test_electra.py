from dataclasses import replace

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, rows, saved
from tests.model.closeness import assert_gradients_close, gradients


def options(draw, found):
    return {"embedding_size": draw.choice([5, found["hidden_size"]]), "type_vocab_size": 2}


@pytest.mark.parametrize("case", ["electra", "electra token"])
def test_loss_and_gradients(tmp_path, case):
    theirs = saved(tmp_path, case, embedding_size=5).double()
    ours, their, valid = rows(theirs)
    index = torch.tensor([0, 4, 13])
    ours |= {"label_index": index, "label_ids": torch.tensor([5, 36, 9]), "row_weight": torch.ones(2)}
    ours["input_ids"].view(-1)[4] = 36  # one label is the token that is there
    labels = torch.full_like(valid, -100, dtype=torch.int64)
    if case == "electra":
        labels.view(-1)[index] = ours["label_ids"]
    else:
        labels = torch.zeros_like(labels)
        labels.view(-1)[index[[0, 2]]] = 1
    expected = theirs(**their, labels=labels).loss
    expected.backward()
    checkpoint = read_checkpoint(tmp_path)
    model = build_checkpoint(checkpoint).double()
    (loss,) = model(ours).values()
    assert loss.count == (3 if case == "electra" else int(valid.sum()))
    assert (loss.total / loss.count).item() == pytest.approx(expected.item(), rel=1e-5)
    (loss.total / loss.count).backward()
    found = export_checkpoint(replace(checkpoint, tensors=gradients(model))).tensors
    expected = gradients(theirs)
    assert_gradients_close({name: found[name] for name in expected}, expected)


def test_a_generator_with_another_activation_is_refused(tmp_path):
    """Its head would keep the exact GELU."""
    saved(tmp_path, "electra", hidden_act="relu")
    with pytest.raises(ConfigurationError, match="hidden_act: expected one of gelu, got 'relu'"):
        read_checkpoint(tmp_path)


def test_defaults_of_old_files_are_those_of_the_class(tmp_path):
    theirs = saved(tmp_path, "electra", embedding_size=128, layer_norm_eps=1e-12, tie_word_embeddings=True)
    keys = ("embedding_size", "hidden_act", "layer_norm_eps", "type_vocab_size", "tie_word_embeddings")
    edit_config(tmp_path, **dict.fromkeys(keys))
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5
