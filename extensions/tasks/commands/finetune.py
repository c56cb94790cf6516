"""Fine-tune a model on a task with several seeds, and print one table.

Each run is scored next to its baselines.

`clozeline finetune BODY task=sst2 train=FILE dev=FILE output=DIR [seeds=auto] [from=all] [key=value
...]` makes the task's sets with the tokenizer of BODY, trains one run per seed, and scores it on
`dev`. Seeds, steps and learning rate follow the rows and the width of BODY, unless you give them.
`from` selects what is initialized from BODY: all, embeddings, or random (nothing). Words that start
with `tasks.` or `tokenizer.` go to the pipeline, all others to `train/main.py`: `steps=500`,
`freeze=body`. If the recipe's `tasks.frame` is for another architecture than BODY's, a decoder gets
GPT's, with the special tokens that its tokenizer lacks, and an encoder-decoder T5's or BART's. The
same command resumes after an interruption; seeds with a score are not run again. `compare=DIR
compare=DIR` prints the table of several outputs, each compared with the first. `pseudo=FILE` adds
training rows, such as those that a run has labeled (`clozeline pseudo-label`). `tests='{de: FILE,
fr: FILE}'` scores each run on more files, for example of other languages; `matrix=DIR matrix=DIR`
prints the table of outputs by files. `average=DIR average=DIR` averages tasks as GLUE and SuperGLUE
do. `search='{optimizer.learning_rate: [3e-4, 1e-3], steps: [200, 400]}'` first chooses keys on a
part of the training rows.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from clozeline.command_line import ChoosesMode, OtherKeys, Positional
from clozeline.configuration.config import config_class, config_file, read_composed
from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks import finetuning_scores
from clozeline.extensions.tasks.finetuning_plan import (
    FinetuningPlan,
    plan_finetuning,
    tell_time,
)
from clozeline.extensions.tasks.sets.task_rows import FRAMES
from clozeline.files import publish_json
from clozeline.model.registries import FAMILIES
from clozeline.pipeline.recipe import Recipe
from clozeline.tools.command import (
    ModelPath,
    OutputPath,
    Positive,
    UserPath,
    run_as_script,
    run_tool,
)
from clozeline.tools.start.multirun.runner import (
    ExperimentTraining,
    check_settings,
    check_training,
    collect_all,
    experiment_settings,
    run_step,
    write_settings,
)
from clozeline.train.checkpoint.trained_model import read_config
from clozeline.train.configuration.model_source import with_source
from clozeline.train.logs.diagnosis import diagnose_run

_WORDS_BY_BEGIN: Final = {
    "all": [],
    "embeddings": ["init_parts=embeddings"],
    "random": ["init_parts=none"],
}


@config_class
class FinetuneOptions:
    """A task, its files, and the runs."""

    task: str
    """recipe of the task: sst2, or a folder with a pipeline.yaml and a train.yaml"""
    train: Path
    """file with the training rows"""
    output: OutputPath
    """folder for all sets, runs and scores"""
    dev: Path | None = None
    """file with the rows to score; null: a share of `train`, by tasks.split_off='{dev: 0.2}'"""
    pseudo: Path | None = None
    """file with more training rows, such as those labeled by clozeline pseudo-label"""
    tests: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")], Path] = field(
        default_factory=dict
    )
    """more files to score the runs on, by name: {de: FILE, fr: FILE}"""
    seeds: Positive | Literal["auto"] = "auto"
    """number of runs, with the seeds 0, 1, ...; can be increased later. auto: 5 up to 1,000
    training rows, 3 up to 10,000, then 1. The recipe's `steps` and `optimizer.learning_rate` are
    auto, too: by the rows, and by the width of BODY; a number that you give wins"""
    search: dict[str, Annotated[list[Any], Field(min_length=1)]] = field(default_factory=dict)
    """values of keys of the training to choose from, on a part of the training rows: {steps: [200,
    400]}"""
    search_share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """share of the training rows that choose"""
    begin: Annotated[Literal["all", "embeddings", "random"], Field(alias="from")] = "all"
    """weights that a run takes from BODY"""

    def check_dev(self, overrides: Sequence[str]) -> None:
        """Raise ConfigurationError without rows to score, or if a search would read them."""
        if self.dev is None and not any(word.startswith("tasks.split_off=") for word in overrides):
            raise ConfigurationError(
                "dev: expected a file with rows to score, or tasks.split_off='{dev: 0.2}', got none"
            )
        if self.dev is None and self.search:
            raise ConfigurationError(
                "search: needs rows that it does not choose by: give them as a file, dev=FILE"
            )


@config_class
class FinetuneCommand(FinetuneOptions):
    """A model, a task with its files, and the runs."""

    body: Annotated[ModelPath, Positional(0)]
    """a run, or a folder with a model"""
    words: Annotated[tuple[str, ...], OtherKeys("keys of the training, tasks. and tokenizer.")] = ()


@config_class
class Comparison:
    """Outputs of this tool to compare."""

    compare: Annotated[list[UserPath], ChoosesMode(), Positional(0, "compare=DIR")]
    """an output of this tool, to compare with others; may be repeated"""


@config_class
class TestMatrix:
    """Outputs of this tool to show by their tests."""

    matrix: Annotated[list[UserPath], ChoosesMode(), Positional(0, "matrix=DIR")]
    """an output of this tool, to show by its tests; may be repeated"""


@config_class
class TaskAverage:
    """Outputs of this tool, of a task each, to average."""

    average: Annotated[list[UserPath], ChoosesMode(), Positional(0, "average=DIR")]
    """an output of this tool, a task each, to average; may be repeated"""


def finetune(body: Path, options: FinetuneOptions, overrides: Sequence[str]) -> FinetuningPlan:
    """Make the sets, then train and score every seed that has no score yet.

    Return the plan that all runs share.

    `overrides` are for stage and training.
    """
    options.check_dev(overrides)
    output = options.output.resolve()
    # the user's folder, or one of our recipes
    task_folder = Path(options.task)
    recipes = {
        file_name: (
            task_folder / file_name
            if task_folder.is_dir()
            else config_file(f"recipe:tasks/{options.task}", file_name)
        ).resolve()
        for file_name in ("pipeline.yaml", "train.yaml")
    }
    # what identifies the runs of the folder
    settings = {"body": str(body.resolve()), "overrides": list(overrides)} | experiment_settings(
        options, "output", "seeds", "body", "words"
    )
    check_settings(output / "finetune.json", settings)
    stage_words = [word for word in overrides if word.startswith(("tasks.", "tokenizer."))]
    training_words = [word for word in overrides if word not in stage_words]
    train_files = {"train": options.train} | (
        {} if options.pseudo is None else {"train_pseudo": options.pseudo}
    )
    scored_files = {"dev": options.dev} | {
        f"test_{name}": file for name, file in options.tests.items()
    }

    def make_sets(folder: Path, splits: Mapping[str, Path | None], *more: str) -> str:
        """Make the sets of files by split; return the `data.shards` of the training."""
        entries = [
            f"{{path: {file.resolve()}, source: {split}}}"
            for split, file in splits.items()
            if file is not None
        ]

        files = f"[{', '.join(entries)}]"
        stage: list[str | Path] = [
            "python",
            "-m",
            "clozeline.pipeline",
            "--config",
            recipes["pipeline.yaml"],
        ]

        stage += [
            f"input={files}",
            f"tokenizer.path={body.resolve()}",
            f"output={folder / 'sets'}",
            *stage_words,
        ]

        run_step(*stage, *more, accelerator=None)
        (train,) = sorted((folder / "sets" / "tasks").glob("*/train"))
        sets = [str(train.with_name(split)) for split in train_files]
        return sets[0] if len(sets) == 1 else f"[{', '.join(sets)}]"

    def overrides_for(shards: str, seed: int) -> list[str]:
        """Return the words of a training, without its output."""
        words = [
            f"model.init_from={body.resolve()}",
            f"data.shards={shards}",
            f"seed={seed}",
            f"data.seed={seed}",
        ]
        return [*words, *_WORDS_BY_BEGIN[options.begin], *training_words]

    if not any(output.glob("seed-*")):
        for chosen in combinations(options.search):
            check_training(
                recipes["train.yaml"],
                [*overrides_for("sets", 0), *chosen, f"output={output / 'seed-0'}"],
            )

    stage_words = [*frame_overrides(body, recipes["pipeline.yaml"], stage_words), *stage_words]
    shards = make_sets(output, {**train_files, **scored_files})
    write_settings(output / "finetune.json", settings)

    if options.search:
        folder = output / "search"
        part = make_sets(folder, train_files, f"tasks.split_off={{dev: {options.search_share}}}")
        chosen, lines = choose_words(
            folder, recipes["train.yaml"], overrides_for(part, 0), options.search
        )
        print(*lines, sep="\n")
        training_words += chosen

    sets = [
        path.parent / split
        for path in (output / "sets" / "tasks").glob("*/train")
        for split in train_files
    ]

    requested_seeds = None if options.seeds == "auto" else options.seeds
    plan = plan_finetuning(
        recipes["train.yaml"],
        [*overrides_for(shards, 0), f"output={output / 'seed-0'}"],
        sets,
        requested_seeds,
    )

    print(plan.line, flush=True)

    for seed in range(plan.seeds):
        run = output / f"seed-{seed}"
        words = [*overrides_for(shards, seed), f"output={run}"]
        results = _results(output, run, scored_files, seed)
        watch = tell_time(run, plan, partial(print, flush=True)) if seed == 0 else None
        ExperimentTraining(recipes["train.yaml"], results, overrides=words, watch=watch).collect()
        if seed == 0 and plan.seeds > 1:  # in time to stop
            scored = finetuning_scores.read_scored(output)[:1]
            for line in finetuning_scores.advice_lines(scored, plan.rows, plan.given):
                print(line, flush=True)

    return plan


def frame_overrides(body: Path, recipe: Path, given: Sequence[str]) -> list[str]:
    """Return the overrides for rows of the body's architecture.

    There are none if the recipe or the `given` words choose a frame.
    """
    if any(word.startswith("tasks.frame=") for word in given):
        return []
    model = with_source({"init_from": str(body)})
    architecture = FAMILIES.load_class(model["family"]).architecture
    frame = read_composed(Recipe, recipe).get("tasks", {}).get("frame", "bert")
    if FRAMES[frame].architecture == architecture:
        return []
    if architecture == "decoder":
        return ["tasks.frame=gpt1", "tokenizer.add=true"]
    has_distances = model.get("position", {}).get("kind") == "t5"
    return (
        [f"tasks.frame={'t5' if has_distances else 'bart'}"]
        if architecture == "encoder_decoder"
        else []
    )


def _results(
    folder: Path, run: Path, splits: Iterable[str], seed: int
) -> dict[Path, Callable[[Path], None]]:
    """Return the files of a run's scores on some splits, each with the function that writes it."""
    from clozeline.extensions.tasks.scores import score_run  # imports torch

    return {
        finetuning_scores.scores_path(folder, split, seed): partial(score_run, run, split)
        for split in splits
    }


