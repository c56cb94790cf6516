"""What is said of a loss, against the labels of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clozeline import registry
from clozeline.pipeline.corrupt.preview import corrupt_text
from clozeline.pipeline.corrupt.preview.predictions import describe_predictions, predictions_of
from clozeline.pipeline.rows import Ragged, Row
from clozeline.train.data.stream.collate import Collate

OBJECTIVES = "clozeline.pipeline.corrupt.objectives"
TEXT = "Hard work leads to success. Success brings happiness."


def entries() -> list[dict[str, Any]]:
    """Return every objective with each of its architectures."""
    found: list[dict[str, Any]] = []
    for name in registry.names(OBJECTIVES):
        kind = registry.find(OBJECTIVES, name)
        if "architecture" in kind.Options.__pydantic_fields__:
            found += [{"name": name, "architecture": architecture} for architecture in kind.architectures]
        else:
            found.append({"name": name})
    return found


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: " ".join(entry.values()))
def test_the_scored_positions_are_those_of_the_labels_of_a_batch(entry: dict[str, Any]) -> None:
    found = corrupt_text(entry, TEXT, target="Fleiß führt zum Erfolg.")
    objective, example = found.objective, found.example
    collate = Collate(
        objective.architecture,  # type: ignore[arg-type]
        [feature.name for feature in objective.features],
        dict(objective.vocabulary.specials),
        decoder_start=objective.frame.decoder_start,
        predict_from=objective.frame.predict_from,
    )
    columns = {name: Ragged.from_lists([values], values.dtype) for name, values in example.columns.items()}
    tensors = collate(columns, None)
    predictions, said = predictions_of(example), describe_predictions(objective, example)
    if predictions.form == "pair":
        assert "label_index" not in tensors
    elif objective.architecture == "encoder_decoder":
        assert len(predictions.positions) == len(tensors["label_index"])
    else:
        assert list(predictions.positions) == tensors["label_index"].tolist()
    number = len(predictions.positions)
    assert predictions.form == "pair" or f"{number} " in said["predicts"]
    if predictions.form in ("labels", "order"):
        assert f"the other {len(example['input_ids']) - number} positions" in said["not scored"]


def test_a_prefix_is_read_and_not_scored() -> None:
    objective = corrupt_text("prefix_lm", TEXT).objective
    row = Row({}, {"input_ids": np.arange(8, dtype=np.uint16), "prefix_length": np.array([3], np.uint16)})
    assert describe_predictions(objective, row) == {
        "sees": "each position reads itself, the positions before it, and the prefix",
        "predicts": "at 5 positions, the token that follows",
        "not scored": "the last position, as nothing follows it, and the 2 positions inside the prefix",
    }


def test_all_positions_are_judged_beside_the_labels() -> None:
    found = corrupt_text("replaced_token_detection", TEXT)
    said = describe_predictions(found.objective, found.example)
    assert said["predicts"].endswith("; at every position, whether its token was replaced")
    assert said["not scored"].startswith("for the original tokens, the other ")
