"""Sample what the model predicts on a few held-out rows, and how it continues them, for the page of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.loss import IGNORED
from clozeline.train.engine import Engine, wide_ids

# Rows, tokens of a row, and labels of it that are recorded.
_ROWS: Final = 3
_TOKENS: Final = 96
_LABELS: Final = 48
# Tokens of a row that a decoder continues, and of its continuation.
_PROMPT: Final = 16
_CONTINUATION: Final = 32
_HEADS: Final = {"encoder": "masked_lm", "decoder": "lm", "encoder_decoder": "lm"}
_FORMS: Final = {"encoder": "masked", "decoder": "continued", "encoder_decoder": "target"}

Guesses = list[dict[str, Any]]


@torch.no_grad()
def sample_guesses(engine: Engine, batch: Mapping[str, Tensor]) -> Guesses:
    """Return the first rows of a micro-batch with labels, as token ids; [] for a model that predicts no tokens.

    One more forward pass of this rank alone: nothing under ZeRO stage 3, where a rank holds a part of the weights.

    Returns:
        Per row `tokens` (ids of the input, at most 96), `form`, `labels`: [position, label, guess, probability of the
        guess], at most 48, and of a decoder `continued`: its greedy continuation of the first `prompt` tokens. The form
        says where labels belong: `masked` at their positions, `continued` after the position of the first, `target` in
        another sequence.
    """
    model, architecture = engine.model, engine.model.family.architecture
    head = _HEADS[architecture]
    if head not in model.heads or engine.config.zero.stage == 3 or "left_padding" in batch:
        return []
    tensors = {name: tensor.to(engine.world.device) for name, tensor in batch.items()}
    tensors["input_ids"] = wide_ids(tensors["input_ids"])
    hidden, given = model.views(tensors)[head]
    rows = given["label_index"] // hidden.shape[1]
    labeled = (given["label_ids"] != IGNORED) & (tensors["row_weight"][rows] != 0)
    found: Guesses = []
    for row in rows[labeled].unique()[:_ROWS].tolist():
        tokens = tensors["input_ids"][row, : int(tensors["lengths"][row])][:_TOKENS].tolist()
        seen = labeled & (rows == row)
        if architecture == "encoder":
            seen &= given["label_index"] % hidden.shape[1] < _TOKENS
        chosen = seen.nonzero()[:_LABELS, 0]
        positions = given["label_index"][chosen]
        scores = model.heads[head].logits(hidden.flatten(0, 1)[positions])[:, : model.vocab_size].float()
        shares, guesses = scores.softmax(-1).max(-1)
        columns = (positions % hidden.shape[1], given["label_ids"][chosen], guesses)
        labels = [list(entry) for entry in zip(*(each.tolist() for each in (*columns, shares)), strict=True)]
        found.append({"tokens": tokens, "form": _FORMS[architecture], "labels": labels})
        if architecture == "decoder":
            greedy = generate(model, [tokens[:_PROMPT]], Decoding(max_tokens=_CONTINUATION))
            found[-1] |= {"prompt": len(tokens[:_PROMPT]), "continued": greedy[0].ids}
    return found
