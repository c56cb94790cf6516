"""Every recipe through the installed command, from an empty folder: its shards, its trainings planned, one begun."""

import json
import random
from functools import partial
from pathlib import Path

import pytest

from tests.clozeline.installed import installed
from tests.recipes import trainings
from tests.test_task_recipes import GLUE, OBJECTS
from tests.test_tiny_recipes import write_texts

RECIPES = Path(__file__).parents[2] / "configs" / "recipes"
FAMILIES = sorted(path.parent.name for path in RECIPES.glob("*/train.yaml"))
TASKS = sorted(path.stem for path in RECIPES.glob("tasks/*.yaml"))
SMALL = ("train_tokenizer.size=2000", "heldout.fraction=0.1", "clean.filters=[]", "executor.workers=1")
CHARACTERS = 700_000


def sentence(number, length):
    """Return words that no other number shares."""
    drawn = random.Random(number)
    return " ".join("".join(drawn.choices("aeioulnrst", k=6)) for _ in range(length))


def _splits(ending):
    return {f"train.{ending}": 40, f"dev.{ending}": 20}


def _files(counts, row, header=None, encoding="utf-8"):
    """Return a function that writes files with so many rows each."""

    def write(folder):
        first = 0
        for name, count in counts.items():
            rows = [*([] if header is None else [header]), *map(row, range(first, first + count))]
            (folder / name).write_text("\n".join(rows) + "\n", encoding=encoding)
            first += count

    return write


def _official(name, folder):
    """Write the rows that the recipe's own test reads, often enough for a step."""
    if name in OBJECTS:
        header, rows, files = [], [json.dumps(row) for row in OBJECTS[name][0]], ("train.jsonl", "val.jsonl")
    else:
        header, rows = [], GLUE[name][0].splitlines()
        files = ("train.tsv", "dev_matched.tsv" if name == "mnli" else "dev.tsv")
    if name in GLUE and name != "cola":
        header, rows = rows[:1], rows[1:]
    for file in files:
        (folder / file).write_text("\n".join([*header, *rows * 20]) + "\n", encoding="utf-8")


def _questions(folder):
    for split, first in (("train", 0), ("dev", 40)):
        asked = [
            {"id": f"q{i}", "question": f"What is number {i}?", "answers": [{"text": f"value{i}", "answer_start": 14}]}
            for i in range(first, first + 20)
        ]
        paragraphs = [{"context": f"The number is value{one['id'][1:]} here.", "qas": [one]} for one in asked]
        data = {"version": "1.1", "data": [{"title": split, "paragraphs": paragraphs}]}
        (folder / f"{split}-v1.1.json").write_text(json.dumps(data), encoding="utf-8")


def _in_folders(text, folders, *splits):
    """Return a function that writes a folder per split, with a folder of text files per class or level."""

    def write(folder):
        for number, split in enumerate(splits):
            for i in range(40 * number, 40 * number + 40):
                file = folder / split / folders[i % len(folders)] / f"{i}.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text(i), encoding="utf-8")

    return write


def _exam(i):
    asked = {"questions": [f"Where is {i}?", "It is _ ."], "options": [["home", "school"]] * 2, "answers": ["B", "A"]}
    return json.dumps({"article": f"Number {i} is at school.", "id": f"high{i}.txt", **asked})


def _tree(i):
    return f"({i % 5} (2 Film{i}) ({i % 5} (2 is) ({i % 5} (2 -LRB-) (2 good))))"


_PAIRS = _files(
    _splits("tsv"), lambda i: f"{i}\tA man {i} eats.\tAda {i} eats.\t{i % 5 + 0.5}", "id\tsentence1\tsentence2\tscore"
)


CASES = {
    "domain": _files({"texts.jsonl": 120}, lambda i: json.dumps({"text": f"{sentence(i, 14)}."})),
    "instructions": _files(_splits("jsonl"), lambda i: json.dumps({"messages": [
        {"role": "user", "content": f"{i}?"}, {"role": "assistant", "content": f"{i}"}]})),
    "ner": _files(_splits("txt"), lambda i: f"Ada B-PER\nmet{i} O\nBob B-PER\n. O\n"),
    "pos": _files({"en-train.conllu": 40, "en-dev.conllu": 20}, lambda i: (
        f"1\tdogs{i}\tdog\tNOUN\t_\t_\t2\tx\t_\t_\n2\tbark\tbark\tVERB\t_\t_\t0\tx\t_\t_\n")),
    "similarity": _PAIRS,
    "squad": _questions,
    "stsb": _PAIRS,
    "summaries": _files(_splits("json"), lambda i: json.dumps({"document": f"Text {i} is long.", "summary": f"{i}."})),
    "swag": _files(
        _splits("csv"), lambda i: f"{i},v{i},{i},Ada {i} opens a,Ada {i} opens,a,gold,door.,book.,car.,box.,{i % 4}",
        ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label",
    ),
    "race_folder": _in_folders(_exam, ("middle", "high"), "train", "dev", "test"),
    "imdb": _in_folders(lambda i: f"A film {i} <br />of its kind.", ("neg", "pos"), "train", "test"),
    "trec": _files({"train_5500.label": 40, "TREC_10.label": 20},
                   lambda i: f"{('DESC:manner', 'NUM:count')[i % 2]} How is caf\xe9 {i} ?", encoding="latin-1"),
    "sst5": _files({**_splits("txt"), "test.txt": 20}, _tree),
    "sst2_trees": _files({**_splits("txt"), "test.txt": 20}, _tree),
    "superglue_rte": _files({"train.jsonl": 40, "val.jsonl": 20}, lambda i: json.dumps(
        {"premise": f"A {i}", "hypothesis": "B", "label": "entailment"})),
    "labels": _files(_splits("csv"), lambda i: f"A text {i} of it,class{i % 4}", "text,label"),
    "scores": _files(_splits("csv"), lambda i: f"A text {i} of it,{i % 5 + 0.5}", "text,score"),
    **{name: partial(_official, name) for name in (*GLUE, *OBJECTS)},
}  # fmt: skip
"""A function that writes the files of each task into a folder."""


