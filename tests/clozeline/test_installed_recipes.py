"""Every recipe through the installed command, from an empty folder: its shards, its trainings planned, one begun."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.clozeline.installed import installed
from tests.recipes import trainings
from tests.test_tiny_recipes import write_texts

RECIPES = Path(__file__).parents[2] / "configs" / "recipes"
FAMILIES = sorted(path.parent.name for path in RECIPES.glob("*/train.yaml"))
TASKS = sorted(path.stem for path in RECIPES.glob("tasks/*.yaml"))
SMALL = ("train_tokenizer.size=2000", "heldout.fraction=0.1", "clean.filters=[]", "executor.workers=1")
CHARACTERS = 700_000


@dataclass(frozen=True)
class Task:
    """What a task's recipe is tried on.

    Args:
        body: recipe whose run gives the tokenizer and the weights.
        write: writes the files of the task into a folder and returns the value of `input`.
    """

    body: str
    write: Callable[[Path], str]


def sentence(number, length):
    """Return words that no other number shares."""
    drawn = random.Random(number)
    return " ".join("".join(drawn.choices("aeioulnrst", k=6)) for _ in range(length))


def _table(name, header, row):
    def write(folder):
        for split, first in (("train", 0), ("dev", 40)):
            rows = [
                row.format(i=i, bit=i % 2, four=i % 4, score=i % 5 + 0.5) for i in range(first, first + 40 - first // 2)
            ]
            (folder / name.format(split=split)).write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
        return str(folder)

    return write


def _json_lines(ending, row):
    def write(folder):
        for split, first in (("train", 0), ("dev", 40)):
            rows = [json.dumps(row(i)) for i in range(first, first + 40 - first // 2)]
            (folder / f"{split}.{ending}").write_text("\n".join(rows) + "\n", encoding="utf-8")
        return str(folder)

    return write


def _words(train, dev, sentence):
    def write(folder):
        for name, first in ((train, 0), (dev, 40)):
            found = [sentence.replace("dogs", f"dogs{i}").replace("met", f"met{i}") for i in range(first, first + 40)]
            (folder / name).write_text("".join(found), encoding="utf-8")
        return str(folder)

    return write


def _questions(folder):
    for split, first in (("train", 0), ("dev", 40)):
        asked = [
            {"id": f"q{i}", "question": f"What is number {i}?", "answers": [{"text": f"value{i}", "answer_start": 14}]}
            for i in range(first, first + 20)
        ]
        paragraphs = [{"context": f"The number is value{int(one['id'][1:])} here.", "qas": [one]} for one in asked]
        data = {"version": "1.1", "data": [{"title": split, "paragraphs": paragraphs}]}
        (folder / f"{split}-v1.1.json").write_text(json.dumps(data), encoding="utf-8")
    return str(folder)


def _endings(folder):
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
    row = "{i},v{i},{i},Someone {i} opens a,Someone {i} opens,a,gold,door.,book.,car.,box.,{four}"
    _table("{split}.csv", header, row)(folder)
    return f"[{{path: {folder}/train.csv, source: train}}, {{path: {folder}/dev.csv, source: dev}}]"


def _short_texts(folder):
    path = folder / "texts.jsonl"
    rows = (json.dumps({"text": f"{sentence(i, 14)}."}) for i in range(120))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(path)


def _matched(folder):
    """MNLI's two dev sets, one of which is enough."""
    written = _table(
        "{split}.tsv", "index\tsentence1\tsentence2\tgold_label", "{i}\tAda met {i}\tBob met {i}\tneutral"
    )(folder)
    (folder / "dev.tsv").rename(folder / "dev_matched.tsv")
    return written


def _objects(row):
    """Lines of JSON in the files of SuperGLUE: train.jsonl and val.jsonl."""

    def write(folder):
        _json_lines("jsonl", row)(folder)
        (folder / "dev.jsonl").rename(folder / "val.jsonl")
        return str(folder)

    return write


def _pronoun(i):
    target = {"span1_text": f"Ada{i}", "span1_index": 0, "span2_text": "she", "span2_index": 2}
    return {"text": f"Ada{i} says she won", "label": bool(i % 2), "idx": i, "target": target}


