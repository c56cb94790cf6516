"""Fine-tuning with few labels from a pretrained body, from its embeddings only, and from random weights.

    python -m benchmarks.transfer RUN OUTPUT --task pos=FILE --task sst2=TRAIN,TEST [--labels 100 1000] [--seeds 5]

Each task is a recipe of `configs/recipes/tasks`, or cola, mrpc or rte, with its file. Without a test file, a share of
the rows (`--test`) becomes one that shares no document with the rest, or no text if the file names no documents.
Training rows are drawn from the rest; those with fewer labels are a subset of those with more. Every cell of the table
is an output of `clozeline finetune`, which has the scores of all seeds; run the same command again to resume.
`--change NAME:KEY=VALUE` sets a key of a task's training. The table shows mean and deviation over seeds, the best
baseline, and the one-sided p of Welch's t test over seeds that `all` is above another start.
"""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import ROOT, parser, print_table, write_json

from scipy.stats import ttest_ind

from clozeline.configuration.config import config_file, read_composed
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.tasks.readers import Rejected, TaskReader
from clozeline.pipeline.tasks.readers._text_lines import read_whole_json, text_lines
from clozeline.pipeline.tasks.splits import split_by_group
from clozeline.registry import choose
from clozeline.seeding import hash64
from clozeline.tools.experiments.multirun.comparison import mean_and_deviation
from clozeline.tools.experiments.multirun.finetuning_scores import read_scored

STARTS: Final = ("all", "embeddings", "random")
BATCH: Final = 16
EPOCHS: Final = {100: 20}
"""Epochs by number of training rows, 4 if not listed: few rows need more epochs (arXiv 2006.04884)."""
METRICS: Final = {"pos": "accuracy", "ner": "entity_f1", "sst2": "accuracy", "stsb": "spearman"}
OF_GLUE: Final = ("cola", "mrpc", "rte")
"""Tasks that are trained by the recipe of SST-2."""


def recipe_of(task: str) -> str:
    return "sst2" if task in OF_GLUE else task


def reader_of(task: str) -> TaskReader:
    """Return the reader of a task's recipe, with its options."""
    recipe = read_composed(Recipe, config_file(f"recipe:tasks/{recipe_of(task)}", "pipeline.yaml"))
    options = recipe["tasks"]["reader"] | ({"task": task} if task in OF_GLUE else {})
    reader: TaskReader = choose("clozeline.pipeline.tasks.readers", options).build(Limits())
    return reader


def write_parts(task: str, paths: Sequence[Path], folder: Path, counts: Sequence[int], test: float) -> list[Path]:
    """Write test and training rows in the format of their file; return the test file, then the training files."""
    folder.mkdir(parents=True, exist_ok=True)
    reader = reader_of(task)
    items = list(reader.read(reader.open(paths[0])))
    splits = split_by_group(items, {} if len(paths) > 1 else {"test": test}, "train", seed=1)
    starts = sorted({item.index for item in items})
    ends = dict(zip(starts, [*starts[1:], None], strict=True))
    rows = [(item.index, split) for item, split in zip(items, splits, strict=True) if not isinstance(item, Rejected)]
    training = sorted((start for start, split in rows if split == "train"), key=lambda at: hash64("labels", at))
    questions = ".json" in paths[0].suffixes
    lines = [] if questions else [line if isinstance(line, str) else "" for _, line in text_lines(paths[0], Limits())]

    def write(name: str, chosen: Sequence[int]) -> Path:
        path = folder / f"{name}{paths[0].name.removesuffix('.zst')}"
        if questions:
            path.write_text(json.dumps(select_questions(paths[0], set(chosen))), encoding="utf-8")
            return path
        parts = [lines[: starts[0]], *(lines[start : ends[start]] for start in sorted(chosen))]
        path.write_text("".join(f"{line}\n" for part in parts for line in part), encoding="utf-8")
        return path

    test_file = paths[1] if len(paths) > 1 else write("test-", [start for start, split in rows if split == "test"])
    return [test_file, *(write(f"{count}-", training[:count]) for count in counts)]


def select_questions(path: Path, chosen: set[int]) -> Any:
    """Return a file of questions with only some of them, by their index."""
    data, numbers = read_whole_json(path, Limits()), itertools.count()
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [asked for asked in paragraph["qas"] if next(numbers) in chosen]
    return data


