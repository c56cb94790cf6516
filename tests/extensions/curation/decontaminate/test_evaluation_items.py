"""Items of evaluation files: layouts, task readers, and what is refused."""

import gzip
import json

import pytest

from clozeline.configuration.config import validate
from clozeline.extensions.curation.decontaminate.config import EvaluationSet
from clozeline.extensions.curation.decontaminate.evaluation_items import (
    EvaluationFile,
    EvaluationItem,
    find_evaluation_files,
    read_items,
)
from clozeline.extensions.tasks.readers import (
    Choices,
    Dialogue,
    LabeledText,
    Question,
    Rejected,
    SourceTarget,
    TaggedWords,
)
from clozeline.extensions.tasks.readers._task_items import list_item_texts
from clozeline.pipeline.ingest.formats.limits import InputLimits
from tests.refusals import refused


def files(*entries):
    return find_evaluation_files([validate(EvaluationSet, entry, "test") for entry in entries])


def read(path, **entry):
    (file,) = files({"path": str(path), **entry})
    return [item for item in read_items(file, InputLimits()) if not isinstance(item, Rejected)]


def lines(*rows):
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.txt",
            "one line\n\n  \nanother\r\n",
            [EvaluationItem(0, "0", ("one line",)), EvaluationItem(3, "3", ("another",))],
        ),
        (
            "a.jsonl",
            lines({"text": "one", "id": 7}, "", {"text": ["two", "three"]}),
            [
                EvaluationItem(0, "7", ("one",)),
                EvaluationItem(2, "2", ("two", "three")),
            ],
        ),
        (
            "a.json",
            lines(
                {
                    "id": "x",
                    "fields": {"q": "who?", "label": 1, "choices": ["a", "b"]},
                }
            ),
            [EvaluationItem(0, "x", ("who?", "a", "b"))],
        ),
    ],
)
def test_layouts(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_text(content)

    assert read(path) == expected

    packed = tmp_path / f"packed.{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))

    assert read(packed) == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            "words\na\n",
            r"a\.csv: expected text .* got the fields words in line 2\. .*\{path: .*a\.csv, reader:",
        ),
        (
            "a.jsonl",
            lines({"question": "who", "answer": "she"}),
            "got the fields question, answer in line 1",
        ),
        ("a.jsonl", lines({"text": "one"}, {"txt": "two"}), "got the fields txt in line 2"),
        ("a.jsonl", lines({"text": "one"}, {"text": 2}), "got the fields text in line 2"),
        (
            "a.jsonl",
            lines({"good": "one", "bad": "two"}),
            "got the fields good, bad in line 1",
        ),
        (
            "a.json",
            json.dumps({"data": [1]}, indent=1),
            "expected text .* one JSON object over several lines",
        ),
        (
            "a.jsonl",
            lines({"text": "one"}, "{broken"),
            r"line 2: expected an item, but it is not valid JSON.*: correct",
        ),
        (
            "a.jsonl",
            lines({"text": "one"}, [1]),
            "line 2: expected an item, but it is valid JSON, but not an object",
        ),
        ("a.txt", "good\nbad \xff\n", "line 2: expected an item, but it is not UTF-8"),
    ],
)
def test_an_unknown_layout_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content, encoding="latin-1")
    with refused(message):
        read(path)


def test_a_task_is_read_by_its_reader(tmp_path):
    answers = {
        "id": "1",
        "question": "Who wrote?",
        "answers": [{"text": "Ada", "answer_start": 0}],
    }
    article = {
        "title": "Ada",
        "paragraphs": [{"context": "Ada wrote.", "qas": [answers, {"id": "2"}]}],
    }
    (tmp_path / "dev-v1.1.json").write_text(json.dumps({"data": [article]}))
    (file,) = files(
        {
            "path": f"{tmp_path}/dev-v1.1.json",
            "reader": {"name": "squad"},
        }
    )

    assert file.suite == "squad/dev-v1.1"
    assert list(read_items(file, InputLimits())) == [
        EvaluationItem(0, "0", ("Who wrote?", "Ada wrote.")),
        EvaluationItem(1, "1", ("Ada wrote.", "2")),
    ]


SAID = "nobody may read these seven words before"
SQUAD_ROWS = [
    {"id": "1", "question": SAID, "answers": [], "is_impossible": True},
    {"question": SAID, "answers": []},
    {"id": "3", "question": "Who?", "answers": [{"text": SAID, "answer_start": 0}]},
]


