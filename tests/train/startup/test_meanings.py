"""Sets that give a number another name than the weights learned, at each door of a training."""

import shutil

import pytest

from clozeline.configuration.config import load_config
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.announcements import dry_run
from tests.pipeline.task_files import make_sets
from tests.refusals import refused
from tests.shard_sets import change_manifest
from tests.train.masked_set import write_config
from tests.train.objective_sets import write_objective_sets
from tests.train.runs import complete, evaluations, events

ALLOWED = "checkpoint.allow_changed=[data, model]"
DOORS = {
    "resume": ["output={run}", "data.shards={sets}/train", ALLOWED],
    "init_from": ["model.init_from={run}", "data.shards={sets}/train"],
    "heldout": ["data.heldout={sets}/heldout"],
    "second_set": ["data.shards=[{own}/train, {sets}/train]"],
}


def name_languages(names):
    return lambda manifest: manifest.update(languages=names)


def name_classes(names):
    return lambda manifest: manifest["objective"]["options"]["task"].update(labels=names)


@pytest.fixture(scope="module")
def trained(one_rank, tmp_path_factory):
    """By the head of a run: its folder, with its sets and its configuration."""
    folders = {}
    for head, options in {"masked_lm": {}, "classification": {"hidden": "tanh"}}.items():
        folders[head] = folder = tmp_path_factory.mktemp(head)
        if head == "masked_lm":
            write_objective_sets(folder / "sets", head, languages=True, grouping="document")
        else:
            shutil.copytree(make_sets(folder), folder / "sets")
        config = write_config(
            folder / "train.yaml",
            folder / "sets/train",
            folder / "run",
            model__heads={head: options},
            model__position={"maximum": 64},
            model__languages=4 if head == "masked_lm" else 0,
            evaluate={"every": 2, "max_rows": 8},
            checkpoint={"every": 2, "keep_best": True},
        )
        complete(one_rank, config, ["steps=2"])
    return folders


def start(folder, sets, door, change):
    """Make a dry run at a door, with sets whose manifests are changed."""
    for manifest in sets.glob("*/manifest.json"):
        change_manifest(manifest.parent, change)
    paths = {"run": folder / "run", "sets": sets, "own": folder / "sets"}
    words = [f"output={sets}/new", *(word.format(**paths) for word in DOORS[door])]
    return dry_run(load_config(TrainConfig, folder / "train.yaml", words))


@pytest.fixture
def other_rows(tmp_path):
    write_objective_sets(tmp_path, "masked_lm", 100, languages=True, grouping="document")
    return tmp_path


@pytest.mark.parametrize("door", DOORS)
def test_other_languages_are_refused(trained, other_rows, door):
    with refused(r"language 0 is 'cs' .* but 'de' "):
        start(trained["masked_lm"], other_rows, door, name_languages(["cs", "de"]))


@pytest.mark.parametrize("door", DOORS)
def test_a_further_language_is_not(trained, other_rows, door):
    assert start(trained["masked_lm"], other_rows, door, name_languages(["de", "en", "fr"])) == 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["1", "0"], r"class 0 of the head classification is '1' .* but '0' "),
        (["0", "1", "2"], r"classes of the head classification is '3' .* but '2' "),
    ],
)
def test_other_classes_do_not_continue_a_head(trained, tmp_path, names, message):
    folder = trained["classification"]
    sets = shutil.copytree(folder / "sets", tmp_path / "sets")
    with refused(message):
        start(folder, sets, "resume", name_classes(names))


def test_a_head_of_other_classes_is_new(trained, tmp_path, capsys):
    folder = trained["classification"]
    sets = shutil.copytree(folder / "sets", tmp_path / "sets")

    assert start(folder, sets, "init_from", name_classes(["1", "0"])) == 0
    assert "new: heads.classification" in capsys.readouterr().out


def test_losses_on_other_held_out_sets_are_not_compared(one_rank, trained, tmp_path):
    """The step of the checkpoint is evaluated again, on the set of the start."""
    folder = shutil.copytree(trained["masked_lm"], tmp_path / "copy")
    others = shutil.copytree(folder / "sets/train", tmp_path / "others")
    before = StoredCheckpoint.find(folder / "run").state
    words = [f"output={folder}/run", f"data.heldout={others}", "steps=4"]

    complete(one_rank, folder / "train.yaml", words)

    assert [event["step"] for event in events(folder / "run", "new_heldout")] == [2]

    again = StoredCheckpoint.find(folder / "run", 2).state
    best = StoredCheckpoint.find(folder / "run", "best").state
    losses = [each["loss"] for each in evaluations(folder / "run")]

    assert again.heldout_loss == losses[0] != before.heldout_loss
    assert again.heldout_sets == best.heldout_sets != before.heldout_sets
    assert best.heldout_loss == min(losses)
