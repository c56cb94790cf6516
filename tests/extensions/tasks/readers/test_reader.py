"""Readers of one layout each: SQuAD, aligned texts, TREC, sentiment trees.

And what every reader refuses.
"""

import gzip
import json

import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.extensions.tasks.readers import (
    LabeledText,
    Question,
    Rejected,
    SourceTarget,
    TaskMetadata,
    read_task_metadata,
)
from clozeline.extensions.tasks.registries import TASK_READERS
from clozeline.pipeline.shards import open_shards
from tests.contracts import cases_about, contract
from tests.declarations import declared
from tests.extensions.tasks.readers.reading import items_of, read, reader_of, reasons, written
from tests.pipeline.task_files import make_sets
from tests.refusals import refused
from tests.shard_sets import rows, write_set


def test_facts_stand_with_the_set(tmp_path):
    metadata = TaskMetadata(
        name="sst2", head="classification", labels=("0", "1"), metrics=("accuracy",), texts=1
    )
    assert read_task_metadata(open_shards(make_sets(tmp_path) / "dev").manifest) == metadata
    assert read_task_metadata(write_set(tmp_path, [rows([1, 2])]).manifest) is None


@pytest.mark.parametrize(
    ("options", "text", "message"),
    cases_about(
        TASK_READERS,
        [
            (
                {"name": "conll"},
                "a\nb\n",
                "expected a column 0 of words and a column -1 of tags, got 1 columns, spaces",
            ),
            (
                {"name": "conll", "tag_column": 3},
                "a b O\n",
                "and a column 3 of tags, got 3 columns",
            ),
            ({"name": "conll", "tag_column": 0}, "a O\n", "and a column 0 of tags"),
            (
                {"name": "conll"},
                "-DOCSTART- O\n\n",
                "expected lines of a word and its tag, got none",
            ),
            ({"name": "conllu"}, "a b\n", "got 1: 'a b'"),
            ({"name": "conllu"}, "# only\n", "got none"),
            (
                {"name": "glue", "task": "qqp"},
                "index\tsentence1\n",
                "expected a layout of this task .*question1",
            ),
            (
                {"name": "instructions"},
                '{"a": 1}\n',
                "expected the columns messages, got a without messages",
            ),
            (
                {"name": "multiple_choice"},
                '{"label": 1}\n',
                "columns context, choices, got label without context, choices",
            ),
            ({"name": "squad"}, '{"data": []}', "expected SQuAD's layout"),
            (
                {"name": "squad"},
                '{"id": 1}\n{"id": 2}\n',
                "JSON lines; expected SQuAD's layout.*qas",
            ),
            ({"name": "squad"}, '{"data": [1]}', "expected SQuAD's layout"),
            ({"name": "squad"}, '{"data": 3}', "expected SQuAD's layout"),
            (
                {"name": "sst_trees"},
                "It works\n",
                r"line 1: expected a tree such as .*, got 'It works'",
            ),
            (
                {"name": "superglue", "task": "boolq"},
                '{"premise": "a"}\n',
                "got premise without question, passage",
            ),
            ({"name": "text_to_text"}, "", "expected rows of arrow, csv, json"),
            ({"name": "text_to_text"}, '{"source": "a"}\n', "expected the columns source, target"),
            ({"name": "text_to_text"}, "[1]\n", "expected rows of arrow, csv, json"),
            (
                {"name": "trec"},
                "text,label\n",
                "line 1: expected a type and a question .*got 'text,label'",
            ),
        ],
        lambda case: case[0]["name"],
    ),
)
def test_files_of_another_layout(tmp_path, options, text, message):
    path = written(tmp_path, text)
    with refused(message) as caught:
        reader_of(**options).open(path)
    assert str(path) in str(caught.value)


@contract(TASK_READERS)
def test_a_file_without_any_row_gives_none_or_is_refused_by_its_path(name, tmp_path):
    """`LAYOUT` of its own test file has the options that a reader cannot do without."""
    reader = reader_of(name, **declared(TASK_READERS.package, name, "LAYOUT", {}))
    path = written(tmp_path, b"\x00\xff\xfe\x00" * 9)

    try:
        refused = all(isinstance(item, Rejected) for item in items_of(reader, path))
    except (ConfigurationError, IntegrityError) as error:
        refused = str(path) in str(error)

    assert refused


def file_of(folder, *asked, context="Ada wrote. Ada sang.", version="1.1"):
    article = {"title": "Ada", "paragraphs": [{"context": context, "qas": list(asked)}]}
    return written(folder, json.dumps({"version": version, "data": [article]}), "train.json")


def asked(text="Ada", start=11, **more):
    return {
        "id": "1",
        "question": "Who sang?",
        "answers": [{"text": text, "answer_start": start}],
        **more,
    }


def test_questions(tmp_path):
    reader = reader_of("squad")
    path = file_of(tmp_path, asked(answers=[{"text": "Ada", "answer_start": at} for at in (11, 0)]))

    assert reader.open(path).layout == "SQuAD 1.1"

    item = Question(
        "Who sang?", "Ada wrote. Ada sang.", ((11, "Ada"), (0, "Ada")), "1", 0, "article Ada"
    )

    assert items_of(reader, path) == [item]
    assert item.overlap_texts == (item.context,)
    assert reader.metadata.unanswerable is False