def _passage(i):
    answers = [{"text": "Ada", "idx": 0, "label": 1}, {"text": "Bob", "idx": 1, "label": 0}]
    return {
        "idx": i,
        "passage": {"text": f"Ada met {i}.", "questions": [{"question": "Who?", "idx": 0, "answers": answers}]},
    }


def _blank(i):
    passage = {"text": f"Ada{i} met Bob.", "entities": [{"start": 0, "end": len(f"Ada{i}") - 1}]}
    answers = [{"start": 0, "end": len(f"Ada{i}") - 1, "text": f"Ada{i}"}]
    return {"idx": i, "passage": passage, "qas": [{"query": "@placeholder won", "idx": i, "answers": answers}]}


def _in_folders(text, folders, *splits):
    """A folder per split, with a folder of text files per class or level."""

    def write(folder):
        for number, split in enumerate(splits):
            for i in range(40 * number, 40 * number + 40):
                file = folder / split / folders[i % len(folders)] / f"{i}.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text(i), encoding="utf-8")
        return str(folder)

    return write


def _exam(i):
    asked = {"questions": [f"Where is {i}?", "It is _ ."], "options": [["home", "school"]] * 2, "answers": ["B", "A"]}
    return json.dumps({"article": f"Number {i} is at school.", "id": f"high{i}.txt", **asked})


def _lines(*names, line, encoding="utf-8"):
    def write(folder):
        for number, name in enumerate(names):
            rows = [line(i) for i in range(40 * number, 40 * number + 40)]
            (folder / name).write_text("\n".join(rows) + "\n", encoding=encoding)
        return str(folder)

    return write


def _question_type(i):
    return f"{('DESC:manner', 'NUM:count')[i % 2]} How is caf\xe9 {i} ?"


def _tree(i):
    return f"({i % 5} (2 Film{i}) ({i % 5} (2 is) ({i % 5} (2 -LRB-) (2 good))))"