def clozeline(*words, cwd):
    """Run the installed command, which has to end well; return what it prints."""
    done = installed(*words, cwd=cwd)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def fitting_set(config, sets, cwd, more):
    """Return the first set on which a training can begin; there must be one."""
    words = ["train", "--config", config, "--dry-run", *more, "output=planned"]
    *others, last = sets
    for one in others:
        if installed(*words, f"data.shards={one}", cwd=cwd).returncode == 0:
            return one
    clozeline(*words, f"data.shards={last}", cwd=cwd)
    return last


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A file of English texts."""
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    write_texts(path, CHARACTERS)
    return path


def make_sets(name, texts, folder):
    """Make the shards of a family's recipe; return the manifests. XLM reads aligned pairs, too."""
    given = str(texts)
    if name == "xlm":
        rows = (f"{sentence(i, 8)}\t{sentence(i + 1000, 9)}\n" for i in range(600))
        (folder / "en-de.tsv").write_text("".join(rows), encoding="utf-8")
        languages = "source: en-de, language: en, target_language: de"
        given = f"[{{path: {texts}}}, {{path: {folder / 'en-de.tsv'}, reader: tsv, {languages}}}]"
    clozeline("pipeline", "--config", f"recipe:{name}", *SMALL, f"input={given}", "output=shards", cwd=folder)
    return sorted(folder.glob("shards/corrupt/*/train/manifest.json"))


@pytest.fixture(scope="module")
def body_of(texts, tmp_path_factory):
    """Return a function that trains a family's small variant for a step on the demo's rows, when it is first asked."""
    folder, runs = tmp_path_factory.mktemp("bodies"), {}

    def find(name):
        if not runs:
            runs["sets"] = make_sets("demo", texts, folder)
        if name not in runs:
            words = ["variant=tiny", "steps=1", "schedule={name: constant}", "evaluate.max_rows=16", f"output={name}"]
            made = fitting_set(f"recipe:{name}", runs["sets"], folder, words)
            clozeline("train", "--config", f"recipe:{name}", f"data.shards={made}", *words, cwd=folder)
            runs[name] = folder / name
        return runs[name]

    return find


def test_every_recipe_of_a_task_is_tried():
    assert sorted(CASES) == TASKS


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_trains_on_a_set_of_its_own(texts, tmp_path, name):
    """As a dry run; small variants and those of a task read other sets, and a student's teacher is not there."""
    sets = make_sets(name, texts, tmp_path)
    for training in trainings():
        if training.recipe == name and training.variant not in ("task", "tiny"):
            alone = ["distil=null"] if "distil" in training.keys else []
            assert fitting_set(f"recipe:{name}", sets, tmp_path, [*training.words, *alone])


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_task(body_of, tmp_path, name):
    """Sets by the tokenizer of a run, and a training that begins with its weights."""
    empty, files = tmp_path / "empty", tmp_path / "files"
    body = body_of({"instructions": "gpt", "summaries": "t5"}.get(name, "bert"))
    for folder in (empty, files):
        folder.mkdir()
    CASES[name](files)
    given = f"input={files}"
    if name == "swag":
        given = f"input=[{{path: {files}/train.csv, source: train}}, {{path: {files}/dev.csv, source: dev}}]"
    stage = "pipeline" if name == "domain" else "tasks"
    words = [given, f"tokenizer.path={body}", "output=shards", "executor.workers=1"]
    words += ["tasks.max_length=64"] if stage == "tasks" else ["heldout.fraction=0.2"]
    clozeline(stage, "--config", f"recipe:tasks/{name}", *words, cwd=empty)
    made = next(iter(sorted(empty.glob("shards/*/*/train/manifest.json"))))
    start = ["steps=1", "schedule={name: constant}", "evaluate.every=1", "output=run", f"data.shards={made}"]
    start += [f"model.init_from={body}"] + (["data.weights=[]"] if name == "domain" else [])
    clozeline("train", "--config", f"recipe:tasks/{name}", *start, cwd=empty)
    assert json.loads((empty / "run" / "status.json").read_text(encoding="utf-8"))["step"] == 1
