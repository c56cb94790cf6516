"""Labeled files of users: each format, each type of label, and each mistake in them."""

import csv
import doctest
import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaggedWords, _labels
from clozeline.pipeline.tasks.readers._labels import (
    are_numbers,
    cell_text,
    class_indices,
    number_of,
)
from clozeline.pipeline.tasks.readers.labeled import LabeledReader
from tests.pipeline.tasks.readers.reading import items_of, reader_of, reasons, written

LAYOUT = {"label": "label", "text": "text"}
"""Options that the contract of readers needs."""

ROWS = [
    {"text": 'good, "really"', "label": "pos"},
    {"text": "bad", "label": "neg"},
    {"text": "fine", "label": "pos"},
]


def completed(path, **options):
    """The reader with what the training file determines."""
    return LabeledReader(
        reader_of("labeled", **options).complete_options({"train": path}), InputLimits()
    )


def read_rows(folder, rows, **options):
    """The completed reader of rows that are written as JSON lines, and what it finds."""
    path = write_rows(folder, "jsonl", rows)
    reader = completed(path, **options)
    return reader, items_of(reader, path)


def write_rows(folder, format_, rows, name="train"):
    path = folder / f"{name}.{format_}"
    if format_ == "parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    elif format_ == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            quoting = (
                {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}
                if format_ == "tsv"
                else {}
            )
            table = csv.DictWriter(file, list(rows[0]), lineterminator="\n", **quoting)
            table.writeheader()
            table.writerows(rows)
    return path


@pytest.mark.parametrize("format_", ["csv", "tsv", "jsonl", "parquet"])
def test_every_format_holds_the_same_rows(tmp_path, format_):
    path = write_rows(tmp_path, format_, ROWS)
    reader = completed(path, label="label")
    assert reader.metadata.labels == ("neg", "pos")
    assert reader.metadata.metrics == ("accuracy", "macro_f1")
    assert items_of(reader, path) == [
        LabeledText((row["text"],), int(row["label"] == "pos"), None, index)
        for index, row in enumerate(ROWS)
    ]


