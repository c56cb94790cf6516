from __future__ import annotations

import pytest

from clozeline.train.configuration.checkpoint import milestone_tokens


def test_words_are_counted_as_tokens() -> None:
    assert milestone_tokens(["10M tokens", "2.5k words", "7 tokens", "1Gtokens"], 1.5) == [7.0, 3750.0, 1e7, 1e9]
    assert milestone_tokens([], None) == []


@pytest.mark.parametrize("entry", ["10", "10 steps", "M tokens", "-1 tokens", "1e6 tokens", "1 T tokens", ""])
def test_other_entries_are_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="expected entries such as 10M tokens or 1M words, got"):
        milestone_tokens([entry], 1.5)


def test_words_need_the_tokens_of_a_word() -> None:
    assert milestone_tokens(["3 tokens"], None) == [3.0]
    with pytest.raises(ValueError, match=r"1M words needs checkpoint\.tokens_per_word"):
        milestone_tokens(["1M words"], None)
