"""What is said of a loss, against the labels of batches."""

from __future__ import annotations

from typing import Any

import pytest

from clozeline import registry
from clozeline.pipeline.corrupt.preview import corrupt_text
from clozeline.pipeline.corrupt.preview.predictions import describe_predictions, scored_positions
from clozeline.pipeline.rows import Ragged
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
    form, positions = scored_positions(example)
    if form == "pair":
        assert "label_index" not in tensors
    elif objective.architecture == "encoder_decoder":
        assert len(positions) == len(tensors["label_index"])
    else:
        assert positions == tensors["label_index"].tolist()
    said = dict(describe_predictions(example))
    assert form == "pair" or said["predicted"].endswith(f": {len(positions)}")
    if form in ("labels", "order", "next"):
        assert said["not scored"] == f"{len(example['input_ids']) - len(positions)} positions of the input"