def test_a_folder_that_datasets_saved(tmp_path):
    """The library itself writes the folder: two parts, class names beside integers, -1 for no
    label."""
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["World", "Sports"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    rows = {"text": ["a", "b", "c"], "label": [1, 0, -1]}
    datasets.Dataset.from_dict(rows, features).save_to_disk(tmp_path / "saved", num_shards=2)
    path = tmp_path / "saved" / "data-00000-of-00002.arrow"
    reader = completed(path, label="label")
    assert reader.metadata.labels == ("World", "Sports")
    assert items_of(reader, path) == [
        LabeledText(("a",), 1, None, 0),
        LabeledText(("b",), 0, None, 1),
        Rejected("no_label", 2),
    ]
    assert [file.name for file in reader.open(path).others] == [
        "data-00001-of-00002.arrow",
        "dataset_info.json",
    ]
    datasets.Dataset.from_dict(rows, features).to_parquet(tmp_path / "train.parquet")
    assert items_of(reader, tmp_path / "train.parquet") == items_of(reader, path)
    (tmp_path / "saved" / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(
        ConfigurationError, match=r"expected 2 parts .* data-00001-of-00002\.arrow is missing"
    ):
        reader.open(path)


def test_pairs_joined_columns_nested_fields_and_files_without_header(tmp_path):
    path = written(tmp_path, '3,"Oil, up",Prices rose\n4,Goal,\n', "train.csv")
    options = {"columns": ["c", "title", "about"], "text": ["title", "about"], "label": "c"}
    reader = completed(path, **options, classes={3: "Business", 4: "Sci/Tech"})
    assert [(item.texts, item.label) for item in items_of(reader, path)] == [
        (("Oil, up Prices rose",), 0),
        (("Goal",), 1),
    ]
    assert reader.metadata.labels == ("Business", "Sci/Tech")
    rows = [{"p": {"en": "A."}, "h": "B.", "gold": "-"}, {"p": {"en": "C."}, "h": "D.", "gold": 1}]
    options = {
        "text": "p.en",
        "text_pair": "h",
        "label": "gold",
        "no_label": ["-"],
        "classes": ["no", "yes"],
    }
    reader, items = read_rows(tmp_path, rows, **options)
    assert items == [Rejected("no_label", 0), LabeledText(("C.", "D."), 1, None, 1)]
    assert reader.metadata.texts == 2


def test_several_labels_of_a_list_or_of_a_text(tmp_path):
    """An empty text has none of the classes, and null no label."""
    rows = [{"text": "x", "tags": tags} for tags in (["b", "a", "b"], "a; c", "", None, ["d"], [])]
    reader, items = read_rows(tmp_path, rows, labels="tags", separator=";", classes=["a", "b", "c"])
    assert [getattr(item, "classes", None) for item in items] == [
        (0, 1),
        (0, 2),
        (),
        None,
        None,
        (),
    ]
    assert reasons(items) == {"no_label": 1, "bad_label": 1}
    assert reader.metadata.multi_label
    assert reader.metadata.metrics == ("micro_f1", "macro_f1", "subset_accuracy")
    assert read_rows(tmp_path, rows, labels="tags", separator=";")[0].metadata.labels == (
        "a",
        "b",
        "c",
        "d",
    )


def test_numbers(tmp_path):
    path = written(tmp_path, "text,mark\na,1.5\nb,4\nc,x\nd,\ne,nan\n", "train.csv")
    reader = completed(path, score="mark")
    assert (reader.metadata.head, reader.metadata.low, reader.metadata.high) == (
        "regression",
        1.5,
        4.0,
    )
    assert reader.metadata.metrics == ("pearson", "spearman")
    items = items_of(reader, path)
    assert [item.target for item in items[:2]] == [1.5, 4.0]
    assert reasons(items) == {"bad_label": 2, "no_label": 1}
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


def test_rows_to_keep(tmp_path):
    """Classes are those of the training rows that are kept."""
    rows = [("a", "x", "de"), ("c", "z", "de"), ("d", "y", "fr"), ("e", "x", "de")]
    rows = [dict(zip(("text", "label", "lang"), row, strict=True)) for row in rows]
    reader, items = read_rows(tmp_path, rows, label="label", keep={"lang": "de"})
    assert reader.metadata.labels == ("x", "z")
    assert reasons(items) == {"filtered": 1}


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


ONE, TWO = "caf\u00e9", "cafe\u0301"
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
    assert sum("two Unicode forms" in record.message for record in caplog.records) >= 1
    caplog.clear()
    read_rows(tmp_path, rows[:2], **{"labels" if several else "label": "label"})
    assert not caplog.records


@pytest.mark.parametrize("options", [{"words": "words", "label": "tags"}, {"labels": "tags"}])
def test_numbers_are_no_indices_of_found_tags(tmp_path, options):
    rows = [{"text": "a", "words": ["a", "b"], "tags": ["O", "B-X"]}]
    reader, _ = read_rows(tmp_path, rows, **options)
    dev = write_rows(tmp_path, "jsonl", [{**rows[0], "tags": [0, 2]}], "dev")
    assert reasons(items_of(reader, dev)) == {"bad_label": 1}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "text,label\na,1.5\nb,2\n",
            {"label": "label"},
            r"row 1: the column label holds 1\.5, a number, where",
        ),
        (
            "text,label\na,x\nb,x\n",
            {"label": "label"},
            "expected 2 or more classes in the column label, got x",
        ),
        (
            "text,label\na,x\n",
            {"label": "kind"},
            "got none: choose from text, label by tasks.reader.label=COLUMN",
        ),
        (
            "title,label\na,x\n",
            {"label": "label"},
            "expected the columns text, got title, label without text",
        ),
        ("text,text\na,x\n", {"label": "label"}, "two columns have the name 'text'"),
        ("text,label\n", {"label": "label"}, "got none that can be read"),
        (
            "text,mark\na,3\nb,3\n",
            {"score": "mark"},
            "expected different numbers in the column mark, got only 3",
        ),
    ],
)
def test_files_that_hold_no_task(tmp_path, text, options, message):
    path = written(tmp_path, text, "train.csv")
    with pytest.raises(ConfigurationError, match=message) as caught:
        completed(path, **options)
    assert str(path) in str(caught.value)


