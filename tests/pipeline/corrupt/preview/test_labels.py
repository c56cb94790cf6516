"""The labels that a text is shown with, against those of batches."""

import pytest

from clozeline import registry
from clozeline.pipeline.corrupt.preview import corrupt_text
from clozeline.pipeline.rows import Ragged
from clozeline.train.data.stream.collate import Collate

OBJECTIVES = "clozeline.pipeline.corrupt.objectives"
TEXT = "Hard work leads to success. Success brings happiness."


def entries():
    """Return every objective with each of its architectures."""
    found = []
    for name in registry.names(OBJECTIVES):
        kind = registry.find(OBJECTIVES, name)
        if "architecture" in kind.Options.__pydantic_fields__:
            found += [{"name": name, "architecture": architecture} for architecture in kind.architectures]
        else:
            found.append({"name": name})
    return found


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: " ".join(entry.values()))
def test_labels_are_at_the_positions_of_those_of_a_batch(entry):
    found = corrupt_text(entry, TEXT, target="Fleiß führt zum Erfolg.")
    objective, example = found.objective, found.example
    collate = Collate(
        objective.architecture,
        {feature.name: feature.role for feature in objective.features},
        dict(objective.vocabulary.specials),
        decoder_start=objective.frame.decoder_start,
        predict_from=objective.frame.predict_from,
    )
    columns = {name: Ragged.from_lists([values], values.dtype) for name, values in example.columns.items()}
    tensors = collate(columns, None)
    _, labels = found.labels()
    if "input_ids_b" in example.columns:
        assert "label_index" not in tensors
        assert not labels
    elif objective.architecture != "encoder_decoder":
        assert list(labels) == tensors["label_index"].tolist()
    elif labels:
        assert len(labels) == len(tensors["label_index"])
    else:
        assert len(example["target_ids"]) == len(tensors["label_index"])
