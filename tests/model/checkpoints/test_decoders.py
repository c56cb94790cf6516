"""Published decoders beyond the logits of a row: losses, gradients, and continuations past every window."""

import pytest
import torch
from torch.nn import functional as F

from clozeline.model.checkpoints import build_checkpoint, map_of_type, read_checkpoint
from clozeline.model.checkpoints._conversion.tensor_layouts import to_ours
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from tests.matrices import mark_slow_but
from tests.model.checkpoints.published import TYPES, VOCABULARY, by_saved_names, saved
from tests.model.closeness import FLOAT32, assert_gradients_close, gradients

DECODERS = [name for name in TYPES if map_of_type(name).fixed["family"] == "decoder"]
SEEDS = mark_slow_but([0], range(4))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("model_type", DECODERS)
def test_the_loss_and_its_gradients_are_theirs(model_type, seed, tmp_path):
    theirs = saved(tmp_path, model_type, seed)
    model = build_checkpoint(read_checkpoint(tmp_path))
    ids = torch.randint(4, VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(seed))
    places, index = torch.arange(13), torch.tensor([0, 2, 11, 14, 19])
    ours = {"input_ids": ids, "position_ids": places[None], "lengths": torch.tensor([13, 7])}
    labels = {"label_index": index, "label_ids": ids.flatten()[index + 1], "row_weight": torch.ones(2)}
    loss = model(ours | labels)["lm"].total
    logits = theirs(input_ids=ids, attention_mask=(places < ours["lengths"][:, None]).long()).logits
    wanted = F.cross_entropy(logits.flatten(0, 1)[index], labels["label_ids"], reduction="sum")
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)
    loss.backward()
    wanted.backward()
    found = gradients(model)
    key_map = map_of_type(model_type)
    expected = to_ours(key_map, model.config, by_saved_names(key_map, gradients(theirs)), found)
    assert_gradients_close(found, expected, FLOAT32)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("model_type", DECODERS)
def test_it_continues_prompts_as_the_class_does(model_type, seed, tmp_path):
    """Ours with a cache, theirs without one: with a window of one token their cache keeps what lies before it.

    The prompts of three and of seven tokens are one batch of ours.
    """
    theirs, prompts = saved(tmp_path, model_type, seed), [[5, 6, 7], [9, 30, 11, 8, 20, 4, 17]]
    theirs.generation_config.eos_token_id = None
    found = generate(build_checkpoint(read_checkpoint(tmp_path)), prompts, Decoding(max_tokens=9))
    for prompt, continuation in zip(prompts, found, strict=True):
        expected = theirs.generate(torch.tensor([prompt]), max_new_tokens=9, do_sample=False, use_cache=False)
        assert [*prompt, *continuation.ids] == expected[0].tolist()
