"""The view of one corrupted text: its own text, marks, and a sentence on what is learned."""

from __future__ import annotations

import pytest

from clozeline import registry
from clozeline.pipeline.corrupt.preview import corrupt_text
from clozeline.pipeline.corrupt.preview.view import Passage, Sheet, View

TEXT = "Hard work leads to success. Success brings happiness."


def passages(view: View) -> dict[str, str]:
    return {
        part.title.rpartition(" (")[0]: "".join(token.text for token in part.tokens)
        for part in view.parts
        if isinstance(part, Passage)
    }


@pytest.mark.parametrize("name", registry.names("clozeline.pipeline.corrupt.objectives"))
def test_every_objective_shows_the_text_and_what_is_learned(name: str) -> None:
    view = corrupt_text(name, TEXT, target="Fleiß führt zum Erfolg.").view()
    texts = passages(view)
    assert any(title.startswith(("text", "original", "one text")) for title in texts)
    assert "Hard work leads to success." in " ".join(texts.values()).replace("|", "")
    reading = view.parts[-1]
    assert isinstance(reading, Sheet)
    assert [row[0] for row in reading.rows] == ["sees", "predicts", "not scored"]
    assert view.title.startswith(f"{name} · ")


def test_a_text_is_shown_once() -> None:
    assert list(passages(corrupt_text("masked_lm", TEXT).view())) == ["input", "original"]
    assert list(passages(corrupt_text("causal_lm", TEXT).view())) == ["text", "input_ids"]


def test_words_are_written_as_people_write_them() -> None:
    masks = {"name": "masked_lm", "grouping": "document", "mask_rate": 0.1, "mask_share": 1.0, "random_share": 0.0}
    shown = passages(corrupt_text(masks, TEXT).view())
    assert shown["original"] == " [CLS] Hard work leads to success. Success brings happiness. [SEP]"
