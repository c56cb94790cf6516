"""Fixtures of runs and outputs that tests of commands share, in `tools/` and in extensions.

What they need is imported where it is used: most folders of tests do without it.
"""

import shutil
from functools import cache
from pathlib import Path

import pytest

from tests.built_once import built_once


@pytest.fixture(scope="session")
def tuned(one_rank, tmp_path_factory):
    """A run of a few steps on a small task, which no test changes."""
    from tests.extensions.tasks.task_runs import tuned_run

    return tuned_run(one_rank, tmp_path_factory.mktemp("tuned"))


@pytest.fixture(scope="session")
def encoder(shard_sets, tmp_path_factory):
    """An untrained masked LM of the sets: its run, and what is opened of it."""
    from clozeline.train.checkpoint.trained_model import TrainedModel
    from tests.train.written_runs import write_run

    run = tmp_path_factory.mktemp("encoder")
    write_run(run, shard_sets, [3], 1)
    return run, TrainedModel.open(run)


@pytest.fixture(scope="session")
def decoder(shard_sets, tmp_path_factory):
    """The same of a causal LM."""
    from clozeline.train.checkpoint.trained_model import TrainedModel
    from tests.train.written_runs import write_run

    run = tmp_path_factory.mktemp("decoder")
    write_run(
        run, shard_sets, [3], 1, "causal_lm", model__family="decoder", model__heads={"lm": 1.0}
    )
    return run, TrainedModel.open(run)


@pytest.fixture(scope="session")
def bert(shard_sets, tmp_path_factory):
    """An untrained run that transformers has a class for."""
    from tests.train.written_runs import BERT, write_run

    run = tmp_path_factory.mktemp("bert")
    write_run(run, shard_sets, [3], 2, **BERT)
    return run


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Runs with wide random weights, whose predictions differ from row to row.

    Each is made once.
    """
    from tests.extensions.tasks.task_runs import TASKS
    from tests.train.written_runs import write_run_on

    @cache
    def run_of(name):
        folder = tmp_path_factory.mktemp(name)
        make, head, options = TASKS[name]
        manifest = make(folder) / "train" / "manifest.json"
        family = {"model__family": "encoder_decoder"} if head == "lm" else {}
        write_run_on(
            folder / "run",
            manifest,
            [3],
            1,
            model__heads={head: options},
            model__init={"std": 0.5},
            **family,
        )

        return folder

    return run_of


@pytest.fixture
def output(shard_sets, tmp_path):
    return Path(shutil.copytree(shard_sets, tmp_path / "out"))


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """The output of a whole run, which all workers share and no test changes."""
    from clozeline.pipeline.execution.recipe_command import main as run_pipeline
    from tests.pipeline.miniature import write_corpus, write_recipe

    def make(folder):
        folder.mkdir()
        words = [f"input={write_corpus(folder / 'crawl')}", f"output={folder / 'out'}"]
        assert run_pipeline(["--config", str(write_recipe(folder)), *words]) == 0

    return built_once(tmp_path_factory, "counts", make) / "out"
