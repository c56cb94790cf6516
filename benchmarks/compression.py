"""Measure what each method of compression costs in scores, over seeds.

Methods: distillation, pruning, quantization, early exit and token pruning.

    python -m benchmarks.compression OUTPUT --text FILE ... --student-text FILE
        --task sst2=TRAIN,DEV --task pos=FILE [--seeds 3] [--labels 1000] [--json FILE]
        [--parts sets distillation pruning quantization early]

`--text` is what the teacher reads, `--student-text` what its students read and are held out on. The
teacher of `configs/compression` is trained once. Students of half its layers start from its own
layers and take the same steps without its scores, with those of the teacher in memory, and with
stored ones. Dense models of the tasks are the teacher fine-tuned, one for each seed; each method
compresses them, or is fine-tuned from the same teacher. Every step is a command of Clozeline,
printed before it runs. The same call goes on after an interruption: what has a result is not run
again. A task is a recipe of `configs/recipes/tasks`, or cola, mrpc or rte, with its file and
perhaps a test file; else 30 % of the rows are the test.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from benchmarks.harness import ROOT, parser, print_table, system_load, write_json

from benchmarks.early import measure_exits, measure_tokens
from benchmarks.few_labels import recipe_of, write_parts
from clozeline.command_line import read_words
from clozeline.extensions.compression.commands.compress import CompressOptions, compress
from clozeline.extensions.compression.comparison import score
from clozeline.extensions.evaluation.commands.evaluate import EvaluateOptions, score_task
from clozeline.extensions.tasks.finetuning_scores import mean_text
from clozeline.files import publish_text
from clozeline.tools.start.multirun.runner import run_at_once, run_step

SMALLEST = None
CONFIGS: Final = ROOT / "configs" / "compression"
PARTS: Final = ("sets", "distillation", "pruning", "quantization", "early")
STUDENT_LAYERS: Final = "[1,3]"
STORED: Final = ("top", "drawn")
LEVELS: Final = (30, 50, 70, 90)
"""Percent that pruning removes; of 4 layers at most 3 go, of 6 heads at most 5."""
REMOVED: Final = ("magnitude", "heads", "rows", "layers")
"""Methods of `clozeline compress`; those that need training are keys of the trainer."""
TRAINED: Final = ("magnitude", "movement")
CHANGES: Final = {"sst2": ["model.heads.classification.pool=mean"]}
BATCH = 16
EPOCHS = 4
RATE = "1e-3"
CORES: Final = os.cpu_count() or 1


def clozeline(*words: str | Path, threads: int = 1) -> None:
    """Print a command and run it; raise StepFailedError if it fails."""
    variables = {"OMP_NUM_THREADS": str(threads), "OMP_THREAD_LIMIT": str(threads)}
    run_step("clozeline", *words, accelerator=None, variables=variables)


def keep_result(path: Path, measure: Callable[[], Any]) -> Any:
    """Return what a file has, or measure and write it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        publish_text(path, json.dumps(measure()))
    return json.loads(path.read_text(encoding="utf-8"))


