"""A small fine-tuned run, for tools that score it."""

from clozeline.configuration.config import load_config
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.run import run
from tests.pipeline.task_files import (
    make_chat_sets,
    make_choice_sets,
    make_labeled_sets,
    make_question_sets,
    make_sets,
    make_tagged_sets,
    make_text_sets,
    make_worded_sets,
    write_recipe,
)
from tests.train.masked_set import write_config


def start(world, config):
    return run(load_config(TrainConfig, config), joined=world)


def tuned_run(ranks, folder, *, steps=6, **changes):
    """Make the sets of the small task, and a run of a few steps on them."""
    sets = make_sets(folder)
    config = write_config(
        folder / "train.yaml", sets / "train", folder / "run", model__heads={"classification": {"hidden": "tanh"}},
        model__position={"maximum": 64}, optimizer__learning_rate=0.01, steps=steps, **changes,
    )  # fmt: skip
    assert ranks.run(start, config) == [0]
    return folder / "run"


def body_and_recipe(ranks, folder, steps):
    """The files of a small task; a run and a recipe of it, as words of `finetune` and `self-train`."""
    body, recipe, files = tuned_run(ranks, folder / "first"), folder / "toy", folder / "first" / "files"
    recipe.mkdir()
    write_recipe(recipe).rename(recipe / "pipeline.yaml")
    text = "model: {heads: {classification: {hidden: tanh}}}\noptimizer: {name: adamw, learning_rate: 0.01}\n"
    text += "schedule: {name: linear, warmup: 1}\n"
    text += f"data: {{global_batch: 16, lanes: 4, micro_batch: 8}}\nsteps: {steps}\n"
    (recipe / "train.yaml").write_text(text, encoding="utf-8")
    return files, [str(body), f"task={recipe}", f"train={files / 'train.tsv'}", f"dev={files / 'dev.tsv'}"]


WIDE = {"model__init": {"std": 0.2}}
"""At a width of 20 the usual 0.02 lets nothing of a source through in a few steps."""
PAIRED = {"model__family": "encoder_decoder", **WIDE}
TASKS = {
    "several": (lambda folder: make_labeled_sets(folder, "labels: tags"), "classification", 60, {}),
    "tags": (make_tagged_sets, "tagging", 40, {}),
    "questions": (make_question_sets, "span", 80, {}),
    "choices": (make_choice_sets, "multiple_choice", 60, {}),
    "texts": (make_text_sets, "lm", 60, PAIRED),
    "written classes": (make_worded_sets, "lm", 60, PAIRED),
    "dialogues": (make_chat_sets, "lm", 60, {"model__family": "decoder", **WIDE}),
}
"""By task: writer of its sets, head, steps after which it is learned, and the model."""


def learned_run(ranks, folder, task):
    """Make the sets of a small task, and a run that learns them."""
    make, head, steps, more = TASKS[task]
    sets = make(folder)
    config = write_config(
        folder / "train.yaml", sets / "train", folder / "run", model__heads={head: {}}, model__dropout={},
        model__position={"maximum": 64}, data__global_batch=16, steps=steps,
        optimizer__learning_rate=0.01, schedule={"name": "linear", "warmup": min(4, steps), "steps": steps}, **more,
    )  # fmt: skip
    assert ranks.run(start, config) == [0]
    return folder / "run"
