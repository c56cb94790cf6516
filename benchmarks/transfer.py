"""Fine-tuning from a pre-trained body, from its embeddings and from random weights, at few labels.

    python benchmarks/transfer.py RUN OUTPUT --task pos=FILE --task sst2=TRAIN,TEST [--labels 100 1000] [--seeds 5]

Each task is a recipe of `configs/recipes/tasks`, or cola, mrpc or rte, and its file. Without a test file, `--test` of
the rows becomes one that shares no document with the rest, or no text where a file names no documents. The rows to
learn from are drawn from the rest, those of fewer labels among those of more. Every cell of the table is an output of
`tools/finetune.py`, where the scores of all seeds are; the same command continues what was interrupted.
`--change NAME:KEY=VALUE` sets a key of a task's training. Printed are mean and deviation over seeds, the best of the
baselines, and the one-sided p of Welch's t test over seeds that `all` is above another start.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import yaml
from rich.console import Console
from rich.table import Table
from scipy.stats import ttest_ind

from pipeline.config import config_file
from pipeline.formats.limits import Limits
from pipeline.registry import choose
from pipeline.seeding import keyed_hash
from pipeline.task_readers import Refused, TaskReader
from pipeline.task_readers._lines import text_lines
from pipeline.task_readers._whole_json import read_whole_json
from pipeline.tasks.carving import carved
from tools.experiments.comparison import mean_and_deviation
from tools.experiments.finetuning_scores import read_scored

ROOT: Final = Path(__file__).resolve().parent.parent
STARTS: Final = ("all", "embeddings", "random")
BATCH: Final = 16
EPOCHS: Final = {100: 20}
"""Passes over the rows by their number, else 4: so few rows need more of them (arXiv 2006.04884)."""
METRICS: Final = {"pos": "accuracy", "ner": "entity_f1", "sst2": "accuracy", "stsb": "spearman"}
OF_GLUE: Final = ("cola", "mrpc", "rte")
"""Tasks that are learned as SST-2 is, by its recipe."""


def recipe_of(task: str) -> str:
    """The recipe of a task."""
    return "sst2" if task in OF_GLUE else task


def reader_of(task: str) -> TaskReader:
    """The reader of a recipe, with its options."""
    recipe = yaml.safe_load(config_file(f"recipe:tasks/{recipe_of(task)}", "pipeline.yaml").read_text(encoding="utf-8"))
    options = recipe["tasks"]["reader"] | ({"task": task} if task in OF_GLUE else {})
    reader: TaskReader = choose("pipeline.task_readers", options).build(Limits())
    return reader


def write_parts(task: str, paths: Sequence[Path], folder: Path, counts: Sequence[int], test: float) -> list[Path]:
    """Write test rows and rows to learn from, in the layout of their file; return the files, the test first."""
    folder.mkdir(parents=True, exist_ok=True)
    reader = reader_of(task)
    items = list(reader.read(reader.open(paths[0])))
    splits = carved(items, {} if len(paths) > 1 else {"test": test}, "train", seed=1)
    places = sorted({item.place for item in items})
    ends = dict(zip(places, [*places[1:], None], strict=True))
    rows = [(item.place, split) for item, split in zip(items, splits, strict=True) if not isinstance(item, Refused)]
    learnt = sorted((place for place, split in rows if split == "train"), key=lambda at: keyed_hash("labels", at))
    questions = ".json" in paths[0].suffixes
    lines = [] if questions else [line if isinstance(line, str) else "" for _, line in text_lines(paths[0], Limits())]

    def write(name: str, chosen: Sequence[int]) -> Path:
        path = folder / f"{name}{paths[0].name.removesuffix('.zst')}"
        if questions:
            path.write_text(json.dumps(chosen_questions(paths[0], set(chosen))), encoding="utf-8")
            return path
        parts = [lines[: places[0]], *(lines[place : ends[place]] for place in sorted(chosen))]
        path.write_text("".join(f"{line}\n" for part in parts for line in part), encoding="utf-8")
        return path

    given = paths[1] if len(paths) > 1 else write("test-", [place for place, split in rows if split == "test"])
    return [given, *(write(f"{count}-", learnt[:count]) for count in counts)]


def chosen_questions(path: Path, chosen: set[int]) -> Any:
    """A file of questions without all but some, by their numbers from 0."""
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
    subprocess.run([sys.executable, ROOT / "tools/finetune.py", str(body), *words], check=True, cwd=ROOT)


def cells(output: Path, tasks: Sequence[str], counts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield a row of figures for each task, metric and number of labels that has been run."""
    for task in tasks:
        for count in counts:
            runs = {begin: read_scored(output / f"{task}-{count}-{begin}") for begin in STARTS}
            first = runs["all"][0].scores
            for metric in dict.fromkeys([METRICS.get(task, next(iter(first["metrics"]))), *first["metrics"]]):
                scores = {begin: [run.scores["metrics"][metric] for run in found] for begin, found in runs.items()}
                baselines = {name: found[metric] for name, found in first["baselines"].items()}
                yield {"task": task, "labels": count, "test": first["n"], "metric": metric, "baselines": baselines} | {
                    "scores": scores,
                    "p": {
                        other: float(ttest_ind(scores["all"], scores[other], equal_var=False, alternative="greater")[1])
                        for other in STARTS[1:]
                        if len(scores["all"]) > 1
                    },
                }


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print the table."""
    table = Table("task", "labels", "metric", *STARTS, "all - random", "p", "all - embeddings", "p", "best baseline")
    for row in rows:
        means = {begin: mean_and_deviation(values) for begin, values in row["scores"].items()}
        shown = [f"{mean:.3f}" + (f" ± {sd:.3f}" if sd is not None else "") for mean, sd in means.values()]
        gaps = [
            part
            for other in ("random", "embeddings")
            for part in (f"{means['all'][0] - means[other][0]:+.3f}", f"{row['p'].get(other, float('nan')):.3f}")
        ]
        name, best = max(row["baselines"].items(), key=lambda pair: pair[1])
        below = " (all is BELOW)" if means["all"][0] < best else ""
        table.add_row(row["task"], f"{row['labels']:,}", row["metric"], *shown, *gaps, f"{name} {best:.3f}{below}")
    Console(width=170).print(table)


def main() -> None:
    """Write the files, run what has no score yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--task", action="append", required=True, metavar="NAME=FILE[,TEST]")
    parser.add_argument("--change", action="append", default=[], metavar="NAME:KEY=VALUE")
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate; 1e-3 suits a width of 128 to 192")
    parser.add_argument("--test", type=float, default=0.3, help="share of the rows of a file without test file")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    tasks = {name: [Path(path).resolve() for path in files.split(",")] for name, _, files in
             (word.partition("=") for word in options.task)}  # fmt: skip
    output = options.output.resolve()
    for task, paths in tasks.items():
        test, *trains = write_parts(task, paths, output / "files" / task, options.labels, options.test)
        for count, train in zip(options.labels, trains, strict=True):
            for begin in STARTS:
                tune(
                    options.run.resolve(),
                    task,
                    (test, train),
                    output / f"{task}-{count}-{begin}",
                    begin,
                    count,
                    options,
                )
    rows = list(cells(output, list(tasks), options.labels))
    show(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
