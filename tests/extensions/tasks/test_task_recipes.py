"""Recipes of tasks, each on a small folder in the layout that its authors publish.

And a recipe keeps its texts.
"""

import json
import re
from pydoc_data.topics import topics

import pytest
import tokenizers

from clozeline.configuration.config import config_file
from clozeline.extensions.tasks.readers import read_task_metadata
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.shards import open_shards
from tests.extensions.tasks.readers.reading import reader_of
from tests.extensions.tasks.readers.test_glue import OFFICIAL
from tests.extensions.tasks.readers.test_superglue import ROWS
from tests.matrices import mark_slow_but
from tests.pipeline.task_files import write_vocabulary
from tests.recipes import RECIPES, find_training

NLI = ("entailment", "neutral", "contradiction")
TRUTH = ("false", "true")
GLUE = [name for name in OFFICIAL if name != "stsb"]
OBJECTS = {
    "snli": (
        [
            {"gold_label": label, "sentence1": "a film", "sentence2": "plot"}
            for label in ("neutral", "entailment")
        ],
        NLI,
    ),
    "cb": ([ROWS["cb"][0]] * 2, ("entailment", "contradiction", "neutral")),
    **{name: ([ROWS[name][0]] * 2, TRUTH) for name in ("boolq", "wic", "wsc")},
    "multirc": (
        [
            {
                "idx": 0,
                "passage": {
                    "text": "good film",
                    "questions": [
                        {
                            "question": "is it",
                            "idx": 0,
                            "answers": [
                                {"text": "good", "idx": 0, "label": 1},
                                {"text": "bad", "label": 0},
                            ],
                        }
                    ],
                },
            }
        ],
        TRUTH,
    ),
    "copa": (
        [
            {
                "premise": "a film",
                "choice1": "good",
                "choice2": "bad",
                "question": question,
                "label": label,
                "idx": 0,
            }
            for question, label in (("cause", 0), ("effect", 1))
        ],
        (),
    ),
    "record": (
        [
            {
                "idx": 0,
                "passage": {"text": "a good film .", "entities": [{"start": 7, "end": 10}]},
                "qas": [
                    {
                        "query": "one @placeholder",
                        "idx": 0,
                        "answers": [{"start": 7, "end": 10, "text": "film"}],
                    }
                ]
                * 2,
            }
        ],
        (),
    ),
    "race_exams": (
        [
            {
                "article": "a good film",
                "question": "what is it",
                "options": ["film", "plot", "heart", "one"],
                "answer": answer,
            }
            for answer in "AD"
        ],
        (),
    ),
}


def _squad():
    asked = {"id": "1", "question": "is it", "answers": [{"text": "good", "answer_start": 2}]}
    paragraphs = [{"context": "a good film", "qas": [asked, asked | {"id": "2"}]}]
    return json.dumps({"version": "1.1", "data": [{"title": "x", "paragraphs": paragraphs}]})


def _exam():
    asked = {
        "questions": ["is it", "It is _ ."],
        "options": [["good", "bad"]] * 2,
        "answers": ["B", "A"],
    }

    return json.dumps({"article": "a good film", "id": "high1.txt", **asked})


PAIRS = "id\tsentence1\tsentence2\tscore\n0\ta film\tone film\t5.0\n1\tgood\tfine\t4.5\n"
TREES = "(3 (2 film) (1 (2 is) (4 (2 -LRB-) (2 good))))\n(0 (2 bad) (2 plot))\n"


def _splits(pattern, text, *further):
    """Return the same text for a file of each split."""
    return dict.fromkeys([pattern.format(split) for split in ("train", "dev", *further)], text)


QUESTIONS = "".join(f"DESC:manner is it {n} ?\nNUM:count caf\xe9 {n} ?\n" for n in range(9))
FILES = {
    "instructions": _splits(
        "{}.jsonl",
        '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": '
        '"film"}]}\n',
    ),
    "ner": _splits("{}.txt", "film B-PER\none I-PER\nis O\n\nplot B-LOC\n"),
    "pos": _splits(
        "en-{}.conllu",
        "1\tfilm\tfilm\tNOUN\t_\t_\t2\tx\t_\t_\n2\tis\tbe\tVERB\t_\t_\t0\tx\t_\t_\n\n",
    ),
    "similarity": _splits("{}.tsv", PAIRS),
    "stsb": _splits("{}.tsv", PAIRS),
    "squad": _splits("{}-v1.1.json", _squad()),
    "summaries": _splits("{}.json", '{"document": "a good film", "summary": "good"}\n'),
    "swag": _splits(
        "{}.csv",
        ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n0,v,1,a "
        "film is,a film,is,gold,good,bad,fine,dull,3\n",
    ),
    "race_folder": _splits("{}/middle/1.txt", _exam()) | _splits("{}/high/2.txt", _exam()),
    "imdb": {
        f"{split}/{label}/{number}.txt": f"a {split} film <br />with {label} {number}"
        for split in ("train", "test")
        for label in ("neg", "pos")
        for number in range(20)
    },
    "trec": {"train_5500.label": QUESTIONS, "TREC_10.label": QUESTIONS},
    "sst5": _splits("{}.txt", TREES, "test"),
    "sst2_trees": _splits("{}.txt", TREES, "test"),
    "superglue_rte": dict.fromkeys(
        ("train.jsonl", "val.jsonl"),
        '{"premise": "a film", "hypothesis": "one", "label": "entailment"}\n',
    ),
    "relations": _splits(
        "{}.json",
        json.dumps(
            [
                {"token": ["a", "good", "film"], "relation": relation}
                | {"subj_start": 0, "subj_end": 1, "obj_start": 2, "obj_end": 2}
                for relation in ("no_relation", "is")
            ]
        ),
    ),
    "labels": _splits("{}.csv", "text,label\na good film,good\na plot,bad\n"),
    "scores": _splits("{}.csv", "text,score\na good film,4.5\na plot,1.5\n"),
}
"""Files of other tasks; a share of IMDB and TREC is carved out, by what a text says."""


