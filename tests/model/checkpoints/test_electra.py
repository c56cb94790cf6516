from dataclasses import replace

import pytest
import torch

from model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from model.errors import ConfigurationError
from tests.model.checkpoints.published import difference, edit_config, rows, saved


@pytest.mark.parametrize("case", ["electra", "electra discriminator"])
def test_loss_and_gradients(tmp_path, case):
    theirs = saved(tmp_path, case, embedding_size=5)
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
    model = build_checkpoint(checkpoint)
    (loss,) = model(ours).values()
    assert loss.count == (3 if case == "electra" else int(valid.sum()))
    assert (loss.total / loss.count).item() == pytest.approx(expected.item(), rel=1e-5)
    (loss.total / loss.count).backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    found = export_checkpoint(replace(checkpoint, tensors=gradients)).tensors
    for name, parameter in theirs.named_parameters():
        assert torch.allclose(found[name], parameter.grad, rtol=1e-4, atol=1e-6), name


def test_a_generator_with_another_activation_is_refused(tmp_path):
    """Its head would keep the exact GELU."""
    saved(tmp_path, "electra", hidden_act="relu")
    with pytest.raises(ConfigurationError, match="hidden_act: expected one of gelu, got 'relu'"):
        read_checkpoint(tmp_path)


def test_defaults_of_old_files_are_those_of_the_class(tmp_path):
    theirs = saved(tmp_path, "electra", embedding_size=128, layer_norm_eps=1e-12)
    keys = ("embedding_size", "hidden_act", "layer_norm_eps", "type_vocab_size", "tie_word_embeddings")
    edit_config(tmp_path, **dict.fromkeys(keys))
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5
