"""Labels, numbers and tags in the cells of files with rows."""

import doctest
import json

import pytest

from clozeline.extensions.tasks.readers import Rejected, TaggedWords, _labels
from clozeline.extensions.tasks.readers._labels import (
    are_numbers,
    cell_text,
    class_indices,
    number_of,
)
from tests.extensions.tasks.readers.labeled_files import completed, read_rows, write_rows
from tests.extensions.tasks.readers.reading import items_of, json_lines, reader_of, reasons, written
from tests.refusals import refused


def test_several_labels_of_a_list_or_of_a_text(tmp_path):
    """An empty text has none of the classes, and null no label."""
    rows = [{"text": "x", "tags": tags} for tags in (["b", "a", "b"], "a; c", "", None, ["d"], [])]
    _, items = read_rows(tmp_path, rows, labels="tags", separator=";", classes=["a", "b", "c"])

    assert [getattr(item, "classes", None) for item in items] == [
        (0, 1),
        (0, 2),
        (),
        None,
        None,
        (),
    ]
    assert reasons(items) == {"no_label": 1, "bad_label": 1}
    found = read_rows(tmp_path, rows, labels="tags", separator=";")[0].metadata
    assert (found.labels, found.multi_label) == (("a", "b", "c", "d"), True)


def test_classes_that_look_alike_stay_apart_and_are_named(tmp_path, caplog):
    for labels in (["Pos", "pos", "neg"], ["1", "01", "2"]):
        caplog.clear()
        reader, _ = read_rows(tmp_path, [{"text": "a", "label": x} for x in labels], label="label")
        message = f"{labels[0]!r} in two forms, also {labels[1]!r}: they are read as two classes"

        assert sorted(reader.metadata.labels) == sorted(labels)
        assert message in caplog.text


def test_a_column_for_each_class_is_refused_with_the_way_out():
    with refused(r"labels: expected one column.*classes: \[a, b\]"):
        reader_of("labeled", labels=["a", "b"])


WITHOUT_GLYPH = "\u200b\xad\ufeff\u2028\u200d\x85\ufe0f\u3164\u2060 \xa0\u2800"


@pytest.mark.parametrize("form", ["prose", "code", "none"])
def test_words_without_a_glyph_are_empty(tmp_path, form):
    reader = reader_of("labeled", words="words", label="tags", classes=["X"])
    reader.form = form
    rows = [*WITHOUT_GLYPH, WITHOUT_GLYPH, "", "\u0301", "\U0001f468\u200d", "\ue000"]
    rows = [{"words": ["a", word], "tags": ["X", "X"]} for word in rows]
    items = items_of(reader, written(tmp_path, json_lines(*rows), "rows.jsonl"))

    assert [getattr(item, "reason", None) for item in items] == [*["empty_word"] * 14, *[None] * 3]


def test_tags_with_an_o_that_are_no_entity_tags_are_named(tmp_path, caplog):
    for tags in (["O", "LOC"], ["O", "PER-B"]):
        caplog.clear()
        completed(
            write_rows(tmp_path, "jsonl", [{"w": ["a", "b"], "t": tags}]), words="w", label="t"
        )
        assert "read as classes of words; entity tags are O, and B or I" in caplog.text


def test_numbers(tmp_path):
    marks = ("1.5", "4", "x", "", "nan", "1_0", "\u0663", "inf")
    path = written(tmp_path, "\na,".join(["text,mark", *marks]), "train.csv")
    reader = completed(path, score="mark")

    assert (reader.metadata.head, reader.metadata.low, reader.metadata.high) == (
        "regression",
        1.5,
        4.0,
    )
    assert reader.metadata.metrics == ("pearson", "spearman")

    items = items_of(reader, path)

    assert [item.target for item in items[:2]] == [1.5, 4.0]
    assert reasons(items) == {"bad_label": 5, "no_label": 1}

    narrow = completed(path, score="mark", range=[0, 2])

    assert (
        items_of(narrow, path)[1].detail
        == "the column mark holds '4', expected a number from 0 to 2"
    )