_DOGS = "1\tdogs\tdog\tNOUN\t_\t_\t2\tx\t_\t_\n2\tbark\tbark\tVERB\t_\t_\t0\tx\t_\t_\n\n"
_PAIRS = _table("{split}.tsv", "index\tsentence1\tsentence2\tscore", "{i}\tA man {i} eats.\tSomeone {i} eats.\t{score}")
CASES = {
    "domain": Task("bert", _short_texts),
    "instructions": Task(
        "gpt",
        _json_lines(
            "jsonl",
            lambda i: {"messages": [{"role": "user", "content": f"{i}?"}, {"role": "assistant", "content": f"{i}"}]},
        ),
    ),
    "ner": Task("bert", _words("train.txt", "dev.txt", "Ada B-PER\nmet O\nBob B-PER\n. O\n\n")),
    "pos": Task("bert", _words("en-train.conllu", "en-dev.conllu", _DOGS)),
    "similarity": Task("bert", _PAIRS),
    "squad": Task("bert", _questions),
    "sst2": Task("bert", _table("{split}.tsv", "sentence\tlabel", "a film {i} of its kind\t{bit}")),
    "stsb": Task("bert", _PAIRS),
    "summaries": Task("t5", _json_lines("json", lambda i: {"document": f"Text {i} is long.", "summary": f"Text {i}."})),
    "swag": Task("bert", _endings),
    "cola": Task("bert", _table("{split}.tsv", "gj04\t1\t\tA first row.", "gj04\t{bit}\t\tRow {i} of it.")),
    "mrpc": Task(
        "bert", _table("{split}.tsv", "Quality\tid1\tid2\t#1 String\t#2 String", "{bit}\t{i}\t{i}\tAda {i}\tBob {i}")
    ),
    "qqp": Task(
        "bert", _table("{split}.tsv", "id\tquestion1\tquestion2\tis_duplicate", "{i}\tIs it {i}?\tWas it {i}?\t{bit}")
    ),
    "mnli": Task("bert", _matched),
    "qnli": Task(
        "bert", _table("{split}.tsv", "index\tquestion\tsentence\tlabel", "{i}\tIs it {i}?\tIt is {i}.\tentailment")
    ),
    "rte": Task(
        "bert", _table("{split}.tsv", "index\tsentence1\tsentence2\tlabel", "{i}\tAda {i}\tBob {i}\tnot_entailment")
    ),
    "wnli": Task("bert", _table("{split}.tsv", "index\tsentence1\tsentence2\tlabel", "{i}\tAda {i}\tBob {i}\t{bit}")),
    "snli": Task(
        "bert", _json_lines("jsonl", lambda i: {"gold_label": "neutral", "sentence1": f"Ada {i}", "sentence2": "B"})
    ),
    "boolq": Task(
        "bert", _objects(lambda i: {"question": f"is it {i}", "passage": f"It is {i}.", "label": i % 2 == 0})
    ),
    "cb": Task("bert", _objects(lambda i: {"premise": f"Ada {i}", "hypothesis": "Bob", "label": "neutral", "idx": i})),
    "wic": Task(
        "bert",
        _objects(lambda i: {"word": "met", "sentence1": f"I met {i}", "sentence2": "She met me", "label": i % 2 == 0}),
    ),
    "wsc": Task("bert", _objects(_pronoun)),
    "multirc": Task("bert", _objects(_passage)),
    "copa": Task(
        "bert",
        _objects(
            lambda i: {"premise": f"Rain {i}", "choice1": "wet", "choice2": "dry", "question": "effect", "label": i % 2}
        ),
    ),
    "record": Task("bert", _objects(_blank)),
    "race_exams": Task(
        "bert",
        _objects(
            lambda i: {
                "article": f"It is {i}.",
                "question": "What?",
                "options": ["a", "b", "c", "d"],
                "answer": "ABCD"[i % 4],
            }
        ),
    ),
    "race_folder": Task("bert", _in_folders(_exam, ("middle", "high"), "train", "dev", "test")),
    "imdb": Task("bert", _in_folders(lambda i: f"A film {i} <br />of its kind.", ("neg", "pos"), "train", "test")),
    "trec": Task("bert", _lines("train_5500.label", "TREC_10.label", line=_question_type, encoding="latin-1")),
    "sst5": Task("bert", _lines("train.txt", "dev.txt", "test.txt", line=_tree)),
    "sst2_trees": Task("bert", _lines("train.txt", "dev.txt", "test.txt", line=_tree)),
    "superglue_rte": Task("bert", _objects(lambda i: {"premise": f"A {i}", "hypothesis": "B", "label": "entailment"})),
    "labels": Task("bert", _table("{split}.csv", "text,label", "A text {i} of it,class{four}")),
    "scores": Task("bert", _table("{split}.csv", "text,score", "A text {i} of it,{score}")),
}


ONE_STEP = ["steps=1", "schedule={name: constant}", "evaluate.max_rows=16"]


class Runs:
    """Shards and one run of the recipe of each family, made when they are first asked for."""

    def __init__(self, folder):
        self._folder = folder
        self._texts = folder / "texts.jsonl"
        write_texts(self._texts, CHARACTERS)

    def of(self, name):
        """Return the folder of a family's run; each of its training files is planned on a set of the recipe."""
        folder = self._folder / name
        run = folder / "run"
        if folder.exists():
            assert (run / "status.json").is_file(), f"{name} failed before"
            return run
        folder.mkdir()
        words = [*SMALL, f"input={self._input(name, folder)}", "output=shards"]
        clozeline("pipeline", "--config", f"recipe:{name}", *words, cwd=folder)
        sets = sorted(folder.glob("shards/corrupt/*/train/manifest.json"))
        assert sets, words
        for training in trainings():
            if training.recipe != name or training.variant == "task":  # reads sets and weights of a task
                continue
            # small variants read short rows, which the demo has
            is_tiny = training.variant == "tiny"
            more = sorted(self.of("demo").parent.glob("shards/corrupt/*/train/*.json")) if is_tiny else []
            begun = [*training.words, *self._teacher_words(training, sets[0])]
            fitting = fitting_set(f"recipe:{name}", [*sets, *more], folder, begun)
        begun += [f"data.shards={fitting}", "output=run", *ONE_STEP]
        clozeline("train", "--config", f"recipe:{name}", *begun, cwd=folder)
        return run

    def _teacher_words(self, training, shards):
        """The teacher of a small student, a run on the student's rows; the recipe's own size is planned without one."""
        if "distil" not in training.keys:
            return []
        if training.variant != "tiny":
            return ["distil=null"]
        folder = shards.parents[4]
        words = [f"data.shards={shards}", "output=teacher", *ONE_STEP]
        clozeline("train", "--config", "recipe:bert", "variant=tiny", *words, cwd=folder)
        return [f"distil.teacher={folder / 'teacher'}"]

    def _input(self, name, folder):
        """Texts; for XLM aligned pairs too."""
        if name != "xlm":
            return str(self._texts)
        pairs = folder / "en-de.tsv"
        rows = (f"{sentence(i, 8)}\t{sentence(i + 1000, 9)}\n" for i in range(600))
        pairs.write_text("".join(rows), encoding="utf-8")
        languages = "source: en-de, language: en, target_language: de"
        return f"[{{path: {self._texts}}}, {{path: {pairs}, reader: tsv, {languages}}}]"


