"""Decoder inputs of rows that end with a language token: those of transformers' mBART, and its loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers.models.mbart.modeling_mbart import shift_tokens_right

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.labels import TARGET_END, build_target_rows, dense_labels
from tests.model.checkpoints.published import saved
from tests.shard_sets import roles_of

PAD, EOS, FIRST, LANGUAGES = 1, 2, 4, (30, 31, 32)
SPECIAL = {"pad": PAD, "eos": EOS}


def columns(rows: int, seed: int) -> dict[str, Ragged]:
    """Sources and targets of other lengths, which end with the end token and the language of the row."""
    random = np.random.RandomState(seed)
    ends = [[EOS, LANGUAGES[random.randint(3)]] for _ in range(rows)]
    return {
        name: Ragged.from_lists([[*random.randint(FIRST, 30, random.randint(1, 9)), *end] for end in ends], np.uint16)
        for name in ("input_ids", "target_ids")
    }


@pytest.mark.parametrize("rows", [1, 7])
def test_decoder_inputs_are_those_of_mbart(rows: int) -> None:
    for seed in range(20):
        lists = columns(rows, seed)
        tensors = Collate("encoder_decoder", roles_of(lists), SPECIAL, decoder_start="target_end")(lists, None)
        width = int(lists["target_ids"].lengths.max())
        targets = torch.full((rows, width), PAD)
        for row in range(rows):
            found = torch.from_numpy(lists["target_ids"][row].astype(np.int64))
            targets[row, : len(found)] = found
        # transformers leaves the end of shorter rows in place; ours is padding, which has no label
        wanted = shift_tokens_right(targets, PAD)
        wanted[targets == PAD] = PAD
        assert tensors["decoder_input_ids"].tolist() == wanted.tolist()
        assert tensors["label_ids"].tolist() == targets[targets != PAD].tolist()
        assert set(tensors["decoder_input_ids"][:, 0].tolist()) <= set(LANGUAGES)


def test_the_loss_is_that_of_mbart(tmp_path: Path) -> None:
    """transformers makes the decoder inputs itself, from the labels of our batch."""
    theirs = saved(tmp_path, "mbart").eval()
    ours = build_checkpoint(read_checkpoint(tmp_path)).eval()
    special = {**SPECIAL, "pad": theirs.config.pad_token_id}
    lists = columns(5, 3)
    tensors = Collate("encoder_decoder", roles_of(lists), special, decoder_start="target_end")(lists, None)
    dense = dense_labels(tensors)
    with torch.no_grad():
        (loss,) = ours(tensors).values()
        wanted = theirs(**{name: dense[name] for name in ("input_ids", "attention_mask", "labels")}).loss
    assert abs(float(loss.total / loss.count - wanted)) < 1e-5


def test_rows_of_two_sets_start_as_their_sets_say() -> None:
    targets = {"target_ids": Ragged.from_lists([[8, 9, EOS, 31], [8, EOS], []], np.uint16)}
    begin = np.array([TARGET_END, 6, TARGET_END])
    found = build_target_rows(targets, {}, begin, PAD, apart=False)["decoder_input_ids"]
    assert found.tolist() == [[31, 8, 9, EOS], [6, 8, PAD, PAD], [PAD] * 4]


def test_masked_rows_have_no_target_to_start_with() -> None:
    masked = ["input_ids", "label_positions", "label_ids"]
    with pytest.raises(ConfigurationError, match="target_ids"):
        Collate("encoder_decoder", roles_of(masked), {**SPECIAL, "mask": 3}, decoder_start="target_end")