ROWS_NO_TASK_KEEPS = [
    (
        {"name": "squad"},
        {"a.json": json.dumps({"data": [{"paragraphs": [{"context": "He.", "qas": SQUAD_ROWS}]}]})},
    ),
    (
        {"name": "superglue", "task": "rte"},
        {
            "a.jsonl": lines(
                {"premise": SAID, "hypothesis": "no"}, {"premise": SAID}, f'{{"premise": "{SAID}'
            )
        },
    ),
    (
        {"name": "superglue", "task": "multirc"},
        {
            "a.jsonl": lines(
                {
                    "passage": {
                        "text": "He.",
                        "questions": [
                            {
                                "question": SAID,
                                "answers": [{"text": "a"}, {"text": 1}],
                            }
                        ],
                    }
                }
            )
        },
    ),
    ({"name": "glue", "task": "sst2"}, {"a.tsv": f"index\tsentence\n0\t{SAID}\n1\t{SAID}\tmore\n"}),
    (
        {
            "name": "labeled",
            "text": ["t"],
            "label": "l",
            "classes": ["a", "b"],
            "keep": {"k": ["1"]},
        },
        {
            "a.jsonl": lines(
                {"t": SAID, "k": "1"},
                {"t": SAID, "l": "z", "k": "1"},
                {"t": SAID, "l": "a", "k": 2},
            )
        },
    ),
    (
        {"name": "labeled", "words": "w", "label": "l", "classes": ["a", "b"]},
        {"a.jsonl": lines({"w": SAID.split(), "l": ["z"] * 7}, {"w": SAID, "l": None})},
    ),
    (
        {"name": "labeled", "text": ["t"], "label": "l", "classes": ["a", "b"]},
        {"a.tsv": f"t\tl\nx\ta\n{SAID}\n"},
    ),
    (
        {"name": "race"},
        {
            "test/high/1.txt": json.dumps(
                {"article": SAID, "questions": ["q"], "options": [["a", "b"]]}
            ),
            "test/high/2.txt": f"not valid JSON: {SAID}",
        },
    ),
    ({"name": "trec", "classes": ["NUM"]}, {"a.label": f"HUM:ind {SAID}\nHUM {SAID}\n"}),
    (
        {"name": "text_to_text", "columns": ["de", "en"], "source": "de", "target": "en"},
        {"a.tsv": f"{SAID}\t\n{SAID}\n"},
    ),
    (
        {"name": "conll", "entities": ["PER"]},
        {"a.txt": "".join(f"{word} B-LOC\n" for word in SAID.split())},
    ),
    (
        {"name": "conllu", "tags": ["NOUN"]},
        {
            "a.conllu": "".join(
                f"{at + 1}\t{word}{chr(9) + '_' if at else ''}\t_\tVERB\t_\t_\t_\t_\t_\t_\n".replace(
                    "_\t_\tVERB", "_\tVERB"
                )
                for at, word in enumerate(SAID.split())
            )
        },
    ),
    (
        {
            "name": "multiple_choice",
            "task": "x",
            "context": "c",
            "choices": ["a", "b"],
            "answer": "n",
        },
        {
            "a.jsonl": lines(
                {"c": SAID, "a": "x", "b": "y"},
                {"c": SAID, "a": "x", "b": "y", "n": 7},
                {"c": SAID},
            )
        },
    ),
    (
        {"name": "labeled", "label": "folder", "classes": ["neg", "pos"], "no_label": ["unsup"]},
        {"test/unsup/1.txt": SAID, "test/other/1.txt": SAID},
    ),
    (
        {"name": "sst_trees", "binary": True},
        {"a.txt": f"(2 {' '.join(f'(2 {word})' for word in SAID.split())})\n{SAID}\n"},
    ),
    (
        {"name": "instructions"},
        {"a.jsonl": lines({"messages": [{"role": "user", "content": SAID}]})},
    ),
]


@pytest.mark.parametrize(
    ("reader", "content"), ROWS_NO_TASK_KEEPS, ids=lambda value: str(value.get("name", ""))
)
def test_every_row_with_a_text_is_an_item(tmp_path, reader, content):
    """Rows that a task's reader rejects: a model may be asked them all the same, with other options
    or elsewhere."""
    for name, text in content.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    file = EvaluationFile(
        "suite",
        "a",
        tmp_path / next(iter(content)),
        validate(EvaluationSet, {"path": "x", "reader": reader}, "test").reader,
    )

    read = file.reader.build(InputLimits())
    rejected = {
        item.index for item in read.read(read.open(file.path)) if isinstance(item, Rejected)
    }
    items = {
        item.row: item for item in read_items(file, InputLimits()) if not isinstance(item, Rejected)
    }

    assert rejected

    for row in rejected:
        assert any(
            SAID in " ".join(text.replace("(2 ", "").replace(")", "").split())
            for text in items[row].texts
        )


@pytest.mark.parametrize(
    ("item", "texts"),
    [
        (LabeledText(("a", "b"), 0, None, 0), ("a", "b")),
        (TaggedWords(("a", "b"), (0, 1), 0), ("a b",)),
        (Question("q", "c", ((0, "c"),), "k", 0), ("q", "c")),
        (Choices("c", ("x", "y"), 0, 0), ("c", "x", "y")),
        (SourceTarget("s", ("t", "u"), "prefix: ", 0), ("s", "t", "u")),
        (Dialogue((("user", "hi"), ("assistant", "ho")), 0), ("hi", "ho")),
    ],
)
def test_texts_of_each_type_of_item(item, texts):
    assert list_item_texts(item) == texts


def test_names_of_suites_and_files(tmp_path):
    for name in (
        "blimp/b.jsonl",
        "blimp/deep/a.jsonl",
        "blimp/.hidden",
        "evals/dev.jsonl.gz",
        "evals/test.v2.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")

    found = files({"path": f"{tmp_path}/evals/*"}, {"path": f"{tmp_path}/blimp"})

    assert [(file.suite, file.name) for file in found] == [
        ("blimp", "b.jsonl"),
        ("blimp", "deep/a.jsonl"),
        ("dev", "dev.jsonl.gz"),
        ("test.v2", "test.v2.txt"),
    ]

    found = files({"path": f"{tmp_path}/**/*.jsonl", "suite": "all"})

    assert [(file.suite, file.name) for file in found] == [
        ("all", "blimp/b.jsonl"),
        ("all", "blimp/deep/a.jsonl"),
    ]

    with refused(
        r"'dev' for .*blimp.* and for .*dev\.jsonl\.gz: give them .*suite: NAME",
    ):
        files(
            {"path": f"{tmp_path}/evals/dev.jsonl.gz"},
            {"path": f"{tmp_path}/blimp", "suite": "dev"},
        )
