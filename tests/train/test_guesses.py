"""Guesses on held-out rows, against scores of every position of the model, in whole runs of each architecture."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from clozeline.configuration.config import load_config
from clozeline.train import evaluate
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.evaluate import sample_guesses
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.train.masked_set import write_config
from tests.train.objective_sets import write_objective_sets
from tests.train.runs import events

CASES = {
    "masked_lm": ("encoder", {"masked_lm": {}}),
    "causal_lm": ("decoder", {"lm": {}}),
    "span_corruption": ("encoder_decoder", {"lm": {}}),
}


def compared(world: World, config: Path) -> list[Any]:
    """Run; return per evaluation the sampled rows, and those by the slow way: all scores, argmax by numpy."""
    found: list[Any] = []

    def sample(engine: Any, batch: Any) -> Any:
        rows = sample_guesses(engine, batch)
        head = next(iter(engine.model.heads))
        with torch.no_grad():
            scores = engine.model.logits({**batch, "input_ids": batch["input_ids"].long()})[head].double().numpy()
        flat = scores.reshape(-1, scores.shape[-1])[:, : engine.model.vocab_size]
        index, labels = batch["label_index"].numpy(), batch["label_ids"].numpy()
        guesses, width = flat.argmax(1), scores.shape[1]
        shares = np.exp(flat - np.logaddexp.reduce(flat, axis=1, keepdims=True)).max(1)
        slow = [
            [[int(at % width), int(label), int(guesses[at]), float(shares[at])]
             for at, label in zip(index, labels, strict=True) if at // width == row]
            for row in range(3)
        ]  # fmt: skip
        found.append((rows, slow, batch["input_ids"][:3].tolist(), batch["lengths"][:3].tolist()))
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "sample_guesses", sample)
        assert run(load_config(TrainConfig, config), joined=world) == 0
    return found


@pytest.mark.parametrize("name", CASES)
def test_guesses_are_the_most_probable_tokens_at_labels(one_rank: RankPool, tmp_path: Path, name: str) -> None:
    family, heads = CASES[name]
    shards = write_objective_sets(tmp_path / "sets", name)
    changes = {
        "model__family": family,
        "model__heads": heads,
        "model__position__maximum": 96,
        "data__micro_batch": 4,
        "steps": 4,
        "evaluate__every": 2,
    }
    config = write_config(tmp_path / "a.yaml", shards, tmp_path / "run", **changes)
    (found,) = one_rank.run(compared, config)
    assert len(found) == 2
    for rows, slow, ids, lengths in found:
        assert len(rows) == 3
        for row, expected, tokens, length in zip(rows, slow, ids, lengths, strict=True):
            assert row["tokens"] == tokens[:length]
            assert [entry[:3] for entry in row["labels"]] == [entry[:3] for entry in expected]
            np.testing.assert_allclose(
                [entry[3] for entry in row["labels"]], [entry[3] for entry in expected], atol=1e-5
            )
            assert ("continued" in row) == (family == "decoder")
    told = events(tmp_path / "run", "guesses")
    assert [event["step"] for event in told] == [2, 4]
    assert told[-1]["sets"] == {"heldout": found[-1][0]}


def test_a_model_that_predicts_no_tokens_has_no_guesses() -> None:
    family = SimpleNamespace(architecture="encoder")
    model = SimpleNamespace(family=family, heads={"classification": None})
    engine: Any = SimpleNamespace(model=model, config=None)
    assert sample_guesses(engine, {}) == []