def tune(body: Path, task: str, files: Sequence[Path], output: Path, begin: str, count: int, options: Any) -> None:
    """Run the seeds of one cell of the table."""
    steps = count * EPOCHS.get(count, 4) // BATCH
    words = [f"task={recipe_of(task)}", f"train={files[1]}", f"dev={files[0]}"]
    words += [f"output={output}", f"from={begin}"]
    words += [f"seeds={options.seeds}", f"optimizer.learning_rate={options.rate}", f"data.global_batch={BATCH}"]
    words += [f"steps={steps}", f"schedule.warmup={max(1, steps // 10)}", f"evaluate.every={steps}"]
    words += [f"checkpoint.every={steps}", "log.tensorboard=false", "zero.stage=0", f"data.micro_batch={BATCH}"]
    words += [f"tasks.reader.task={task}"] if task in OF_GLUE else []
    words += [change.removeprefix(f"{task}:") for change in options.change if change.startswith(f"{task}:")]
    subprocess.run([sys.executable, ROOT / "tools/experiments/finetune.py", str(body), *words], check=True, cwd=ROOT)


def cells(output: Path, tasks: Sequence[str], counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield a row of figures for each task, metric and number of labels."""
    for task in tasks:
        for count in counts:
            runs = {begin: read_scored(output / f"{task}-{count}-{begin}") for begin in STARTS}
            first = runs["all"][0].scores
            for metric in dict.fromkeys([METRICS.get(task, next(iter(first["metrics"]))), *first["metrics"]]):
                scores = {begin: [run.scores["metrics"][metric] for run in scored] for begin, scored in runs.items()}
                baselines = {name: values[metric] for name, values in first["baselines"].items()}
                row = {"task": task, "labels": count, "test": first["n"], "metric": metric, "baselines": baselines}
                tests = {
                    other: ttest_ind(scores["all"], scores[other], equal_var=False, alternative="greater")
                    for other in STARTS[1:]
                    if len(scores["all"]) > 1
                }
                yield {**row, "scores": scores, "p": {other: float(test[1]) for other, test in tests.items()}}


def show(rows: Sequence[dict[str, Any]]) -> None:
    head = ("task", "labels", "metric", *STARTS, "all - random", "p", "all - embeddings", "p", "best baseline")
    cells = []
    for row in rows:
        means = {begin: mean_and_deviation(values) for begin, values in row["scores"].items()}
        shown = [f"{mean:.3f}" + (f" ± {sd:.3f}" if sd is not None else "") for mean, sd in means.values()]
        for other in ("random", "embeddings"):
            shown += [f"{means['all'][0] - means[other][0]:+.3f}", f"{row['p'].get(other, float('nan')):.3f}"]
        name, best = max(row["baselines"].items(), key=lambda pair: pair[1])
        below = " (all is BELOW)" if means["all"][0] < best else ""
        cells.append((row["task"], f"{row['labels']:,}", row["metric"], *shown, f"{name} {best:.3f}{below}"))
    print_table(head, cells)


def main() -> None:
    """Write the files, run what has no score yet, and print the table."""
    rate = (1e-3, "learning rate; 1e-3 suits a width of 128 to 192")
    test = (0.3, "share of the rows for the test, without a test file")
    made = parser(__doc__, labels=[100, 1000], seeds=5, rate=rate, test=test)
    made.add_argument("run", type=Path)
    made.add_argument("output", type=Path)
    made.add_argument("--task", action="append", required=True, metavar="NAME=FILE[,TEST]")
    made.add_argument("--change", action="append", default=[], metavar="NAME:KEY=VALUE")
    options = made.parse_args()
    body, output = options.run.resolve(), options.output.resolve()
    tasks = {}
    for word in options.task:
        name, _, files = word.partition("=")
        tasks[name] = [Path(path).resolve() for path in files.split(",")]
    for task, paths in tasks.items():
        test, *trains = write_parts(task, paths, output / "files" / task, options.labels, options.test)
        for count, train in zip(options.labels, trains, strict=True):
            for begin in STARTS:
                tune(body, task, (test, train), output / f"{task}-{count}-{begin}", begin, count, options)
    rows = list(cells(output, list(tasks), options.labels))
    show(rows)
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