def combinations(search: Mapping[str, Sequence[object]]) -> list[list[str]]:
    """Return every combination of the values as `key=value` words, the last key varying fastest.

    Example:
        >>> combinations({"steps": [10, 20], "freeze": ["body"]})
        [['steps=10', 'freeze=body'], ['steps=20', 'freeze=body']]
    """
    words = [
        [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for value in values]
        for key, values in search.items()
    ]
    return [list(chosen) for chosen in itertools.product(*words)]


def choose_words(
    output: Path, config: Path, words: Sequence[str], search: Mapping[str, Sequence[object]]
) -> tuple[list[str], list[str]]:
    """Train one run for each combination, and return the words of the best one with a table of all.

    The score is the task's first metric on the split dev of `output`/sets, which is cut off the
    training rows. Of equal scores, the first combination is chosen. Scored runs are not trained
    again.

    Args:
        output: folder for the runs and the choice.
        config: of the training.
        words: of every run: the body, the sets, the seed.
        search: values by key.
    """
    tried = combinations(search)
    trainings = []
    scored = []

    for number, chosen in enumerate(tried):
        folder = output / f"run-{number}"
        results = _results(folder, folder / "run", ["dev"], 0)
        trainings.append(
            ExperimentTraining(
                config, results, overrides=[*words, *chosen, f"output={folder / 'run'}"]
            )
        )
        scored.append(folder)

    collect_all(trainings)
    runs = [finetuning_scores.read_scored(folder)[0] for folder in scored]
    metric = runs[0].facts.metrics[0]
    scores = [run.scores["metrics"][metric] for run in runs]
    best = max(range(len(tried)), key=lambda number: (scores[number], -number))
    publish_json(
        output / "choice.json",
        {"metric": metric, "scores": scores, "tried": tried, "chosen": tried[best]},
    )
    return tried[best], [*_table(metric, tried, scores, best)]


