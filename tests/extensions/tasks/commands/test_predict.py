"""Predictions and labels of rows without one: those of `evaluate`, whatever the batches, after a
kill too."""

import csv
import doctest
import json
import re

import numpy as np
import pyarrow.parquet
import pytest
from scipy.stats import spearmanr
from seqeval.metrics import f1_score
from sklearn.metrics import accuracy_score
from sklearn.metrics import f1_score as class_f1

from clozeline.extensions.evaluation.commands import evaluate
from clozeline.extensions.tasks.commands import predict, pseudo_label
from clozeline.extensions.tasks.heads.classification import ClassificationTaskHead
from clozeline.extensions.tasks.readers import Rejected
from clozeline.files import file_hash
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.extensions.tasks.readers.reading import json_lines, reader_of, written
from tests.pipeline.task_files import sentences
from tests.tools.small_run import compute_row_scores


def probabilities(run, texts):
    trained = TrainedModel.open(run)
    found = []
    special = trained.tokenizer.vocabulary.specials
    for encoding in trained.tokenizer.encode(texts):
        ids = [special["cls"], *encoding.ids.tolist(), special["sep"]]
        found.append(compute_row_scores(trained, ids, "classification").softmax(-1).tolist())

    return found


def predicted(folder, source, output, *words):
    assert predict.main([f"{folder}/run", f"input={source}", f"output={output}", *words]) == 0
    return [json.loads(line) for line in output.read_text().splitlines()]