def test_questions_without_an_answer(tmp_path):
    """Plausible answers are none, and those of a question that is marked impossible neither."""
    none = {
        "id": "2",
        "question": "Why?",
        "answers": [],
        "is_impossible": True,
        "plausible_answers": [{"text": "x"}],
    }

    path = file_of(tmp_path, none, asked(is_impossible=True), version="v2.0")

    assert reasons(items_of(reader_of("squad"), path)) == {"no_answer": 2}

    reader = reader_of("squad", unanswerable=True)

    assert [item.answers for item in items_of(reader, path)] == [(), ()]
    assert reader.metadata.unanswerable is True


def test_questions_to_be_answered_keep_their_ids_and_no_answer(tmp_path):
    path = file_of(tmp_path, asked(), asked(id="b", answers=[]))
    reader = reader_of("squad")
    found = [(item.answers, item.question, name) for item, name in reader.read_unlabeled(path)]
    assert found == [((), "Who sang?", "1"), ((), "Who sang?", "b")]
    assert reader.read_unlabeled(tmp_path / "questions.jsonl") is None


@pytest.mark.parametrize(
    ("question", "context", "reason"),
    [
        (asked("Ada", 10), "Ada wrote. Ada sang.", "answer_not_found"),
        (asked("Ada", -9), "Ada wrote. Ada sang.", "answer_not_found"),
        (asked(" ", 10), "Ada wrote. Ada sang.", "fields"),
        (asked(id=None), "Ada wrote. Ada sang.", "fields"),
        (asked(question=" "), "Ada wrote. Ada sang.", "fields"),
        (asked(answers="Ada"), "Ada wrote. Ada sang.", "fields"),
        (asked(answers=[3]), "Ada wrote. Ada sang.", "fields"),
        (asked(), None, "fields"),
    ],
)
def test_refused_questions(tmp_path, question, context, reason):
    assert items_of(reader_of("squad"), file_of(tmp_path, question, context=context)) == [
        Rejected(reason, 0)
    ]


def test_aligned_texts_of_nested_fields(tmp_path):
    line = '{"translation": {"en": "Hello!", "de": ["Hallo!", "Servus!"]}}\n'
    options = {"source": "translation.en", "target": "translation.de", "prefix": "to German: "}
    (item,) = read(tmp_path, line, "text_to_text", **options)

    assert item == SourceTarget("Hello!", ("Hallo!", "Servus!"), "to German: ", 0)
    assert item.overlap_texts == ("Hello!",)


def test_joined_lines_of_two_files(tmp_path):
    """As `paste` joins them: a tab of a text, or a line without a partner, costs its own row."""
    text = b" Hello!\tHallo!\n\tleer\n \tleer\nTwo.\tZwei.\x81\x8d\na\tb\tc\nThree.\t\n"
    path = written(tmp_path, gzip.compress(text), "train.tsv.gz")
    items = items_of(
        reader_of("text_to_text", columns=["en", "de"], source="en", target="de"), path
    )

    assert items[0] == SourceTarget(" Hello!", ("Hallo!",), "", 0)
    assert reasons(items) == {"empty_text": 3, "bad_utf8": 1, "fields": 1}
    assert [item.index for item in items] == list(range(6))


TREC = (
    "DESC:manner How did serfdom develop ?\nNUM:count How many caf\xe9s \xf0 ?\nDESC:def What is "
    "it ?\n"
)


@pytest.mark.parametrize(
    ("fine", "classes", "labels"),
    [
        (False, ["DESC", "NUM"], [0, 1, 0]),
        (True, ["DESC:def", "DESC:manner", "NUM:count"], [1, 2, 0]),
    ],
)
def test_the_type_of_a_question_is_its_class(tmp_path, fine, classes, labels):
    """TREC's files are in Latin-1."""
    path = written(tmp_path, TREC.encode("latin-1"), "train_5500.label")

    assert reader_of("trec", fine=fine).complete_options({"train": path}).classes == dict(
        zip(classes, classes, strict=True)
    )

    texts = ("How did serfdom develop ?", "How many caf\xe9s \xf0 ?", "What is it ?")

    assert items_of(reader_of("trec", fine=fine, classes=classes), path) == [
        LabeledText((text,), label, None, index)
        for index, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]


def test_questions_without_a_type(tmp_path):
    text = TREC.encode("latin-1") + b"ENTY:animal What cat ?\nNUM: How ?\n\nNUM:count \n"
    items = read(tmp_path, text, "trec", classes=["DESC", "NUM"])
    assert reasons(items) == {"bad_label": 1, "fields": 1, "blank_line": 1, "empty_text": 1}


TREES = [
    "(3 (2 It) (4 (4 (2 's) (4 great)) (2 .)))",
    "(2 (2 A) (2 film))",
    "(0 (1 Really) (0 bad))",
    "(4 (3 Wow))",
]


@pytest.mark.parametrize(("binary", "labels"), [(False, [3, 2, 0, 4]), (True, [1, None, 0, 1])])
def test_the_root_of_a_tree_is_the_class(tmp_path, binary, labels):
    broken = ["(3 It works)", "(5 (2 It) (2 works))", "", "(3 (2 It) (4 works)) (2 .)", "It works"]
    items = read(tmp_path, "\n".join([*TREES, *broken]), "sst_trees", binary=binary)
    texts = ("It 's great .", "A film", "Really bad", "Wow")
    expected = [
        LabeledText((text,), label, None, index)
        for index, (text, label) in enumerate(zip(texts, labels, strict=True))
        if label is not None
    ]

    assert [item for item in items if isinstance(item, LabeledText)] == expected
    assert reasons(items) == {"fields": 4, "blank_line": 1} | ({"filtered": 1} if binary else {})
