"""The small variant of each published training runs on two ranks, and resumes to the same bytes."""

import json
import shutil

import pytest

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from tests.matrices import mark_slow_but
from tests.pipeline.miniature import text
from tests.published.tables import TRAININGS, entries_of
from tests.recipes import RECIPES
from tests.train.runs import start, steps

STEPS = 20
LONGEST = {"max_length": 128, "input_length": 128, "target_length": 64, "min_length": 3}
SEVERAL = ("mt5",)
"""Trainings that read a folder of sets for each language, with one tokenizer."""
TAUGHT = ("babyllama",)
"""Students, of which a run of the same form is the teacher."""


def make_sets(name, folder, first=0, *words):
    """Run the pipeline of the recipe on a few texts, with short rows; return the folder of sets."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "texts.jsonl"
    texts = (text(number, 40) for number in range(first, first + 120))
    lines = (json.dumps({"text": one}) + "\n" for one in texts)
    source.write_text("".join(lines), encoding="utf-8")
    shorter = [
        f"corrupt.{place}.{key}={min(size, entry[key])}"
        for place, entry in enumerate(entries_of(name))
        for key, size in LONGEST.items()
        if key in entry
    ]
    made = ("--config", f"recipe:{name}", f"input={source}", f"output={folder}")
    size = () if words else ("train_tokenizer.size=600",)
    assert run_pipeline([*made, "heldout.fraction=0.1", *size, *shorter, *words]) == 0
    return folder / "corrupt"


def sets_of(name, folder):
    """The folder that the training reads."""
    if name not in SEVERAL:
        return make_sets(name, folder)
    make_sets(name, folder / "en")
    shared = ("train_tokenizer=null", f"tokenizer.path={folder / 'en'}")
    for place, language in enumerate(("de", "sw"), 1):
        make_sets(name, folder / language, 200 * place, *shared, f"corpus=mt5-{language}")
    return folder


@pytest.mark.parametrize("name", mark_slow_but(("nanogpt", "ltg_bert"), TRAININGS))
def test_twenty_steps_on_two_ranks_and_again_from_the_tenth(name, two_ranks, tmp_path):
    output = tmp_path / "run"
    words = [
        *("variant=tiny", f"data.folder={sets_of(name, tmp_path)}", f"output={output}"),
        *(f"steps={STEPS}", "precision=bf16", "zero.stage=1", "evaluate.max_rows=8"),
        *("checkpoint.every=10", "checkpoint.keep_last=2", "schedule.warmup=4"),
    ]
    config = RECIPES / name / "train.yaml"
    if name in TAUGHT:
        teacher = tmp_path / "teacher"
        once = [*words, f"output={teacher}", "distil=null", "steps=2", "schedule.warmup=1"]
        assert two_ranks.run(start, config, once) == [(0, "")] * 2
        words += [f"distil.teacher={teacher}", f"distil.further=[{teacher}]"]

    assert two_ranks.run(start, config, words) == [(0, "")] * 2
    assert len(steps(output)) == STEPS

    last = output / "checkpoints" / f"step-{STEPS:08d}"
    parts = {path.name: path.read_bytes() for path in last.glob("part-*")}
    shutil.rmtree(last)

    assert two_ranks.run(start, config, words) == [(0, "")] * 2
    assert parts
    assert {path.name: path.read_bytes() for path in last.glob("part-*")} == parts