def scores(folder, capsys):
    capsys.readouterr()
    assert evaluate.main([f"{folder}/run", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["metrics"]


def gold_rows(path):
    """The rows of JSON lines, or of CoNLL's columns."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    sentences = [
        [line.split() for line in part.splitlines()]
        for part in path.read_text().strip().split("\n\n")
    ]
    return [
        {
            "words": [word for word, _ in pairs],
            "marks": [mark for _, mark in pairs],
        }
        for pairs in sentences
    ]


def test_classes(runs, tmp_path, capsys):
    """Against the model on each row by itself, and scikit-learn; then as a submission."""
    folder = runs("classes")
    with (folder / "files/dev.tsv").open() as file:
        gold = list(csv.DictReader(file, delimiter="\t"))
    found = predicted(folder, folder / "files/dev.tsv", tmp_path / "p.jsonl")
    own = probabilities(folder / "run", [row["sentence"] for row in gold])

    assert [[*row["probabilities"].values()] for row in found] == [
        pytest.approx(row, abs=2e-6) for row in own
    ]
    assert [row["label"] for row in found] == [str(int(np.argmax(row))) for row in own]

    accuracy = accuracy_score([row["label"] for row in gold], [row["label"] for row in found])

    assert scores(folder, capsys)["accuracy"] == pytest.approx(accuracy)
    assert 0 < accuracy < 1

    predict.main(
        [
            f"{folder}/run",
            f"input={folder / 'files' / 'dev.tsv'}",
            f"output={tmp_path}/SST-2.tsv",
            "layout=glue",
        ]
    )

    lines = (tmp_path / "SST-2.tsv").read_text().splitlines()

    assert lines == [
        "index\tprediction",
        *(f"{number}\t{row['label']}" for number, row in enumerate(found)),
    ]


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("classes", ["a good, short film"], r"label: [01]\nprobability: 0\.\d+\nprobability_0: "),
        ("classes", ["a good", "film"], "probability_1: "),  # words without quotes
        ("classes", ["text=a good film"], "probability_1: "),
        ("several", ["text=a good film"], "probability_film: "),
        ("numbers", ["a good film"], r"score: -?\d"),
        ("tags", ["words=a good film"], r"tags: \['"),
        ("answers", ["question=what", "context=a film"], "answer: "),
        ("choices", ["context=a film", "choices=[good, bad]"], r"choice: [01]"),
        ("texts", ["source=a good film"], "text: "),
        ("classes", [], "expected text, got none: .*text='…'"),
        ("answers", ["a film"], "expected question and context, got text: .*question='…' context="),
        ("classes", ["context=a film"], "expected text, got context"),
        ("classes", [" "], "empty_text"),
        ("classes", ["output=p.csv"], "input=FILE"),
        ("classes", ["a film", "id=name"], "input=FILE"),
    ],
)
def test_one_row_is_answered_on_the_terminal(runs, capsys, name, words, said):
    code = predict.main([f"{runs(name)}/run", *words])
    shown = capsys.readouterr()
    is_refused = "…" in said or "expected" in said or said in ("empty_text", "input=FILE")
    assert code == 64 * is_refused, shown
    assert re.search(said, shown.err if is_refused else shown.out), shown


def micro_f1(*sides):
    names = ("bad", "film", "good")
    return class_f1(
        *([[name in row for name in names] for row in side] for side in sides), average="micro"
    )


@pytest.mark.parametrize(
    ("name", "file", "gold", "mine", "metric", "compute"),
    [
        ("several", "dev.jsonl", "tags", "labels", "micro_f1", micro_f1),
        (
            "numbers",
            "dev.jsonl",
            "score",
            "score",
            "spearman",
            lambda *sides: spearmanr(*sides).statistic,
        ),
        ("tags", "dev.txt", "marks", "tags", "entity_f1", f1_score),
        ("words", "dev.jsonl", "marks", "tags", "entity_f1", f1_score),
        ("choices", "dev.jsonl", "label", "choice", "accuracy", accuracy_score),
        ("texts", "dev.jsonl", "target", "text", "exact_match", accuracy_score),
    ],
)
def test_predictions_score_as_evaluate_says(
    runs, tmp_path, capsys, name, file, gold, mine, metric, compute
):
    """Rows are those of the file, in order; a sentence of several windows has every word once."""
    folder = runs(name)
    rows = gold_rows(folder / "files" / file)
    found = predicted(folder, folder / "files" / file, tmp_path / "p.jsonl")
    score = compute([row[gold] for row in rows], [row[mine] for row in found])

    assert scores(folder, capsys)[metric] == pytest.approx(score, abs=1e-4)
    assert len({str(row[mine]) for row in found}) > 1

    for row, given in zip(found, rows, strict=True):
        if mine == "tags":
            assert row["words"] == given["words"]
        if name == "several":
            assert row["labels"] == [
                one for one, share in row["probabilities"].items() if share > 0.5
            ]

        if name == "choices":
            assert len(row["probabilities"]) == len(given["choices"])


def test_answers(runs, tmp_path, capsys):
    """Of SQuAD's file without answers, and of a table of questions."""
    folder = runs("answers")
    data = json.loads((folder / "files/dev.json").read_text())
    entries = [
        (part["context"], entry)
        for article in data["data"]
        for part in article["paragraphs"]
        for entry in part["qas"]
    ]

    golds = {entry["id"]: entry.pop("answers")[0]["text"] for _, entry in entries}
    (tmp_path / "test.json").write_text(json.dumps(data))
    found = predicted(folder, tmp_path / "test.json", tmp_path / "p.jsonl")
    exact = np.mean([row["answer"] == golds[row["id"]] for row in found])

    assert scores(folder, capsys)["exact_match"] == pytest.approx(exact)
    assert [row["answer"] for row in found] == [
        context[row["start"] : row["start"] + len(row["answer"])]
        for row, (context, _) in zip(found, entries, strict=True)
    ]

    (answers,) = predicted(folder, tmp_path / "test.json", tmp_path / "p.json", "layout=squad")

    assert answers == {row["id"]: row["answer"] for row in found}

    def of_table(contexts):
        with (tmp_path / "asked.csv").open("w", newline="") as file:
            rows = zip([entry["question"] for _, entry in entries], contexts, strict=True)
            csv.writer(file).writerows([("q", "text"), *rows])
        words = ("question=q", "context=text")
        (tmp_path / "t.jsonl").unlink(missing_ok=True)
        return predicted(folder, tmp_path / "asked.csv", tmp_path / "t.jsonl", *words)

    table = of_table([context for context, _ in entries])

    assert [row["answer"] for row in table] == [row["answer"] for row in found]

    # characters that no stored text has
    given = ["\ufeffRa\u0308u\u00adber.\r\n" + "\u200b".join(c) for c, _ in entries]

    for row, context in zip(of_table(given), given, strict=True):
        assert row["answer"]
        assert context.startswith(row["answer"], row["start"])


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_killed_command_ends_with_the_same_bytes(runs, tmp_path, monkeypatch, suffix, capsys):
    """Parts that are done are not computed again, and other settings do not continue them."""
    folder = runs("classes")
    whole = tmp_path / f"whole.{suffix}"
    killed = tmp_path / f"killed.{suffix}"
    words = [f"{folder}/run", f"input={folder / 'files' / 'dev.tsv'}", "part_rows=5"]

    assert predict.main([*words, f"output={whole}"]) == 0

    real = ClassificationTaskHead.records
    calls = []

    def dying(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(ClassificationTaskHead, "records", dying)

    assert predict.main([*words, f"output={killed}"]) != 0
    assert not killed.exists()
    assert predict.main([*words, f"output={killed}", "text=sentence"]) == 64
    assert (
        "holds results of other settings: text was [], is ['sentence']" in capsys.readouterr().err
    )
    assert predict.main([*words, f"output={killed}"]) == 0
    assert len(calls) == 3 + 3  # two parts of five were there
    assert killed.read_bytes() == whole.read_bytes()
    assert not killed.with_name(f"{killed.name}.parts").exists()


def test_every_row_of_the_input_is_in_the_output(runs, tmp_path, capsys):
    """Rows without a prediction say why, in each format."""
    folder = runs("classes")
    rows = ["name;about", "x;a good film", "y;", 'z;"dull\nplot"', "no field", "w;\u200b"]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    words = ["text=about", "id=name", "delimiter=;"]
    found = predicted(folder, tmp_path / "rows.csv", tmp_path / "p.jsonl", *words)

    assert [(row.get("id"), row.get("rejected")) for row in found[:4]] == [
        ("x", None),
        ("y", "empty_text"),
        ("z", None),
        (None, "fields"),
    ]
    assert (
        "p.jsonl: 5 rows; truncated: none; without a prediction: 1 empty_text, 1 fields"
        in capsys.readouterr().out
    )

    for suffix in ("csv", "parquet"):
        output = tmp_path / f"p.{suffix}"

        assert (
            predict.main(
                [f"{folder}/run", f"input={tmp_path}/rows.csv", f"output={output}", *words]
            )
            == 0
        )

    with (tmp_path / "p.csv").open() as file:
        table = list(csv.DictReader(file))
    columns = pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pylist()
    for row, cells, stored in zip(found, table, columns, strict=True):
        assert (cells["label"], cells["rejected"]) == (
            row.get("label", ""),
            row.get("rejected", ""),
        )
        assert (stored["label"], stored["rejected"]) == (row.get("label"), row.get("rejected"))
        assert cells["probability_1"] == str(row.get("probabilities", {}).get("1", ""))
        assert stored["probability_1"] == row.get("probabilities", {}).get("1")


@pytest.mark.parametrize(
    ("name", "rows", "lost"),
    [
        (
            "choices",
            [
                {
                    "context": "film " * count,
                    "choices": ["bad plot", "no"],
                }
                for count in (11, 12, 20)
            ],
            [None, 1, 9 + 8],
        ),
        (
            "texts",
            [{"source": "film " * count} for count in (15, 16, 40)],
            [None, 1, 25],
        ),
        (
            "answers",
            [{"question": "one " * count, "context": "film " * 60} for count in (7, 9)],
            [None, 2],
        ),
    ],
)
def test_rows_that_are_cut_are_counted_and_marked(runs, tmp_path, capsys, name, rows, lost):
    """A choice and its context have room for 13 tokens, sources for 15, questions for 7."""
    (tmp_path / "long.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = predicted(runs(name), tmp_path / "long.jsonl", tmp_path / "p.jsonl")

    assert [row.get("truncated_tokens") for row in found] == lost

    count = sum(tokens is not None for tokens in lost)

    assert f"truncated: {count or 'none'}" in capsys.readouterr().out

    predict.main(
        [
            str(runs(name) / "run"),
            f"input={tmp_path}/long.jsonl",
            f"output={tmp_path}/p.parquet",
        ]
    )

    assert (
        pyarrow.parquet.read_table(tmp_path / "p.parquet")["truncated_tokens"].to_pylist() == lost
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["output=p", "layout=squad"], "the run predicts classification: expected glue"),
        (
            ["output=p.csv", "text=none"],
            "expected the columns none, got sentence, label without none",
        ),
    ],
)
def test_what_cannot_be_predicted_is_refused(runs, tmp_path, capsys, words, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = runs("classes") / "files/dev.tsv"

    assert predict.main([str(runs("classes") / "run"), f"input={source}", *words]) == 64

    error = " ".join(capsys.readouterr().err.split())

    assert re.search(message, error), error
    assert not list(tmp_path.iterdir())  # the corrected command writes the same output


def test_lines_with_several_items_keep_the_ids_of_each(tmp_path):
    answers = [{"text": "Ada", "idx": 20}, {"text": "Bob", "idx": 21}]
    asked = [
        {
            "question": "Who?",
            "idx": number,
            "answers": answers,
        }
        for number in (10, 11)
    ]
    lines = [
        {
            "idx": number,
            "passage": {"text": "Ada met.", "questions": asked},
        }
        for number in (3, 4)
    ]
    rows = reader_of("superglue", task="multirc").read_unlabeled(
        written(tmp_path, json_lines(*lines))
    )
    keys = [
        [passage, question, answer]
        for passage in (3, 4)
        for question in (10, 11)
        for answer in (20, 21)
    ]

    assert [(item.index, key) for item, key in rows] == list(enumerate(keys))

    row = {
        "idx": 1,
        "passage": {"text": "Ada met Bob.", "entities": []},
        "qas": [{"query": "@placeholder won", "idx": 5}, {"query": "@placeholder lost", "idx": 6}],
    }

    rows = reader_of("superglue", task="record").read_unlabeled(
        written(tmp_path, json_lines(row, {}))
    )
    (first, key), (second, _), (rejected, _) = rows

    assert (
        first.index,
        key,
        second.index,
        rejected,
    ) == (0, 5, 1, Rejected("fields", 2))


def test_sure_labels_are_those_of_the_model(runs, tmp_path, capsys):
    """The threshold splits the texts, and what is written and what is not are all lines.

    Or each class has a limit.
    """
    run = runs("classes") / "run"
    texts = [text for text, _ in sentences(40, first=100)]
    given = probabilities(run, texts)
    threshold = sorted(max(row) for row in given)[20] - 1e-4
    labels = [row.index(max(row)) for row in given]
    surest = [max(row) for row in given]
    sure = [number for number in range(40) if surest[number] >= threshold]
    source = tmp_path / "texts.txt"
    output = tmp_path / "pseudo.jsonl"
    source.write_text("\n".join([*texts, "", "a\tb"]) + "\n")
    words = [str(run), f"input={source}", f"output={output}"]

    assert pseudo_label.main([*words, "threshold=1"]) == 64
    assert "lower the threshold" in capsys.readouterr().err
    assert not output.exists()
    assert pseudo_label.main([*words, f"threshold={threshold}"]) == 0

    lines = [json.loads(line) for line in output.read_text().splitlines()]

    assert lines == [
        {
            "sentence": texts[number],
            "label": str(labels[number]),
        }
        for number in sure
    ]

    of_class = [[number for number in sure if labels[number] == label] for label in (0, 1)]

    assert all(of_class)

    facts = json.loads((tmp_path / "pseudo.jsonl.json").read_text())

    assert facts["rows_in"] == 42 == sum(facts["labeled"].values()) + sum(facts["skipped"].values())
    assert facts["skipped"] == {"blank_line": 1, "fields": 1, "below_threshold": 40 - len(sure)}
    assert facts["labeled"] == {str(label): len(of_class[label]) for label in (0, 1)}
    assert facts["output"] == {"pseudo.jsonl": file_hash(output)}
    assert pseudo_label.main(words) == 64, "files that exist are not replaced"
    output.unlink()
    assert pseudo_label.main(words) == 64
    (tmp_path / "pseudo.jsonl.json").unlink()
    assert pseudo_label.main([*words, f"threshold={threshold}", "per_class=3"]) == 0

    limited = sorted(
        number for own in of_class for number in sorted(own, key=surest.__getitem__)[-3:]
    )

    assert len(limited) < len(sure)

    lines = [json.loads(line)["sentence"] for line in output.read_text().splitlines()]

    assert lines == [texts[number] for number in limited]
    assert doctest.testmod(pseudo_label).failed == 0


# Labels of a run as rows to train on
# ----------------------------------------------------------------------------------