def make_sets(name, tmp_path, texts, encoding="utf-8"):
    """Write files by their names, run the recipe of a task, and return the manifests of its
    sets."""
    files = tmp_path / "files"
    for file, text in texts.items():
        (files / file).parent.mkdir(exist_ok=True, parents=True)
        (files / file).write_text(text, encoding=encoding)

    given = f"input={files}"

    if name == "swag":
        given = (
            f"input=[{{path: {files}/train.csv, source: train}}, {{path: {files}/dev.csv, source: "
            "dev}]"
        )

    words = [given, "tokenizer.add=true", f"output={tmp_path}/out"]
    words.append(f"tokenizer.path={write_vocabulary(tmp_path / 'words')}")

    assert (
        run_pipeline(
            ["--config", str(config_file(f"recipe:tasks/{name}", "pipeline.yaml")), *words]
        )
        == 0
    )

    made = (tmp_path / "out/tasks").glob("*/*/manifest.json")
    return {path.parent.name: open_shards(path).manifest for path in made}


def check_head(name, manifest):
    """The recipe of the training names the head of the examples."""
    training = find_training(f"tasks/{name}").keys
    assert read_task_metadata(manifest).head in training["model"]["heads"]
    assert "steps" in training


@pytest.mark.parametrize(
    "name", mark_slow_but(["mnli", "cola", "multirc", "copa"], [*GLUE, *OBJECTS])
)
def test_the_recipe_reads_the_official_layout(tmp_path, name):
    """Every row becomes an example."""
    matched = "_matched" if name == "mnli" else ""

    if name in GLUE:
        count = 1
        labels = reader_of("glue", task=name).metadata.labels
        texts = dict.fromkeys(("train.tsv", f"dev{matched}.tsv"), OFFICIAL[name][0])
    else:
        count, (rows, labels) = 2, OBJECTS[name]
        texts = dict.fromkeys(
            ("train.jsonl", "val.jsonl"), "".join(f"{json.dumps(row)}\n" for row in rows)
        )

    made = make_sets(name, tmp_path, texts)

    for split in ("train", f"dev{matched}"):
        facts = read_task_metadata(made[split])

        assert (made[split].totals.samples, dict(made[split].totals.skipped), facts.labels) == (
            count,
            {},
            labels,
        )

        check_head(name, made[split])


@pytest.mark.parametrize(
    "name", mark_slow_but(["ner", "swag", "race_folder", "imdb", "trec"], FILES)
)
def test_the_recipe_reads_the_files_of_its_task(tmp_path, name):
    encoding = "latin-1" if name == "trec" else "utf-8"
    made = make_sets(name, tmp_path, FILES[name], encoding)

    assert {"train", "test" if name in ("imdb", "trec") else "dev"} <= made.keys()

    for manifest in made.values():
        assert manifest.totals.samples > 0
        assert dict(manifest.totals.skipped) == {}
        check_head(name, manifest)


def test_every_recipe_of_a_task_is_tried():
    assert {*GLUE, *OBJECTS, *FILES, "domain"} == {
        path.stem for path in (RECIPES / "tasks").glob("*.yaml")
    }


def sentences(count):
    """Different English sentences of 4 to 25 words, as tasks have them."""
    found = [
        " ".join(one.split()) for text in topics.values() for one in re.split(r"(?<=[.!?])\s", text)
    ]
    short = [one for one in dict.fromkeys(found) if 4 <= len(one.split()) <= 25 and one.isascii()]
    return short[:count]


def test_the_recipe_of_a_domain_keeps_the_short_texts_of_a_task(tmp_path):
    """Texts of a task without their labels are single sentences, which filters for pages reject."""
    texts = sentences(120)
    rows = tmp_path / "task.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    published = tokenizers.ByteLevelBPETokenizer()
    published.train_from_iterator(texts, vocab_size=600)
    published.save(f"{tmp_path}/tokenizer.json")
    words = [f"input={rows}", f"tokenizer.path={tmp_path}/tokenizer.json", f"output={tmp_path}/out"]

    assert run_pipeline(["--config", "recipe:tasks/domain", *words]) == 0

    stages = [
        json.loads((tmp_path / "out" / stage / "report.json").read_text())
        for stage in ("clean", "dedup")
    ]

    assert stages[0]["counts"]["documents_in"] == 120
    assert stages[1]["counts"]["documents_in"] == 120, "none is rejected"
    assert stages[1]["counts"]["documents_out"] >= 115
    assert len(open_shards(tmp_path / "out/corrupt/masked_lm/heldout")) > 0


# Recipe texts
# --------------------------------------------------------------------------------------------------
