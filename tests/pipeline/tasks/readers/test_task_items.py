from __future__ import annotations

from clozeline.pipeline.tasks.readers import LabeledText, TaggedWords


def test_what_splits_are_compared_by() -> None:
    assert LabeledText(("a", "b"), 0, None, 3).overlap_texts == ("a", "b")
    assert TaggedWords(("New", "York"), (0, 1), 0).overlap_texts == ("New York",)
