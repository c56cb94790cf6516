"""A small fine-tuned run, for tools that score it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.pipeline.task_files import (
    make_chat_sets,
    make_choice_sets,
    make_labeled_sets,
    make_question_sets,
    make_sets,
    make_tagged_sets,
    make_text_sets,
    make_worded_sets,
)
from tests.train.masked_set import write_config


def _start(world: World, config: Path) -> int:
    return run(load_config(TrainConfig, config), joined=world)


def tuned_run(ranks: RankPool, folder: Path, *, steps: int = 6, **changes: Any) -> Path:
    """Make the sets of the small task, and a run of a few steps on them."""
    sets = make_sets(folder)
    config = write_config(
        folder / "train.yaml", sets / "train", folder / "run", model__heads={"classification": {"hidden": "tanh"}},
        model__position={"maximum": 64}, optimizer__learning_rate=0.01, steps=steps, **changes,
    )  # fmt: skip
    assert ranks.run(_start, config) == [0]
    return folder / "run"


def several_run(ranks: RankPool, folder: Path, *, steps: int = 60) -> Path:
    """Make the sets of the small task with several classes per row, and a short run on them."""
    return _run_of(ranks, folder, make_labeled_sets(folder, "labels: tags"), "classification", steps)


def tagged_run(ranks: RankPool, folder: Path, *, steps: int = 40) -> Path:
    """Make the sets of the small tagged task, and a run that learns them."""
    return _run_of(ranks, folder, make_tagged_sets(folder), "tagging", steps)


def question_run(ranks: RankPool, folder: Path, *, steps: int = 80) -> Path:
    """Make the sets of the small task of questions, and a run that learns them."""
    return _run_of(ranks, folder, make_question_sets(folder), "span", steps)


def choice_run(ranks: RankPool, folder: Path, *, steps: int = 60) -> Path:
    """Make the sets of the small task of choices, and a run that learns them."""
    return _run_of(ranks, folder, make_choice_sets(folder), "multiple_choice", steps)


def text_run(ranks: RankPool, folder: Path, *, steps: int = 60) -> Path:
    """Make the sets of the small task of texts, and a short run of an encoder-decoder."""
    wide = {"std": 0.2}  # at a width of 20 the usual 0.02 lets nothing of the source through in so few steps
    return _run_of(
        ranks, folder, make_text_sets(folder), "lm", steps, model__family="encoder_decoder", model__init=wide
    )


def worded_run(ranks: RankPool, folder: Path, *, steps: int = 60) -> Path:
    """Make the sets of the small task in words, and a short run of an encoder-decoder that writes the classes."""
    wide = {"std": 0.2}
    return _run_of(
        ranks, folder, make_worded_sets(folder), "lm", steps, model__family="encoder_decoder", model__init=wide
    )


def chat_run(ranks: RankPool, folder: Path, *, steps: int = 60) -> Path:
    """Make the sets of the small task of dialogues, and a run of a decoder that learns them."""
    return _run_of(
        ranks, folder, make_chat_sets(folder), "lm", steps, model__family="decoder", model__init={"std": 0.2}
    )


def _run_of(ranks: RankPool, folder: Path, sets: Path, head: str, steps: int, **more: Any) -> Path:
    config = write_config(
        folder / "train.yaml", sets / "train", folder / "run", model__heads={head: {}}, model__dropout={},
        model__position={"maximum": 64}, data__global_batch=16, steps=steps,
        optimizer__learning_rate=0.01, schedule={"name": "linear", "warmup": min(4, steps), "steps": steps}, **more,
    )  # fmt: skip
    assert ranks.run(_start, config) == [0]
    return folder / "run"
