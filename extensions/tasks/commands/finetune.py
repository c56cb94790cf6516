"""Fine-tune a model on a task with several seeds, and print one table.

    clozeline finetune mine/run task=sst2 train=train.tsv dev=dev.tsv output=tuned [key=value ...]

It makes the task's sets with the tokenizer of BODY, trains one run per seed, and scores it on `dev`
next to its baselines. Seeds, steps and learning rate follow the rows and the width of BODY, unless
you give them.
`from` selects what is initialized from BODY: all, embeddings, or random (nothing). Words that start
with `tasks.` or `tokenizer.` go to the pipeline, all others to `train/main.py`: `steps=500`,
`freeze=body`. If the recipe's `tasks.frame` is for another architecture than BODY's, a decoder gets
GPT's, with the special tokens that its tokenizer lacks, and an encoder-decoder T5's or BART's. The
same command resumes after an interruption; seeds with a score are not run again. `compare=DIR
compare=DIR` prints the table of several outputs, each compared with the first. `pseudo=FILE` adds
training rows, such as those that a run has labeled (`clozeline pseudo-label`). `tests='{de: FILE,
fr: FILE}'` scores each run on more files, for example of other languages; `matrix=DIR matrix=DIR`
prints the table of outputs by files. `search='{optimizer.learning_rate: [3e-4, 1e-3], steps: [200,
400]}'` first chooses keys on a part of the training rows.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from clozeline.command_line import ChoosesMode, OtherKeys, Positional
from clozeline.configuration.config import config_class, config_file, read_composed
from clozeline.extensions.tasks.finetuning_plan import FinetuningPlan, note_on_body, plan_finetuning
from clozeline.extensions.tasks.finetuning_scores import (
    ScoredRun,
    advice_lines,
    comparison_lines,
    matrix_lines,
    read_by_split,
    read_scored,
    scores_path,
    table_lines,
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
    PlannedCommand,
    check_training,
    claim_folder,
    run_plan,
    training_step,
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
    """A model, a task with its files, and the runs."""

    body: Annotated[ModelPath, Positional(0)]
    """a run, or a folder with a model"""
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
    words: Annotated[tuple[str, ...], OtherKeys("keys of the training, tasks. and tokenizer.")] = ()

    def __post_init__(self) -> None:
        if self.dev is None and not any(word.startswith("tasks.split_off=") for word in self.words):
            raise ValueError(
                "dev: expected a file with rows to score, or tasks.split_off='{dev: 0.2}', got none"
            )
        if self.dev is None and self.search:
            raise ValueError(
                "search: needs rows that it does not choose by: give them as a file, dev=FILE"
            )


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


def finetune(options: FinetuneOptions) -> FinetuningPlan:
    """Make the sets, then train and score every seed that has no score yet.

    Return the plan that all runs share.
    """
    output = options.output.resolve()
    body = options.body.resolve()
    # the user's folder, or one of our recipes
    folder = Path(options.task)
    recipe, training = (
        (
            folder / name if folder.is_dir() else config_file(f"recipe:tasks/{options.task}", name)
        ).resolve()
        for name in ("pipeline.yaml", "train.yaml")
    )
    stage_words = [word for word in options.words if word.startswith(("tasks.", "tokenizer."))]
    training_words = [f"model.init_from={body}", *_WORDS_BY_BEGIN[options.begin]]
    training_words += [word for word in options.words if word not in stage_words]
    stage_words = [*frame_overrides(body, recipe, stage_words), *stage_words]
    trained = {"train": options.train}
    trained |= {} if options.pseudo is None else {"train_pseudo": options.pseudo}
    scored = {"dev": options.dev} | {f"test_{name}": file for name, file in options.tests.items()}

    for chosen in combinations(options.search):
        words = [*_words_of(["sets"], 0), *training_words, *chosen]
        check_training(training, [*words, f"output={output}"])
    claim_folder(output / "finetune.json", options, "output", "seeds")

    def make_sets(folder: Path, splits: Mapping[str, Path | None], *more: str) -> list[str]:
        """Make the sets of files by split; return those of the training."""
        files = [
            f"{{path: {file.resolve()}, source: {split}}}"
            for split, file in splits.items()
            if file is not None
        ]
        sets = folder / "sets"
        words = [f"input=[{', '.join(files)}]", f"tokenizer.path={body}", *stage_words, *more]
        PlannedCommand(["pipeline", "--config", recipe, f"output={sets}", *words], {}).execute()
        (train,) = sorted((sets / "tasks").glob("*/train"))
        return [str(train.with_name(split)) for split in trained]

    sets = make_sets(output, trained | scored)

    if options.search:
        folder = output / "search"
        part = make_sets(folder, trained, f"tasks.split_off={{dev: {options.search_share}}}")
        words = [*_words_of(part, 0), *training_words]
        training_words += choose_words(folder, training, words, options.search)

    words = [*_words_of(sets, 0), *training_words, f"output={output}"]
    seeds = None if options.seeds == "auto" else options.seeds
    plan = plan_finetuning(training, words, [Path(path) for path in sets], seeds)
    print(plan.line, flush=True)
    if options.begin == "all" and (note := note_on_body(body)):
        print(note, flush=True)

    def score(run: Path, split: str, path: Path) -> None:
        _score(run, split, path)
        if path == scores_path(output, "dev", 0) and plan.seeds > 1:  # in time to stop
            _print_advice(read_scored(output)[:1], plan)

    steps = []
    for seed in range(plan.seeds):
        run = output / f"seed-{seed}"
        words = [*_words_of(sets, seed), *training_words]
        results = {scores_path(output, split, seed): partial(score, run, split) for split in scored}
        steps.append(training_step(training, run, words, results))
    run_plan(steps)
    return plan


def _words_of(sets: Sequence[str], seed: int) -> list[str]:
    """Return the words of a training that differ between runs."""
    shards = sets[0] if len(sets) == 1 else f"[{', '.join(sets)}]"
    return [f"data.shards={shards}", f"seed={seed}", f"data.seed={seed}"]


def _print_advice(runs: Sequence[ScoredRun], plan: FinetuningPlan) -> None:
    for line in advice_lines(runs, plan.rows):
        print(line, flush=True)


def _score(run: Path, split: str, path: Path) -> None:
    from clozeline.extensions.tasks.scores import score_run  # imports torch

    score_run(run, split, path)


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
) -> list[str]:
    """Train one run for each combination, print a table, and return the words of the best one.

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
    folders = [output / f"run-{number}" for number in range(len(tried))]
    steps = []
    for folder, chosen in zip(folders, tried, strict=True):
        run = folder / "run"
        results = {scores_path(folder, "dev", 0): partial(_score, run, "dev")}
        steps.append(training_step(config, run, [*words, *chosen], results))
    run_plan(steps)
    runs = [read_scored(folder)[0] for folder in folders]
    metric = runs[0].facts.metrics[0]
    scores = [run.scores["metrics"][metric] for run in runs]
    best = scores.index(max(scores))
    choice = {"metric": metric, "scores": scores, "tried": tried, "chosen": tried[best]}
    publish_json(output / "choice.json", choice)
    print(f"{metric} on a part of the training rows, one run each")
    for number, score in enumerate(scores):
        mark = "  <- chosen" if number == best else ""
        print(f"  {score:.4f}  {' '.join(tried[number])}{mark}")
    return tried[best]


