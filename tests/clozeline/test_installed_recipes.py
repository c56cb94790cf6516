"""Recipes through the installed command, from an empty folder: shards of every family, and its trainings planned."""

import json
import random
from pathlib import Path

import pytest

from tests.clozeline.installed import installed
from tests.recipes import trainings
from tests.test_task_recipes import GLUE
from tests.test_tiny_recipes import write_texts

RECIPES = Path(__file__).parents[2] / "configs" / "recipes"
FAMILIES = sorted(path.parent.name for path in RECIPES.glob("*/train.yaml"))
SMALL = ("train_tokenizer.size=2000", "heldout.fraction=0.1", "clean.filters=[]", "executor.workers=1")
CHARACTERS = 700_000


def sentence(number, length):
    """Return words that no other number shares."""
    drawn = random.Random(number)
    return " ".join("".join(drawn.choices("aeioulnrst", k=6)) for _ in range(length))


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


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_trains_on_a_set_of_its_own(texts, tmp_path, name):
    """As a dry run; small variants and those of a task read other sets, and a student's teacher is not there."""
    sets = make_sets(name, texts, tmp_path)
    for training in trainings():
        if training.recipe == name and training.variant not in ("task", "tiny"):
            alone = ["distil=null"] if "distil" in training.keys else []
            if "phases" in training.keys["data"]:
                words = [*training.words, "data.folder=shards/corrupt", "output=planned", "--dry-run"]
                clozeline("train", "--config", f"recipe:{name}", *words, cwd=tmp_path)
                continue
            assert fitting_set(f"recipe:{name}", sets, tmp_path, [*training.words, *alone])


@pytest.mark.slow
def test_a_task_begins_with_the_weights_of_a_run(texts, tmp_path):
    """From an empty folder; other recipes of tasks differ in readers and heads."""
    sets = make_sets("demo", texts, tmp_path)
    begun = ["variant=tiny", "steps=1", "schedule={name: constant}", "evaluate.max_rows=16", "output=body"]
    made = fitting_set("recipe:bert", sets, tmp_path, begun)
    clozeline("train", "--config", "recipe:bert", *begun, f"data.shards={made}", cwd=tmp_path)
    (tmp_path / "files").mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / "files" / name).write_text(GLUE["cola"][0] * 20, encoding="utf-8")
    words = ["input=files", "tokenizer.path=body", "output=sets", "tasks.max_length=64", "executor.workers=1"]
    clozeline("tasks", "--config", "recipe:tasks/cola", *words, cwd=tmp_path)
    start = ["steps=1", "schedule={name: constant}", "output=run", "model.init_from=body"]
    clozeline("train", "--config", "recipe:tasks/cola", *start, "data.shards=sets/tasks/cola/train", cwd=tmp_path)
    assert json.loads((tmp_path / "run" / "status.json").read_text(encoding="utf-8"))["step"] == 1
