from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from clozeline.pipeline.tokenize.tokenizers._vocabulary_extension import ByteMerges, with_merges

FACTS: dict[str, Any] = {"model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}, "normalizer": None}


def of(library: Tokenizer) -> ByteMerges:
    merged = ByteMerges()
    merged._model = library
    return merged


def test_further_merges_come_last_with_the_next_ids() -> None:
    """Merges as text become pairs; the file that was given stays as it is."""
    found = with_merges(FACTS, [("ab", "b"), ("abb", "a")])
    assert found["model"]["vocab"] == {"a": 0, "b": 1, "ab": 2, "abb": 3, "abba": 4}
    assert found["model"]["merges"] == [["a", "b"], ["ab", "b"], ["abb", "a"]]
    assert found["normalizer"] is None
    assert FACTS["model"]["merges"] == ["a b"]
    model = found["model"]
    merged = of(Tokenizer(models.BPE(dict(model["vocab"]), [tuple(pair) for pair in model["merges"]])))
    assert merged.cut("abbaab") == ["abba", "ab"]
    assert merged.cut("abbaa") == ["abba", "a"]


def test_words_are_those_of_the_library() -> None:
    library = Tokenizer(models.BPE({"a": 0}, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert list(of(library).words(["a new\nword", "é"])) == ["a", "Ġnew", "Ċ", "word", "Ã©"]