def _named(folders: Iterable[Path]) -> list[tuple[str, dict[str, list[ScoredRun]]]]:
    return [(str(folder), read_by_split(folder)) for folder in folders]


def _run(options: FinetuneOptions | Comparison | TestMatrix) -> None:
    if isinstance(options, TestMatrix):
        print(*matrix_lines(_named(options.matrix)), sep="\n")
    elif isinstance(options, Comparison):
        _print_scores(options.compare)
    else:
        plan = finetune(options)
        scored = _print_scores([options.output])
        _print_advice(scored, plan)
        run = options.output / "seed-0"
        for line in diagnose_run(replace(read_config(run), output=run)):
            print(f"seed 0: {line}")


def _print_scores(folders: Sequence[Path]) -> list[ScoredRun]:
    """Print the tables of some outputs; return the scored runs of the first."""
    by_split = _named(folders)
    groups = [(name, splits["dev"]) for name, splits in by_split]
    lines = [*table_lines(groups), *comparison_lines(groups)]
    if any(len(splits) > 1 for _, splits in by_split):
        lines += matrix_lines(by_split)
    print(*lines, sep="\n")
    return groups[0][1]


def main(arguments: Sequence[str]) -> int:
    modes = (FinetuneOptions, Comparison, TestMatrix)
    return run_tool(__doc__, arguments, modes, _run)


if __name__ == "__main__":
    run_as_script(main)
