"""A small fine-tuned run, for tools that score it."""

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.run import run_training
from tests.pipeline.task_files import (
    make_choice_sets,
    make_labeled_sets,
    make_question_sets,
    make_sets,
    make_tagged_sets,
    make_text_sets,
    write_recipe,
)
from tests.train.masked_set import write_config


def labeled(answer):
    return lambda folder: make_labeled_sets(folder, answer)


TASKS = {
    "classes": (make_sets, "classification", {"hidden": "tanh", "labels": ["0", "1"]}),
    "several": (
        labeled("labels: tags"),
        "classification",
        {"labels": ["bad", "film", "good"], "multi_label": True},
    ),
    "numbers": (labeled("score: score"), "regression", {}),
    "tags": (make_tagged_sets, "tagging", {"labels": ["O", "B-X", "I-X"]}),
    "words": (labeled("words: words, label: marks"), "tagging", {"labels": ["O", "B-X", "I-X"]}),
    "answers": (make_question_sets, "span", {}),
    "choices": (make_choice_sets, "multiple_choice", {}),
    "texts": (make_text_sets, "lm", {}),
}
"""By name: what makes the sets in a folder, and the head of a run on them with its options."""


def start(world, config, words=()):
    return run_training(load_config(TrainConfig, config, words), joined=world)


def tuned_run(ranks, folder, *, steps=6, **changes):
    """Make the sets of the small task, and a run of a few steps on them."""
    sets = make_sets(folder)
    config = write_config(
        folder / "train.yaml",
        sets / "train",
        folder / "run",
        model__heads={"classification": {"hidden": "tanh"}},
        model__position={"maximum": 64},
        optimizer__learning_rate=0.01,
        steps=steps,
        **changes,
    )

    assert ranks.run(start, config) == [0]

    return folder / "run"


def body_and_recipe(ranks, folder, steps):
    """The files of a small task.

    A run and a recipe of it, as words of `finetune` and `self-train`.
    """
    body = tuned_run(ranks, folder / "first")
    recipe = folder / "toy"
    files = folder / "first/files"
    recipe.mkdir()
    write_recipe(recipe).rename(recipe / "pipeline.yaml")
    text = (
        "model: {heads: {classification: {hidden: tanh}}}\noptimizer: {name: adamw, learning_rate: "
        "0.01}\n"
    )
    text += "schedule: {name: linear, warmup: 1}\n"
    text += f"data: {{global_batch: 16, lanes: 4, micro_batch: 8}}\nsteps: {steps}\n"
    (recipe / "train.yaml").write_text(text)
    return files, [str(body), f"task={recipe}", f"train={files}/train.tsv", f"dev={files}/dev.tsv"]