def test_words_with_a_class_each(tmp_path):
    """Entities of any scheme become BIO; integers are indices of given classes."""
    rows = [
        {"tokens": ["Ada", "L.", "sings"], "ner": ["I-PER", "I-PER", "O"]},
        {"tokens": "in Rome", "ner": "O B-LOC"},
        {"tokens": ["a", "b"], "ner": ["O"]},
        {"tokens": [], "ner": []},
    ]

    reader, items = read_rows(tmp_path, rows, words="tokens", label="ner")

    assert reader.metadata.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert reader.metadata.metrics[0] == "entity_f1"
    assert items[:2] == [
        TaggedWords(("Ada", "L.", "sings"), (3, 4, 0), 0),
        TaggedWords(("in", "Rome"), (0, 1), 1),
    ]
    assert [(item.reason, item.detail) for item in items[2:]] == [
        ("fields", "it has 2 words and 1 labels"),
        ("empty_text", ""),
    ]

    plain, items = read_rows(
        tmp_path, rows, words="tokens", label="ner", classes=["I-PER", "O", "B-LOC", "X"]
    )

    assert plain.metadata.metrics == ("accuracy",)
    assert items[0].tags == (0, 0, 1)

    _, items = read_rows(
        tmp_path,
        [{"words": "a b c d", "tags": [4, 0, 1, 3]}],
        words="words",
        label="tags",
        classes=["O", "B-A", "I-A", "E-A", "S-A"],
    )

    assert items == [TaggedWords(("a", "b", "c", "d"), (1, 0, 1, 2), 0)]


def test_classes_have_a_fixed_order_and_may_be_integers(tmp_path):
    path = written(tmp_path, "text,label\na,10\nb,9\nc,-1\n", "train.csv")
    reader = completed(path, label="label")

    assert reader.metadata.labels == ("-1", "9", "10")
    assert [item.label for item in items_of(reader, path)] == [2, 1, 0]

    given = completed(path, label="label", classes=["9", "10"])

    assert reasons(items_of(given, path)) == {"bad_label": 1}
    assert "'-1', the classes are" in items_of(given, path)[2].detail


@pytest.mark.parametrize(
    ("labels", "others"),
    [
        (["1 star", "2 stars", "3 stars"], ["1", "2", "3"]),
        (["neg", "pos"], ["0", "1"]),
        (["neg", "pos"], [0, 1.0]),
    ],
)
def test_numbers_are_indices_only_of_an_order_that_was_given(tmp_path, labels, others):
    """Classes that are found in the training rows have an order, but nobody says that other files
    count by it."""
    write_rows(tmp_path, "jsonl", [{"text": f"film {label}", "label": label} for label in labels])
    dev = write_rows(
        tmp_path, "jsonl", [{"text": "a film", "label": label} for label in others], "dev"
    )
    found, given = (
        completed(tmp_path / "train.jsonl", label="label", **more)
        for more in ({}, {"classes": labels})
    )

    assert found.metadata.labels == given.metadata.labels == tuple(labels)
    assert reasons(items_of(found, dev)) == {"bad_label": len(others)}
    assert [item.label for item in items_of(given, dev) if not isinstance(item, Rejected)] == [
        int(label) for label in others if int(label) < len(labels)
    ]


ONE = "caf\u00e9"
TWO = "cafe\u0301"
"""The same letters in NFC and in NFD."""


@pytest.mark.parametrize(
    "given", [{}, {"classes": [TWO, "bar"]}, {"classes": {TWO: "x", "bar": "y"}}]
)
@pytest.mark.parametrize("several", [False, True])
def test_a_class_in_two_unicode_forms_is_one(tmp_path, caplog, given, several):
    labels = [ONE, "bar", TWO, ONE]
    rows = [{"text": "a", "label": [label] if several else label} for label in labels]
    reader, items = read_rows(
        tmp_path, rows, **{"labels" if several else "label": "label"}, **given
    )
    names = [*given["classes"].values()] if isinstance(given.get("classes"), dict) else [ONE, "bar"]

    assert sorted(reader.metadata.labels) == sorted(names)

    found = [item.classes[0] if several else item.label for item in items]

    assert [reader.metadata.labels[label] for label in found] == [
        names[label == "bar"] for label in labels
    ]
    assert "one class, in NFC" in caplog.text


