from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Rejected, TaggedWords
from tests.pipeline.tasks.readers.reading import items_of, published, reader_of, reasons, with_data, written

CONLL = """-DOCSTART- -X- -X- O

U.N. NNP I-NP I-ORG
official NN I-NP O

Ekeus NNP I-NP I-PER

-DOCSTART- -X- O O

Japan NNP I-NP I-LOC
China NNP B-NP B-LOC
"""


def tagged(items: list[Any], reader: Any) -> list[list[str]]:
    labels = reader.facts.labels
    return [[f"{word} {labels[tag]}" for word, tag in zip(one.words, one.tags, strict=True)] for one in items]


def test_the_original_layout(tmp_path: Path) -> None:
    """Four columns of spaces in IOB1; marks of documents are no sentences, and say the document."""
    reader = reader_of("conll")
    path = written(tmp_path, CONLL)
    assert reader.open(path).layout == "4 columns, spaces"
    items = items_of(reader, path)
    assert tagged(items, reader) == [["U.N. B-ORG", "official O"], ["Ekeus B-PER"], ["Japan B-LOC", "China B-LOC"]]
    assert [item.group for item in items] == ["document 1", "document 1", "document 2"]
    assert [item.index for item in items] == [2, 5, 9]
    assert reader.facts.labels == ("O", *(f"{mark}-{kind}" for kind in ("PER", "LOC", "ORG", "MISC") for mark in "BI"))
    assert reader.facts.metrics == ("entity_f1", "strict_entity_f1", "accuracy")


def test_bioes_and_prefixes(tmp_path: Path) -> None:
    reader = reader_of("conll", entities=["LOC"], prefix="en:")
    items = items_of(reader, written(tmp_path, "en:New\tB-LOC\nen:York\tE-LOC\nen:and\tO\nen:Rome\tS-LOC\n"))
    assert tagged(items, reader) == [["New B-LOC", "York I-LOC", "and O", "Rome B-LOC"]]


def test_plain_classes_and_other_columns(tmp_path: Path) -> None:
    reader = reader_of("conll", task="pos", entities=[], tags=["NNP", "NN"], tag_column=1)
    items = items_of(reader, written(tmp_path, "Ada NNP O\nsong NN O\n"))
    assert items == [TaggedWords(("Ada", "song"), (0, 1), 0)]
    assert reader.facts.name == "pos"
    assert reader.facts.metrics == ("accuracy",)


def test_words_may_hold_spaces_between_tabs(tmp_path: Path) -> None:
    items = items_of(reader_of("conll"), written(tmp_path, "100 000\tO\nmen\tO\n"))
    assert items[0].words == ("100 000", "men")


def test_refused_sentences(tmp_path: Path) -> None:
    """One bad line costs its sentence, and no other one; a quote is a word."""
    text = b'" O\n\nAda I-PER more\n\nAda PER\n\nAda I-GOD\n\n\xff O\nAda O\n\nBob O\n'
    items = items_of(reader_of("conll"), written(tmp_path, text))
    assert reasons(items) == {"fields": 1, "bad_label": 2, "bad_utf8": 1}
    assert [item.words for item in items if isinstance(item, TaggedWords)] == [('"',), ("Bob",)]
    assert items_of(reader_of("conll", prefix="en:"), written(tmp_path, "en:\tO\n")) == [Rejected("empty_word", 0)]


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        ({}, "a\nb\n", "expected a column 0 of words and a column -1 of tags, got 1 columns, spaces: 'a'"),
        ({"tag_column": 3}, "a b O\n", "and a column 3 of tags, got 3 columns"),
        ({"tag_column": 0}, "a O\n", "and a column 0 of tags"),
        ({}, "-DOCSTART- O\n\n", "expected lines of a word and its tag, got none"),
    ],
    ids=["one column", "absent", "the same", "empty"],
)  # fmt: skip
def test_files_of_another_layout(tmp_path: Path, options: dict[str, Any], text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        reader_of("conll", **options).open(written(tmp_path, text))


@pytest.mark.parametrize("options", [{"tags": ["A", "B"]}, {"entities": []}], ids=["both", "neither"])
def test_entities_or_plain_classes(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="give entities or tags"):
        reader_of("conll", **options)


@pytest.mark.data
@with_data
@pytest.mark.parametrize(
    ("file", "options", "sentences", "words", "begins"),
    [
        ("wikigold.conll.txt.zst", {}, 1696, 39007, {"PER": 934, "LOC": 1014, "ORG": 898, "MISC": 712}),
        (
            "wnut17_dev.conll",
            {"entities": ["corporation", "creative-work", "group", "location", "person", "product"]},
            1009,
            15733,
            {"corporation": 34, "creative-work": 105, "group": 39, "location": 74, "person": 470, "product": 114},
        ),
        (
            "wikiann_de_dev.txt.zst",
            {"entities": ["PER", "LOC", "ORG"], "prefix": "de:"},
            10000,
            97805,
            {"LOC": 4968, "ORG": 4281, "PER": 4569},
        ),
    ],
    ids=["wikigold", "wnut17", "wikiann"],
)  # fmt: skip
def test_real_files(file: str, options: dict[str, Any], sentences: int, words: int, begins: dict[str, int]) -> None:
    """Counts by `grep` and `awk` over the files; of WikiGold, whose tags are in IOB1, runs of one type are counted."""
    reader = reader_of("conll", **options)
    items = items_of(reader, published(f"ner/{file}"))
    assert not reasons(items)
    assert len(items) == sentences
    assert sum(len(item.words) for item in items) == words
    found = Counter(reader.facts.labels[tag] for item in items for tag in item.tags)
    assert {kind: found[f"B-{kind}"] for kind in begins} == begins


def test_a_no_break_blank_is_part_of_a_word(tmp_path: Path) -> None:
    path = written(tmp_path, "10\u00a0000 O\nAda  B-PER \n\n")
    (item,) = items_of(reader_of("conll", entities=["PER"]), path)
    assert item.words == ("10\u00a0000", "Ada")