class Experiment:
    """Folders and seeds of one output."""

    def __init__(self, output: Path, options: Any) -> None:
        self.output = output
        self.options = options
        self.seeds = range(options.seeds)
        self.teacher = output / "teacher"
        self.sets = output / "sets"
        self.student_set = output / "student_sets" / "corrupt" / "masked_lm"
        self.tasks = {}

        for word in options.task:
            name, _, files = word.partition("=")
            paths = [Path(path).resolve() for path in files.split(",")]
            self.tasks[name] = write_parts(
                name, paths, output / "files" / name, [options.labels], 0.3
            )

    # -- sets and the teacher

    def make_sets(self) -> None:
        """Make the sets, train the teacher, and store its scores for the students."""
        recipe = CONFIGS / "pipeline.yaml"
        clozeline(
            "pipeline",
            "--config",
            recipe,
            f"input={_list(self.options.text)}",
            f"output={self.sets}",
        )

        tokenizer = [
            "train_tokenizer=null",
            f"tokenizer.path={self.sets / 'train_tokenizer' / 'tokenizer'}",
        ]
        text = _list([self.options.student_text])
        folder = self.student_set.parents[1]
        clozeline("pipeline", "--config", recipe, *tokenizer, f"input={text}", f"output={folder}")
        (train,) = self.sets.glob("group/*/train")
        words = [
            f"data.shards={train}",
            f"data.heldout={self.student_set / 'heldout'}",
            f"output={self.teacher}",
        ]

        clozeline("train", "--config", CONFIGS / "train_teacher.yaml", *words, threads=CORES)

        for how in STORED:
            scores = f"output={self.output / f'scores-{how}'}"
            clozeline(
                "teach",
                self.teacher,
                f"data.shards={self.student_set / 'train'}",
                scores,
                f"how={how}",
                "k=16",
            )

    # -- distillation

    def distil(self) -> list[dict[str, Any]]:
        """Return held-out loss and scores of students by seed and by source of teacher scores."""
        start = self.output / "start"
        if not start.exists():
            clozeline(
                "compress",
                self.teacher,
                "method=layers",
                f"keep={STUDENT_LAYERS}",
                f"output={start}",
            )

        train = self.student_set / "train"
        losses = "losses: [{{name: scores, temperature: 1.0, weight: 1.0, how: {}}}]"
        cases = {"none": [f"data.shards={train}"]}
        cases["live"] = [
            f"data.shards={train}",
            f"distil={{teacher: {self.teacher}, {losses.format('top')}}}",
        ]
        for how in STORED:
            columns = f"{{path: {train}, columns: [{self.output / f'scores-{how}'}]}}"
            cases[how] = [f"data.shards={columns}", f"distil={{{losses.format(how)}}}"]

        runs = {
            case: [self.output / "students" / f"{case}-{seed}" for seed in self.seeds]
            for case in cases
        }

        def train_student(case: str, seed: int) -> None:
            words = [f"model.init_from={start}", f"data.heldout={self.student_set / 'heldout'}"]
            words += [f"output={runs[case][seed]}", f"seed={seed}", f"data.seed={seed}"]
            if not (runs[case][seed] / "heldout.json").exists():
                clozeline("train", "--config", CONFIGS / "train_student.yaml", *cases[case], *words)

        run_at_once(
            (partial(train_student, case, seed) for case in cases for seed in self.seeds), CORES
        )
        bodies = [self.teacher, *(run for of_case in runs.values() for run in of_case)]
        run_at_once(
            (partial(self._tune_body, task, body) for body in bodies for task in self.tasks), CORES
        )
        return [
            self._body_row("teacher", [self.teacher]),
            *(self._body_row(case, runs[case]) for case in cases),
        ]

    def _tune_body(self, task: str, body: Path) -> list[float]:
        return self.tune(task, f"bodies/{body.name}", body, seeds=1)

    def _body_row(self, case: str, runs: Sequence[Path]) -> dict[str, Any]:
        row: dict[str, Any] = {"part": "distillation", "case": case}
        row["nats"] = [
            keep_result(run / "heldout.json", lambda run=run: heldout_loss(run)) for run in runs
        ]
        for task in self.tasks:
            row[task] = [score for run in runs for score in self._tune_body(task, run)]
        return row

    # -- tasks

    def tune(
        self, task: str, name: str, body: Path, *words: str, seeds: int | None = None
    ) -> list[float]:
        """Fine-tune a body on a task with each seed, and return the scores."""
        output, (dev, train) = (
            self.output / "tuned" / f"{task}-{name.replace('/', '-')}",
            self.tasks[task],
        )
        steps = self.options.labels * EPOCHS // BATCH
        number = seeds or len(self.seeds)
        keys = [
            f"task={recipe_of(task)}",
            f"train={train}",
            f"dev={dev}",
            f"output={output}",
            f"seeds={number}",
        ]

        keys += [
            f"optimizer.learning_rate={RATE}",
            f"data.global_batch={BATCH}",
            f"data.micro_batch={BATCH}",
        ]

        keys += [
            f"steps={steps}",
            f"schedule.warmup={steps // 10}",
            f"evaluate.every={steps}",
            "zero.stage=0",
        ]

        keys += [
            f"checkpoint.every={steps}",
            "log.tensorboard=false",
            *CHANGES.get(task, []),
            *words,
        ]

        def measure() -> list[float]:
            clozeline("finetune", body, *keys)
            scored = [
                json.loads(score_task(EvaluateOptions(run=output / f"seed-{seed}"))[0])
                for seed in range(number)
            ]
            return [next(iter(found["metrics"].values())) for found in scored]

        scores: list[float] = keep_result(output / "figures.json", measure)
        return scores

    def compressed(self, task: str, name: str, words: Sequence[str]) -> list[float]:
        """Compress the dense model of each seed, and return the scores."""

        def measure() -> list[float]:
            scores = []
            for seed in self.seeds:
                dense = self.output / "tuned" / f"{task}-dense" / f"seed-{seed}"
                (train,) = (dense.parent / "sets" / "tasks").glob("*/train")
                output = self.output / "compressed" / task / name / f"seed-{seed}"
                shutil.rmtree(output, ignore_errors=True)  # of a call that was interrupted
                more = ["repeats=1", "length=16", f"output={output}"]
                compress(read_words(CompressOptions, [str(dense), *words, *more]))
                scores += score([output], "dev", train.parent).values
            return scores

        scores: list[float] = keep_result(
            self.output / "compressed" / task / f"{name}.json", measure
        )
        return scores

    # -- methods

    def prune(self) -> list[dict[str, Any]]:
        """Return the scores of each pruning method at each level."""
        trained = [
            (task, method, level) for task in self.tasks for method in TRAINED for level in LEVELS
        ]
        run_at_once((partial(self.tune, task, "dense", self.teacher) for task in self.tasks), CORES)
        run_at_once((partial(self._tune_pruned, *each) for each in trained), CORES)
        rows = []

        for task in self.tasks:
            rows.append(_row("pruning", "dense", task, 0, self.tune(task, "dense", self.teacher)))

            for method in REMOVED:
                for level in LEVELS:
                    size = (
                        f"keep=[{_layers(level)}]"
                        if method == "layers"
                        else f"sparsity={level / 100}"
                    )
                    scores = self.compressed(task, f"{method}-{level}", [f"method={method}", size])
                    rows.append(_row("pruning", method, task, level, scores))

            for method in TRAINED:
                for level in LEVELS:
                    scores = self._tune_pruned(task, method, level)
                    rows.append(_row("pruning", f"{method}, trained", task, level, scores))

        return rows

    def _tune_pruned(self, task: str, method: str, level: int) -> list[float]:
        size = (
            f"keep: {1 - level / 100:.1f}" if method == "movement" else f"sparsity: {level / 100}"
        )
        return self.tune(
            task, f"{method}-{level}", self.teacher, f"prune={{name: {method}, {size}}}"
        )

    def quantize(self) -> list[dict[str, Any]]:
        """Return the scores of integers next to those of the dense models."""
        rows = []
        for task in self.tasks:
            rows.append(
                _row("quantization", "dense", task, 32, self.tune(task, "dense", self.teacher))
            )
            for method, bits in (("int8", 8), ("int8_dynamic", 8), ("int4", 4)):
                scores = self.compressed(task, method, [f"method={method}"])
                rows.append(_row("quantization", method, task, bits, scores))
        return rows

    def exit_early(self) -> list[dict[str, Any]]:
        """Return accuracy by mean depth and by tokens kept of the first classification task."""
        task = next(iter(self.tasks))
        self.tune(task, "dense", self.teacher)
        rows = []

        for part, measure in (("exits", measure_exits), ("tokens", measure_tokens)):
            runs = [self.output / "tuned" / f"{task}-dense" / f"seed-{seed}" for seed in self.seeds]
            points = [
                keep_result(
                    self.output / "early" / f"{part}-{seed}.json",
                    lambda run=run, of=measure: of(run),
                )
                for seed, run in zip(self.seeds, runs, strict=True)
            ]
            for same in zip(*points, strict=True):
                amount = fmean(point[1] for point in same)
                rows.append(
                    {
                        **_row(part, same[0][0], task, 0, [point[2] for point in same]),
                        "amount": amount,
                    }
                )

        return rows


