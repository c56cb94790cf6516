from __future__ import annotations

from clozeline.pipeline.tasks.readers import LabelledText, TaggedWords


def test_what_splits_are_compared_by() -> None:
    assert LabelledText(("a", "b"), 0, None, 3).compared == ("a", "b")
    assert TaggedWords(("New", "York"), (0, 1), 0).compared == ("New York",)