def _table(
    metric: str, tried: Sequence[Sequence[str]], scores: Sequence[float], best: int
) -> Iterator[str]:
    yield f"{metric} on a part of the training rows, one run each"
    for number, (words, score) in enumerate(zip(tried, scores, strict=True)):
        yield f"  {score:.4f}  {' '.join(words)}{'  <- chosen' if number == best else ''}"


def _read_by_split(folders: Iterable[Path]) -> list[tuple[str, Any]]:
    return [(str(folder), finetuning_scores.read_by_split(folder)) for folder in folders]


def _run(options: FinetuneCommand | Comparison | TestMatrix | TaskAverage) -> None:
    if isinstance(options, TestMatrix):
        print(*finetuning_scores.matrix_lines(_read_by_split(options.matrix)), sep="\n")
    elif isinstance(options, TaskAverage):
        print(*finetuning_scores.average_lines(_read_by_split(options.average)), sep="\n")
    elif isinstance(options, Comparison):
        _print_scores(options.compare)
    else:
        plan = finetune(options.body, options, options.words)
        scored = _print_scores([options.output])
        for line in finetuning_scores.advice_lines(scored, plan.rows, plan.given):
            print(line)
        run = options.output / "seed-0"
        for line in diagnose_run(replace(read_config(run), output=run)):
            print(f"seed 0: {line}")


def _print_scores(folders: Sequence[Path]) -> Any:
    """Print the tables of some outputs; return the scored runs of the first."""
    by_split = _read_by_split(folders)
    groups = [(name, splits["dev"]) for name, splits in by_split]
    print(
        *finetuning_scores.table_lines(groups),
        *finetuning_scores.comparison_lines(groups),
        sep="\n",
    )
    if any(len(splits) > 1 for _, splits in by_split):
        print(*finetuning_scores.matrix_lines(by_split), sep="\n")
    return groups[0][1]


def main(arguments: Sequence[str]) -> int:
    modes = (FinetuneCommand, Comparison, TestMatrix, TaskAverage)
    return run_tool(__doc__, arguments, modes, _run)


if __name__ == "__main__":
    run_as_script(main)