@pytest.mark.parametrize("options", [{"words": "words", "label": "tags"}, {"labels": "tags"}])
def test_numbers_are_no_indices_of_found_tags(tmp_path, options):
    rows = [{"text": "a", "words": ["a", "b"], "tags": ["O", "B-X"]}]
    reader, _ = read_rows(tmp_path, rows, **options)
    dev = write_rows(tmp_path, "jsonl", [{**rows[0], "tags": [0, 2]}], "dev")
    assert reasons(items_of(reader, dev)) == {"bad_label": 1}


@pytest.mark.parametrize("as_text", [json.dumps, repr])
@pytest.mark.parametrize("format_", ["csv", "tsv"])
def test_lists_that_a_program_printed_are_lists(tmp_path, format_, as_text):
    """But for one that is cut, has no commas, or is code: it costs its row.

    In TSV, quotes have no meaning.
    """
    last = "zeal its" if format_ == "tsv" and as_text is json.dumps else "zeal, it's"
    lists = [as_text(["joy", "fear"]), as_text([]), as_text([last])]
    broken = ["['joy' 'fear']", "['joy', 'fear'", "['joy', 'fe...", "['a', open('x')]"]
    path = write_rows(
        tmp_path, format_, [{"text": "one", "labels": labels} for labels in (*lists, *broken)]
    )
    reader = completed(path, labels="labels")

    assert reader.metadata.labels == ("fear", "joy", last)

    items = items_of(reader, path)

    assert [item.classes for item in items[:3]] == [(0, 1), (), (2,)]
    assert [item.reason for item in items[3:]] == ["bad_label"] * 4


def test_printed_words_and_tags(tmp_path):
    rows = [
        {"words": "['Ada', \"it's\", '[x]']", "tags": "['B-PER', 'O', 'O']"},
        {"words": "[ a ]", "tags": "O O O"},
        {"words": "['a' 'b']", "tags": "O O"},
    ]

    path = write_rows(tmp_path, "csv", rows)
    reader = completed(path, words="words", label="tags")
    items = items_of(reader, path)

    assert [item.words for item in items[:2]] == [("Ada", "it's", "[x]"), ("[", "a", "]")]
    assert reasons(items) == {"fields": 1}


def test_a_number_for_each_class_needs_their_names(tmp_path):
    rows = [{"text": "one", "labels": [1, 0, 1]}, {"text": "two", "labels": [0, 0, 0]}]

    with refused(r"1, 0, 1, a number for each class: name the classes"):
        read_rows(tmp_path, rows, labels="labels")

    classes = ["joy", "fear", "love"]

    assert [
        one.classes for one in read_rows(tmp_path, rows, labels="labels", classes=classes)[1]
    ] == [(0, 2), ()]

    rows = [{"text": "one", "labels": [0, 2]}, {"text": "two", "labels": [1]}]  # indices of classes

    assert [
        one.classes for one in read_rows(tmp_path, rows, labels="labels", classes=classes)[1]
    ] == [(0, 2), (1,)]


def test_cells_with_labels_and_numbers():
    assert doctest.testmod(_labels).failed == 0
    assert [cell_text(value) for value in (None, float("nan"), 1.5, "  ")] == [
        None,
        None,
        "1.5",
        None,
    ]

    with pytest.raises(ValueError, match="holds"):
        cell_text(["a"])

    assert [number_of(value) for value in ("1e2", " 3 ", "nan", "inf", True, None, "x")] == [
        100,
        3,
        *[None] * 5,
    ]
    assert [are_numbers(names) for names in (["1", "2.5"], ["1", "2"], ["1.5", "x"])] == [
        True,
        False,
        False,
    ]
    assert class_indices(["5", "1"]) == {"5": 0, "1": 1}
    assert class_indices({"a": "x", "b": "y", "c": "x"}) == {"a": 0, "b": 1, "c": 0}


@pytest.mark.parametrize(
    "tags",
    [
        "B-PER I-PER L-PER O U-LOC",
        "B-PER M-PER E-PER O S-LOC",
        "B-PER M-PER E-PER O W-LOC",
        "b-PER i-PER e-PER o s-LOC",
    ],
)
def test_every_scheme_of_entities_is_one(tmp_path, tags):
    reader, (item,) = read_rows(
        tmp_path, [{"words": "a b c d e", "tags": tags}], words="words", label="tags"
    )

    assert "entity_f1" in reader.metadata.metrics

    names = [reader.metadata.labels[number] for number in item.tags]

    assert names == ["B-PER", "I-PER", "I-PER", "O", "B-LOC"]
