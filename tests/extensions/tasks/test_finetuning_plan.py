"""What a fine-tuning says before its first run: numbers that follow rows and width, and given ones."""

import pytest
import yaml

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import to_data
from clozeline.extensions.tasks.finetuning_plan import note_on_body, plan_finetuning
from clozeline.files import publish_json
from clozeline.pipeline.shards import open_shards
from clozeline.train.data.sets.finetuning import plan_learning_rate
from clozeline.train.data.sets.recorded_sets import SETS_FILE, describe_set
from clozeline.train.data.stream.phases import Input
from tests.extensions.tasks.task_runs import TASKS
from tests.sealed_lines import sealed
from tests.shard_sets import toy_set
from tests.train.synthetic import plain_config


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """The folder of a small training set, and a recipe that leaves all to the program."""
    folder = tmp_path_factory.mktemp("task")
    train = TASKS["classes"][0](folder) / "train"
    plain = plain_config(
        data__shards=str(train), steps="auto", optimizer={"name": "adamw", "learning_rate": "auto"}
    )
    recipe = folder / "train.yaml"
    recipe.write_text(yaml.safe_dump(plain | {"schedule": {"name": "linear"}}))
    return recipe, train


def test_everything_follows_rows_and_width_unless_it_is_given(task):
    recipe, train = task
    plan = plan_finetuning(recipe, [], [train], None)

    assert (plan.seeds, plan.steps) == (5, max(40, 2 * plan.rows))  # batches of 8: 16 passes
    assert plan.learning_rate == plan_learning_rate(20)

    for part in ("5 seeds", f"{plan.steps} steps", f"{plan.rows} rows", "width 20", "seeds, steps"):
        assert part in plan.line
    given = plan_finetuning(recipe, ["steps=7", "optimizer.learning_rate=0.5"], [train, train], 2)

    assert (given.seeds, given.steps, given.learning_rate, given.rows) == (2, 7, 0.5, 2 * plan.rows)
    assert "auto" not in given.line
    assert plan_finetuning(recipe, ["steps=2 epochs"], [train], 1).steps == -(-plan.rows // 4)


@pytest.mark.parametrize(
    ("loss", "entropy", "of_task", "shown"),
    [
        (6.5, 7.0, False, "0.50 nats below"),
        (7.5, 7.0, False, "0.50 nats above"),
        (3.0, 7.0, False, ""),
        (0.3, 0.0, False, ""),
        (0.61, 0.69, True, ""),
        (2.0, 5.0, True, ""),
    ],
)
def test_a_body_that_learned_little_is_told(loss, entropy, of_task, shown, task, tmp_path):
    """The losses of a classifier say nothing about texts."""
    shards = open_shards(task[1]) if of_task else toy_set(tmp_path / "set", [4])
    recorded = to_data(describe_set(shards.path, Input(shards)))
    publish_json(tmp_path / SETS_FILE, add_checksum({"format": 1, "sets": [recorded]}))
    heldout = {"heldout": {"loss": loss, "unigram_entropy": entropy, "labels": 9}}
    (tmp_path / "metrics.jsonl").write_text(sealed(step=9, heldout=heldout))
    note = note_on_body(tmp_path)
    assert shown in note if shown else note is None
    assert note_on_body(tmp_path / "exported") is None
