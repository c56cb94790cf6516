"""Rows without labels are read by what their file holds, whatever the run was trained on."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from clozeline.extensions.tasks.task_run import open_task_run
from clozeline.extensions.tasks.unlabeled_rows import (
    InputColumns,
    read_unlabeled,
    task_reader,
    task_rows,
)
from tests.extensions.tasks.commands.test_predict import predicted
from tests.extensions.tasks.readers.reading import json_lines, reader_of, rows_for, written

TAGGED = [["Anna", "sings", "in", "New York"], ["M\u00a0ller", "."]]
PLAIN = [["Anna", "sings", "in", "Rome"], ["Boris", "."]]


def conllu_line(number, word):
    return f"{number}\t{word}\t_\tNOUN\t_\t_\t0\troot\t_\t_"


def write_table(path, rows):
    pyarrow.parquet.write_table(pa.table(rows), path)


TEXTS_TO_TAG = {
    "rows.jsonl": (json_lines(*({"words": words} for words in TAGGED)), TAGGED),
    "rows.json": (json.dumps([{"words": words} for words in TAGGED]), TAGGED),
    "rows.csv": ("words,other\nAnna sings in Rome,1\n\"['Boris', '.']\",2\n", PLAIN),
    "table.tsv": ("words\tother\nAnna sings in Rome\t1\nBoris .\t2\n", PLAIN),
    "rows.tsv": (
        "-DOCSTART-\tO\n\n"
        + "\n\n".join("\n".join(f"{word}\tO" for word in words) for words in TAGGED),
        TAGGED,
    ),
    "words.txt": (
        "-DOCSTART- -X- O\n\nAnna NNP O\nsings VB O\nin IN O\nRome NN B-LOC\n\nBoris X I-X\n. X "
        "O\n",
        PLAIN,
    ),
    "alone.txt": ("Anna\nsings\nin\nRome\n\nBoris\n.\n", PLAIN),
    "texts.txt": ("Anna sings in Rome\nBoris .\n", PLAIN),
    "words.conll": ("Anna NNP\nsings VB\nin IN\nRome NN\n\nBoris X\n. X\n", PLAIN),
    "words.conllu": (
        "# text = x\n"
        + "\n\n".join(
            "\n".join(conllu_line(number, word) for number, word in enumerate(words, 1))
            for words in TAGGED
        )
        + "\n",
        TAGGED,
    ),
}


@pytest.mark.parametrize("run", ["tags", "words"])
@pytest.mark.parametrize("name", [*TEXTS_TO_TAG, "rows.parquet"])
@pytest.mark.parametrize("codec", ["", ".gz"])
def test_words_are_those_of_the_file_whatever_the_run_was_trained_on(
    runs, tmp_path, run, name, codec
):
    """Of tables, JSON, columns of words and tags, CoNLL-U and lines of text.

    Blanks in a word stay.
    """
    opened = open_task_run(runs(run) / "run", "train")
    path = tmp_path / f"{name}{codec}"

    if name.endswith(".parquet"):
        if codec:
            pytest.skip("Parquet compresses its columns")
        write_table(path, {"words": TAGGED})
        expected = TAGGED
    else:
        text, expected = TEXTS_TO_TAG[name]
        path.write_bytes(gzip.compress(text.encode()) if codec else text.encode())

    reader = task_reader(opened.train.manifest)
    items = [*read_unlabeled(path, task_rows(opened), reader, InputColumns())]

    assert [[*item.words] for item, _ in items] == expected
    assert [item.index for item, _ in items] == [0, 1]


def test_sentences_of_a_text_are_tagged_word_by_word(runs, tmp_path):
    """A document line is no sentence, and a word keeps its blank to the output."""
    for run in ("tags", "words"):
        (tmp_path / "rows.tsv").write_text("a good\tO\nfilm\tO\n\n-DOCSTART-\tO\n\nplot\tO\n")
        found = predicted(runs(run), tmp_path / "rows.tsv", tmp_path / f"{run}.jsonl")
        assert [row["words"] for row in found] == [["a good", "film"], ["plot"]]
        assert [len(row["tags"]) for row in found] == [2, 1]

    (tmp_path / "tokens.tsv").write_text("tokens\ttags\na film\tO O\n")

    found = predicted(runs("tags"), tmp_path / "tokens.tsv", tmp_path / "o.jsonl", "words=tokens")

    assert [row["words"] for row in found] == [["a", "film"]]


def test_a_table_has_the_form_of_the_training_tables_or_a_header(tmp_path):
    """Files without a header, and with another delimiter, are read as the task's were."""
    reader = reader_of(
        "labeled",
        columns=["mark", "body"],
        delimiter=";",
        text="body",
        label="mark",
        classes=["a", "b"],
    )

    builder = rows_for(reader.metadata)

    for text, name in (
        ("a;one film\nb;two, plots\n", "bare.csv"),
        ('body,key\none film,1\n"two, plots",2\n', "header.csv"),
    ):
        items = read_unlabeled(written(tmp_path, text, name), builder, reader, InputColumns())
        assert [item.texts for item, _ in items] == [("one film",), ("two, plots",)]


def test_official_layouts_are_read_as_in_training(tmp_path):
    """Trees, typed questions and dialogues; lines of text remain lines of text."""

    def texts(reader, text, name):
        path = written(tmp_path, text, name)
        items = read_unlabeled(path, rows_for(reader.metadata), reader, InputColumns())
        return [item.texts for item, _ in items]

    trees = reader_of("sst_trees", binary=True)
    typed = reader_of("trec", classes=["NUM", "DESC"])
    right = [("It works",), ("No film",)]

    assert texts(trees, "(3 (2 It) (4 works))\n(2 (2 No) (2 film))\n", "rows.txt") == right
    assert texts(typed, "NUM:count How many ?\n", "TREC_10.label") == [("How many ?",)]
    assert [texts(one, "It works\nNo film\n", "lines.txt") for one in (trees, typed)] == [right] * 2

    dialogues = reader_of("instructions")
    messages = [{"role": "user", "content": "2 + 2?"}]
    path = written(tmp_path, json_lines({"messages": messages}), "chat.jsonl")
    ((item, _),) = read_unlabeled(path, rows_for(dialogues.metadata), dialogues, InputColumns())

    assert item.messages[:-1] == (("user", "2 + 2?"),)