def heldout_loss(run: Path) -> float:
    """Return the last held-out loss of a run, in nats per masked token."""
    records = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    *_, last = (record["heldout"]["heldout"]["loss"] for record in records if "heldout" in record)
    return float(last)


def _list(paths: Iterable[Path]) -> str:
    return f"[{', '.join(str(path.resolve()) for path in paths)}]"


def _layers(level: int) -> str:
    """Return the layers that stay of the teacher's four, spread evenly, the last among them."""
    return {30: "0,1,3", 50: "1,3", 70: "3", 90: "3"}[level]


def _row(part: str, case: str, task: str, level: int, scores: Sequence[float]) -> dict[str, Any]:
    return {"part": part, "case": case, "task": task, "level": level, "scores": list(scores)}


def _percent(scores: Sequence[float]) -> str:
    return mean_text([100 * score for score in scores], 2)


def show_distillation(rows: Sequence[dict[str, Any]], tasks: Sequence[str]) -> None:
    """Print the students by the scores that they had."""
    cells = [
        (row["case"], mean_text(row["nats"], 2), *(_percent(row[task]) for task in tasks))
        for row in rows
    ]
    print_table(
        ("scores of the teacher", "held-out nats", *(f"{task}, %" for task in tasks)), cells
    )


def show_levels(rows: Sequence[dict[str, Any]]) -> None:
    """Print scores by method and level."""
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        levels = sorted({row["level"] for row in own})
        cells = []
        for case in dict.fromkeys(row["case"] for row in own):
            scores = {row["level"]: _percent(row["scores"]) for row in own if row["case"] == case}
            cells.append((case, *(scores.get(level, "") for level in levels)))
        print_table((f"{task}, %", *map(str, levels)), cells)


def main() -> None:
    """Run the parts that are asked for, and print their tables."""
    made = parser(__doc__, seeds=3, labels=1000)
    made.add_argument("output", type=Path)
    made.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE")
    made.add_argument("--student-text", type=Path, required=True, metavar="FILE")
    made.add_argument("--task", action="append", required=True, metavar="NAME=FILE[,TEST]")
    made.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = made.parse_args()
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    experiment = Experiment(output, options)
    rows = []
    if "sets" in options.parts:
        experiment.make_sets()
    if "distillation" in options.parts:
        rows += (students := experiment.distil())
        show_distillation(students, list(experiment.tasks))

    for part, measure in (("pruning", experiment.prune), ("quantization", experiment.quantize)):
        if part in options.parts:
            rows += (found := measure())
            show_levels(found)

    if "early" in options.parts:
        rows += (points := experiment.exit_early())
        cells = [
            (row["part"], row["case"], f"{row['amount']:.3f}", _percent(row["scores"]))
            for row in points
        ]
        print_table(("", "rule", "mean depth, or share of tokens", "accuracy, %"), cells)

    print(system_load())
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