def test_a_column_of_ids_is_no_column_of_classes(tmp_path):
    path = written(
        tmp_path, "text,id\n" + "".join(f"t,{number}\n" for number in range(65_540)), "train.csv"
    )
    with pytest.raises(
        ConfigurationError, match=r"row 65536: the column id has more than 65,535 different labels"
    ):
        completed(path, label="id")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected one of label .* got none"),
        ({"label": "a", "score": "b"}, "got label and score"),
        ({"words": "w", "labels": "b"}, "words: expected label"),
    ],
)
def test_options_that_contradict(options, message):
    with pytest.raises(ConfigurationError, match=message):
        reader_of("labeled", **options)


def test_damaged_rows_have_a_reason(tmp_path):
    """A stray quote costs its line alone; a list is no class."""
    path = written(tmp_path, 'text,label\na,x\n"b,y\nc,y,z\n,x\nd,\n', "train.csv")
    items = items_of(completed(path, label="label", classes=["x", "y"]), path)
    assert [getattr(item, "reason", "") for item in items] == [
        "",
        "bad_csv",
        "fields",
        "empty_text",
        "no_label",
    ]
    path = written(
        tmp_path,
        '{"text": "a", "label": ["x", "y"]}\n{"text": 3, "label": "x"}\n[]\n',
        "train.jsonl",
    )
    items = items_of(completed(path, label="label", classes=["x", "y"]), path)
    assert [item.reason for item in items] == ["bad_label", "fields", "bad_json"]
    assert items[0].detail.endswith("name several by tasks.reader.labels")


def test_lines_that_the_reader_reads_again(tmp_path):
    options = {
        "text": ["a", "b"],
        "text_pair": "c",
        "label": "l",
        "classes": {"1": "no", "2": "yes"},
    }
    reader = reader_of("labeled", **options, keep={"lang": "de"})
    items = [LabeledText(("t u", "v"), 1, None, 0), LabeledText(("w", "x"), 0, None, 1)]
    path = written(tmp_path, "".join(f"{line}\n" for line in reader.format_lines(items)))
    assert items_of(reader, path) == items


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
    with pytest.raises(
        ConfigurationError, match=r"1, 0, 1, a number for each class: name the classes"
    ):
        read_rows(tmp_path, rows, labels="labels")
    classes = ["joy", "fear", "love"]
    assert [
        one.classes for one in read_rows(tmp_path, rows, labels="labels", classes=classes)[1]
    ] == [(0, 2), ()]
    rows = [{"text": "one", "labels": [0, 2]}, {"text": "two", "labels": [1]}]  # indices of classes
    assert [
        one.classes for one in read_rows(tmp_path, rows, labels="labels", classes=classes)[1]
    ] == [(0, 2), (1,)]


IMDB = {"label": "folder", "no_label": ["unsup"]}


def folder_of(folder, **texts):
    """Write the texts of names CLASS_FILE; return the first file."""
    for name, text in texts.items():
        path = folder / name.partition("_")[0] / f"{name.partition('_')[2]}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return sorted(folder.glob("*/*.txt"))[0]


def test_the_folder_is_the_class(tmp_path):
    texts = {
        "pos_1_9": "A good film.<br />\n",
        "neg_0_2": "\ufeffBad.",
        "unsup_0_0": "Unknown.",
        "pos_3": " ",
        "neg_4": b"caf\xe9",
    }
    first = folder_of(tmp_path / "train", **texts)
    for name in ("labeledBow.feat", "pos/notes.md"):
        (tmp_path / "train" / name).write_text("0 0:1")
    reader = completed(first, **IMDB)
    assert reader.metadata.labels == ("neg", "pos")
    items = items_of(reader, first)
    assert items == [
        LabeledText(("Bad.",), 0, None, 0),
        LabeledText(("caf\u00e9",), 0, None, 1),
        LabeledText(("A good film.<br />",), 1, None, 2),
        Rejected("empty_text", 3),
        Rejected("no_label", 4),
    ]
    assert [path.name for path in reader.open(first).others] == [
        "0_2.txt",
        "4.txt",
        "1_9.txt",
        "3.txt",
        "0_0.txt",
    ]
    (item, *_) = items_of(reader_of("labeled", label="folder", classes=["a", "b"]), first)
    assert item.detail.startswith("the column folder holds 'neg', the classes are a, b")


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
