"""Published encoder-decoders beyond the logits of a row: losses, gradients, and generation."""

import pytest
import torch
from torch.nn import functional as F

from clozeline.model.checkpoints import build_checkpoint, map_of_type, read_checkpoint
from clozeline.model.checkpoints._conversion.tensor_layouts import to_ours
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from tests.matrices import mark_slow_but
from tests.model.checkpoints.published import TYPES, VOCABULARY, saved
from tests.model.closeness import FLOAT32, assert_gradients_close, gradients

PAIRED = [name for name in TYPES if map_of_type(name).fixed["family"] == "encoder_decoder"]
SEEDS = mark_slow_but([0], range(4))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("model_type", PAIRED)
def test_the_loss_and_its_gradients_are_theirs(model_type, seed, tmp_path):
    theirs = saved(tmp_path, model_type, seed)
    model = build_checkpoint(read_checkpoint(tmp_path))
    draw, places = torch.Generator().manual_seed(seed), torch.arange(13)
    ids, target = (torch.randint(4, VOCABULARY - 1, (2, columns), generator=draw) for columns in (13, 8))
    index = torch.tensor([0, 2, 7, 9, 14])
    labels = torch.randint(4, VOCABULARY, (len(index),), generator=draw)
    ours = {"input_ids": ids, "position_ids": places[None], "lengths": torch.tensor([13, 6]),
            "row_weight": torch.ones(2), "decoder_input_ids": target, "decoder_position_ids": places[None, :8],
            "label_index": index, "label_ids": labels}  # fmt: skip
    loss = model(ours)["lm"].total
    valid = (places < ours["lengths"][:, None]).long()
    logits = theirs(input_ids=ids, attention_mask=valid, decoder_input_ids=target).logits
    wanted = F.cross_entropy(logits.flatten(0, 1)[index], labels, reduction="sum")
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)
    loss.backward()
    wanted.backward()
    found = gradients(model)
    assert all(gradient is not None for gradient in found.values())
    their = {name: value for name, value in gradients(theirs).items() if value is not None}
    known = {name for name, t in map_of_type(model_type).targets(model.config, found).items() if t.name in their}
    assert found.keys() - known <= {"heads.lm.projection.bias"}  # a buffer in their class
    expected = to_ours(map_of_type(model_type), model.config, their, known)
    assert_gradients_close({name: found[name] for name in known}, expected, FLOAT32)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("model_type", PAIRED)
def test_it_generates_what_the_class_does(model_type, seed, tmp_path):
    theirs = saved(tmp_path, model_type, seed)
    settings = theirs.generation_config
    settings.eos_token_id = settings.forced_eos_token_id = settings.forced_bos_token_id = None
    model, start = build_checkpoint(read_checkpoint(tmp_path)), theirs.config.decoder_start_token_id
    rows = [[5, 6, 7], [9, 30, 11, 8, 20, 4, 17]]
    found = generate(model, rows, Decoding(max_tokens=9), decoder_start=start)
    for row, continuation in zip(rows, found, strict=True):
        expected = theirs.generate(torch.tensor([row]), max_new_tokens=9, do_sample=False, use_cache=False)
        assert [start, *continuation.ids] == expected[0].tolist()
