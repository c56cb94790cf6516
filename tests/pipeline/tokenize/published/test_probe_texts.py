from __future__ import annotations

from clozeline.pipeline.tokenize.published.importing import PROBE_TEXTS


def test_there_are_two_hundred_different_texts() -> None:
    assert len(PROBE_TEXTS) == len(set(PROBE_TEXTS)) == 200
