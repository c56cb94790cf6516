"""Published encoders beyond the logits of a row: losses and gradients; the second export of every type."""

import pytest
import torch
from torch.nn import functional as F

from clozeline.model.checkpoints import build_checkpoint, map_of_type, read_checkpoint
from clozeline.model.checkpoints._conversion.tensor_layouts import to_ours
from tests.model.checkpoints.published import TYPES, VOCABULARY, saved
from tests.model.closeness import FLOAT32, assert_gradients_close, gradients

MASKED = [
    name
    for name in TYPES
    if map_of_type(name).heads == ("masked_lm",) and map_of_type(name).fixed["family"] == "encoder" and name != "xlm"
]
"""without XLM, whose rows have languages"""


@pytest.mark.parametrize("model_type", MASKED)
def test_the_loss_and_its_gradients_are_theirs(model_type, tmp_path):
    theirs = saved(tmp_path, model_type)
    model, key_map = build_checkpoint(read_checkpoint(tmp_path)), map_of_type(model_type)
    ids = torch.randint(4, VOCABULARY, (2, 13), generator=torch.Generator().manual_seed(1))
    places, index = torch.arange(13), torch.tensor([0, 2, 11, 14, 19])
    ours = {"input_ids": ids, "position_ids": places[None], "lengths": torch.tensor([13, 7]), "label_index": index}
    ours |= {"label_ids": ids.flatten()[index + 1], "row_weight": torch.ones(2)}
    loss = model(ours)["masked_lm"].total
    logits = theirs(input_ids=ids, attention_mask=(places < ours["lengths"][:, None]).long()).logits
    wanted = F.cross_entropy(logits.flatten(0, 1)[index], ours["label_ids"], reduction="sum")
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)
    loss.backward()
    wanted.backward()
    found, their = gradients(model), {name: value for name, value in gradients(theirs).items() if value is not None}
    names = {target.name: name for name, target in key_map.targets(model.config, found).items()}
    bias = {names[name]: name for name in names if name not in their}  # a bias of the scores that has two names
    assert all(name.startswith("heads.masked_lm.projection.") for name in bias)
    kept = {name: value for name, value in found.items() if name not in bias}
    assert_gradients_close(kept, to_ours(key_map, model.config, their, kept), FLOAT32)