def clozeline(*words, cwd):
    """Run the installed command, which has to end well; return what it prints."""
    done = installed(*words, cwd=cwd)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def fitting_set(config, sets, cwd, more):
    """Return the first set on which a training can begin; there must be one."""
    words = ["train", "--config", config, "output=planned", "--dry-run", *more]
    *others, last = sets
    for one in others:
        if installed(*words, f"data.shards={one}", cwd=cwd).returncode == 0:
            return one
    clozeline(*words, f"data.shards={last}", cwd=cwd)
    return last


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What the recipes of families make."""
    return Runs(tmp_path_factory.mktemp("recipes"))


def test_every_recipe_of_a_task_is_tried():
    assert sorted(CASES) == TASKS


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family(runs, name):
    assert json.loads((runs.of(name) / "status.json").read_text(encoding="utf-8"))["step"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_task(runs, tmp_path, name):
    """Sets by the tokenizer of a run, and a training that begins with its weights."""
    task, empty = CASES[name], tmp_path / "empty"
    body = runs.of(task.body)
    for folder in (empty, tmp_path / "files"):
        folder.mkdir()
    given = f"input={task.write(tmp_path / 'files')}"
    stage = "pipeline" if name == "domain" else "tasks"
    words = [given, f"tokenizer.path={body}", "output=shards", "executor.workers=1"]
    words += ["tasks.max_length=64"] if stage == "tasks" else ["heldout.fraction=0.2"]
    clozeline(stage, "--config", f"recipe:tasks/{name}", *words, cwd=empty)
    made = next(iter(sorted(empty.glob("shards/*/*/train/manifest.json"))))
    start = [
        "steps=1",
        "schedule={name: constant}",
        "evaluate.every=1",
        "output=run",
        f"data.shards={made}",
    ]
    start += [f"model.init_from={body}"] + (["data.weights=[]"] if name == "domain" else [])
    clozeline("train", "--config", f"recipe:tasks/{name}", *start, cwd=empty)
    assert json.loads((empty / "run" / "status.json").read_text(encoding="utf-8"))["step"] == 1


@pytest.mark.slow
def test_summaries_from_an_encoder(runs, tmp_path):
    """The recipe that gives an encoder-decoder the weights of an encoder, of another size than the recipe's."""
    body = runs.of("bert")
    (tmp_path / "files").mkdir()
    given = [f"input={CASES['summaries'].write(tmp_path / 'files')}", f"tokenizer.path={body}", "output=shards"]
    clozeline("tasks", "--config", "recipe:tasks/summaries", *given, "tasks.max_length=64", cwd=tmp_path)
    model = yaml.safe_load((body / "config.yaml").read_text(encoding="utf-8"))["model"]
    keys = ("dim", "layers", "attention_heads", "ffn_dim", "type_vocab_size", "position")
    sizes = [f"model.{key}={json.dumps(model[key])}" for key in keys]
    made = tmp_path / "shards" / "tasks" / "summaries" / "train" / "manifest.json"
    start = [
        "variant=from_encoder",
        "steps=1",
        "schedule={name: constant}",
        "output=run",
        f"data.shards={made}",
        f"model.init_from={body}",
    ]
    clozeline("train", "--config", "recipe:tasks/summaries", *start, *sizes, cwd=tmp_path)
