"""Labeled files of users: each format, each type of label, and each mistake in them."""

import pytest

from clozeline.extensions.tasks.readers import LabeledText, Rejected
from tests.extensions.tasks.readers.labeled_files import completed, read_rows
from tests.extensions.tasks.readers.reading import items_of, reader_of, reasons, written
from tests.refusals import refused

LAYOUT = {"label": "label", "text": "text"}
"""Options that the contract of readers needs."""


def test_a_folder_that_datasets_saved(tmp_path):
    """The library itself writes the folder: two parts, class names beside integers, -1 for no
    label."""
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["World", "Sports"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    rows = {"text": ["a", "b", "c"], "label": [1, 0, -1]}
    datasets.Dataset.from_dict(rows, features).save_to_disk(tmp_path / "saved", num_shards=2)
    path = tmp_path / "saved/data-00000-of-00002.arrow"
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

    (tmp_path / "saved/data-00001-of-00002.arrow").unlink()

    with refused(r"expected 2 parts .* data-00001-of-00002\.arrow is missing"):
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


def test_rows_to_keep(tmp_path):
    """Classes are those of the training rows that are kept."""
    rows = [("a", "x", "de"), ("c", "z", "de"), ("d", "y", "fr"), ("e", "x", "de")]
    rows = [dict(zip(("text", "label", "lang"), row, strict=True)) for row in rows]
    reader, items = read_rows(tmp_path, rows, label="label", keep={"lang": "de"})
    assert reader.metadata.labels == ("x", "z")
    assert reasons(items) == {"filtered": 1}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "text,label\na,1.5\nb,2\n",
            {"label": "label"},
            r"row 1: the column label holds the number 1\.5, where",
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
        (
            "Text,Klasse\na,x\n",
            {"label": "label"},
            "tasks.reader.text=Text tasks.reader.label=Klasse",
        ),
        ("text,text\na,x\n", {"label": "label"}, "two columns have the name 'text'"),
        ("text,label\n", {"label": "label"}, "none can be read"),
        (
            "text,mark\na,3\nb,3\n",
            {"score": "mark"},
            "expected different numbers in the column mark, got only 3",
        ),
    ],
)
def test_files_that_hold_no_task(tmp_path, text, options, message):
    path = written(tmp_path, text, "train.csv")
    with refused(message) as caught:
        completed(path, **options)
    assert str(path) in str(caught.value)


def test_a_column_of_ids_is_no_column_of_classes(tmp_path):
    path = written(
        tmp_path, "text,id\n" + "".join(f"t,{number}\n" for number in range(65_540)), "train.csv"
    )

    with refused(r"row 65536: the column id has more than 65,535 different labels"):
        completed(path, label="id")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected one of label .* got none"),
        ({"words": "w", "labels": "b"}, "words: expected label"),
    ],
)
def test_options_that_contradict(options, message):
    with refused(message):
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
    assert len(reader.open(first).others) == 5
