"""Guesses on held-out rows, against scores of every position of the model, for each
architecture."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.evaluate import sample_guesses
from clozeline.train.startup.starting_model import build_random_model
from tests.model.small_models import batch_for, built
from tests.train.data.stream.streams import open_stream
from tests.train.masked_set import write_config
from tests.train.objective_sets import write_objective_sets
from tests.train.synthetic import tiny

CASES = {
    "masked_lm": ("encoder", {"masked_lm": {}}),
    "causal_lm": ("decoder", {"lm": {}}),
    "span_corruption": ("encoder_decoder", {"lm": {}}),
}


@pytest.mark.parametrize("name", CASES)
def test_guesses_are_the_most_probable_tokens_at_labels(tmp_path, name):
    """By the slow way: the scores of all positions, argmax by numpy."""
    family, heads = CASES[name]
    shards = write_objective_sets(tmp_path / "sets", name)
    changes = {"model__family": family, "model__heads": heads, "model__position__maximum": 96}
    config = load_config(
        TrainConfig, write_config(tmp_path / "a.yaml", shards, tmp_path / "run", **changes), []
    )
    train = open_datasets(config).train
    model = build_random_model(config.model, config.seed, train).eval()
    batch = {**next(iter(open_stream(train, micro_batch=8).next_step())).tensors}
    batch["input_ids"] = batch["input_ids"].long()
    world = SimpleNamespace(device=torch.device("cpu"))
    rows = sample_guesses(SimpleNamespace(model=model, config=config, world=world), batch)
    with torch.no_grad():
        (scores,) = (found.double().numpy() for found in model.logits(batch).values())
    flat = scores.reshape(-1, scores.shape[-1])[:, : model.vocab_size]
    width = scores.shape[1]
    shares = np.exp(flat - np.logaddexp.reduce(flat, axis=1, keepdims=True)).max(1)

    assert len(rows) == 3

    for row, found in enumerate(rows):
        assert found["tokens"] == batch["input_ids"][row, : int(batch["lengths"][row])].tolist()

        pairs = zip(batch["label_index"].tolist(), batch["label_ids"].tolist(), strict=True)
        expected = [
            (at % width, label, flat[at].argmax(), shares[at])
            for at, label in pairs
            if at // width == row
        ]

        assert [entry[:3] for entry in found["labels"]] == [[*entry[:3]] for entry in expected]
        assert [entry[3] for entry in found["labels"]] == pytest.approx(
            [entry[3] for entry in expected], abs=1e-5
        )
        assert ("continued" in found) == (family == "decoder")


def test_a_model_that_predicts_no_tokens_has_no_guesses():
    family = SimpleNamespace(architecture="encoder")
    model = SimpleNamespace(family=family, heads={"classification": None})
    engine = SimpleNamespace(model=model, config=None)
    assert sample_guesses(engine, {}) == []


def test_rows_are_shown_up_to_96_tokens_and_48_labels():
    network = built("encoder", position={"maximum": 128}).eval()
    places = list(range(0, 110, 2))
    tensors = batch_for("encoder", lengths=[110, 20], columns=110)
    tensors |= {
        "label_index": torch.tensor([*places, 115]),
        "label_ids": torch.arange(56) % 37,
    }
    tensors["label_ids"][3] = -100
    engine = SimpleNamespace(model=network, config=tiny(), world=SimpleNamespace(device="cpu"))
    first, second = sample_guesses(engine, tensors)

    assert first["tokens"] == tensors["input_ids"][0, :96].tolist()
    assert [entry[0] for entry in first["labels"]] == [
        place for place in places if place < 96 and place != 6
    ]
    assert ([entry[0] for entry in second["labels"]], second["form"]) == ([5], "masked")

    tensors["row_weight"][0] = 0

    assert [row["labels"] for row in sample_guesses(engine, tensors)] == [second["labels"]]
