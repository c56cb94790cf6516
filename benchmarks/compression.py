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
again. A task is a recipe of `configs/recipes/tasks`, with its file and perhaps a test file; else 30
% of the rows are the test. About `--labels` of the other rows train.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from typing import Any, Final, TypeVar

from benchmarks.harness import ROOT, parser, print_table, system_load, write_json

from benchmarks.early import Point, measure_exits, measure_tokens
from benchmarks.few_labels import tuning_words
from clozeline.command_line import read_words
from clozeline.extensions.compression.commands.compress import CompressOptions, compress
from clozeline.extensions.compression.comparison import score
from clozeline.extensions.tasks.finetuning_scores import mean_text, read_scored
from clozeline.files import publish_text
from clozeline.tools.start.multirun.runner import run_at_once, run_step
from clozeline.train.logs.json_lines import read_lines

SMALLEST = None
ResultT = TypeVar("ResultT")
CONFIGS: Final = ROOT / "configs" / "compression"
PARTS: Final = ("sets", "distillation", "pruning", "quantization", "early")
STUDENT_LAYERS: Final = "[1,3]"
STORED: Final = ("top", "drawn")
LEVELS: Final = (30, 50, 70, 90)
"""Percent that pruning removes; of 4 layers at most 3 go, of 6 heads at most 5."""
REMOVED: Final = ("magnitude", "heads", "rows", "layers")
"""Methods of `clozeline compress`; those that need training are keys of the trainer."""
TRAINED: Final = ("magnitude", "movement")
CORES: Final = os.cpu_count() or 1


def clozeline(*words: str | Path, threads: int = 1) -> None:
    """Print a command and run it; raise StepFailedError if it fails."""
    variables = {"OMP_NUM_THREADS": str(threads), "OMP_THREAD_LIMIT": str(threads)}
    run_step("clozeline", *words, accelerator=None, variables=variables)


def keep_result(path: Path, measure: Callable[[], ResultT]) -> ResultT:
    """Return what a file has, or measure and write it."""
    if not path.exists():
        publish_text(path, json.dumps(measure()))
    kept: ResultT = json.loads(path.read_text(encoding="utf-8"))
    return kept


class Experiment:
    """Folders and seeds of one output."""

    def __init__(self, output: Path, options: Any) -> None:
        self.output = output
        self.options = options
        self.seeds = range(options.seeds)
        self.teacher = output / "teacher"
        self.sets = output / "sets"
        self.student_set = output / "student_sets" / "corrupt" / "masked_lm"
        self.tasks = dict(tuning_words(word, options.labels) for word in options.task)

    # -- sets and the teacher

    def make_sets(self) -> None:
        """Make the sets, train the teacher, and store its scores for the students."""
        make = ("pipeline", "--config", CONFIGS / "pipeline.yaml")
        clozeline(*make, f"input={path_list(self.options.text)}", f"output={self.sets}")
        words = [
            "train_tokenizer=null",
            f"tokenizer.path={self.sets / 'train_tokenizer' / 'tokenizer'}",
            f"input={path_list([self.options.student_text])}",
            f"output={self.student_set.parents[1]}",
        ]
        clozeline(*make, *words)
        (train,) = self.sets.glob("group/*/train")
        words = [f"data.shards={train}", f"data.heldout={self.student_set / 'heldout'}"]
        words += [f"output={self.teacher}"]
        clozeline("train", "--config", CONFIGS / "train_teacher.yaml", *words, threads=CORES)

        for how in STORED:
            words = [f"data.shards={self.student_set / 'train'}", f"how={how}", "k=16"]
            clozeline("teach", self.teacher, *words, f"output={self.output / f'scores-{how}'}")

    # -- distillation

    def distil(self) -> list[dict[str, Any]]:
        """Return held-out loss and scores of students by seed and by source of teacher scores."""
        start = self.output / "start"
        if not start.exists():
            keep = f"keep={STUDENT_LAYERS}"
            clozeline("compress", self.teacher, "method=layers", keep, f"output={start}")

        train = self.student_set / "train"
        losses = "losses: [{{name: scores, temperature: 1.0, weight: 1.0, how: {}}}]"
        live = f"distil={{teacher: {self.teacher}, {losses.format('top')}}}"
        cases = {"none": [f"data.shards={train}"], "live": [f"data.shards={train}", live]}
        for how in STORED:
            columns = f"{{path: {train}, columns: [{self.output / f'scores-{how}'}]}}"
            cases[how] = [f"data.shards={columns}", f"distil={{{losses.format(how)}}}"]

        bodies = {"teacher": [self.teacher]} | {
            case: [self.output / "students" / f"{case}-{seed}" for seed in self.seeds]
            for case in cases
        }

        def train_student(case: str, seed: int) -> None:
            run = bodies[case][seed]
            words = [f"model.init_from={start}", f"data.heldout={self.student_set / 'heldout'}"]
            words += [f"output={run}", f"seed={seed}", f"data.seed={seed}"]
            if not (run / "heldout.json").exists():
                clozeline("train", "--config", CONFIGS / "train_student.yaml", *cases[case], *words)
                publish_text(run / "heldout.json", json.dumps(heldout_loss(run)))

        run_at_once((partial(train_student, *each) for each in product(cases, self.seeds)), CORES)
        tunings = product(self.tasks, chain.from_iterable(bodies.values()))
        run_at_once((partial(self._tune_body, *each) for each in tunings), CORES)
        return [self._body_row(case, runs) for case, runs in bodies.items()]

    def _tune_body(self, task: str, body: Path) -> list[float]:
        return self.tune(task, f"bodies-{body.name}", body, seeds=1)

    def _body_row(self, case: str, runs: Sequence[Path]) -> dict[str, Any]:
        row: dict[str, Any] = {"part": "distillation", "case": case}
        row["nats"] = [heldout_loss(run) for run in runs]
        for task in self.tasks:
            row[task] = [score for run in runs for score in self._tune_body(task, run)]
        return row

    # -- tasks

    def tune(
        self, task: str, name: str, body: Path, *words: str, seeds: int | None = None
    ) -> list[float]:
        """Fine-tune a body on a task with each seed, and return the scores."""
        output = self._tuned(task, name)
        keys = [*self.tasks[task], f"seeds={seeds or len(self.seeds)}", f"output={output}", *words]

        def measure() -> list[float]:
            clozeline("finetune", body, *keys)
            return [next(iter(run.metrics.values())) for run in read_scored(output)]

        return keep_result(output / "figures.json", measure)

    def _tuned(self, task: str, name: str) -> Path:
        return self.output / "tuned" / f"{task}-{name}"

    def _tune_dense(self, task: str) -> list[float]:
        return self.tune(task, "dense", self.teacher)

    def compressed(self, task: str, name: str, words: Sequence[str]) -> list[float]:
        """Compress the dense model of each seed, and return the scores."""

        def measure() -> list[float]:
            scores = []
            for seed in self.seeds:
                dense = self._tuned(task, "dense") / f"seed-{seed}"
                (train,) = (dense.parent / "sets" / "tasks").glob("*/train")
                output = self.output / "compressed" / task / name / f"seed-{seed}"
                shutil.rmtree(output, ignore_errors=True)  # of a call that was interrupted
                more = ["repeats=1", "length=16", f"output={output}"]
                compress(read_words(CompressOptions, [str(dense), *words, *more]))
                scores += score([output], "dev", train.parent).values
            return scores

        return keep_result(self.output / "compressed" / task / f"{name}.json", measure)

    # -- methods

    def prune(self) -> list[dict[str, Any]]:
        """Return the scores of each pruning method at each level."""
        trained = [*product(TRAINED, LEVELS)]
        run_at_once((partial(self._tune_dense, task) for task in self.tasks), CORES)
        run_at_once(
            (partial(self._tune_pruned, task, *each) for task in self.tasks for each in trained),
            CORES,
        )
        rows = []

        for task in self.tasks:
            rows.append(_row("pruning", "dense", task, 0, self._tune_dense(task)))

            for method, level in product(REMOVED, LEVELS):
                is_whole = method == "layers"
                size = f"keep=[{_layers(level)}]" if is_whole else f"sparsity={level / 100}"
                scores = self.compressed(task, f"{method}-{level}", [f"method={method}", size])
                rows.append(_row("pruning", method, task, level, scores))

            for method, level in trained:
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
            rows.append(_row("quantization", "dense", task, 32, self._tune_dense(task)))
            for method, bits in (("int8", 8), ("int8_dynamic", 8), ("int4", 4)):
                scores = self.compressed(task, method, [f"method={method}"])
                rows.append(_row("quantization", method, task, bits, scores))
        return rows

    def exit_early(self) -> list[dict[str, Any]]:
        """Return accuracy by mean depth and by tokens kept of the first classification task."""
        task = next(iter(self.tasks))
        self._tune_dense(task)
        rows = []

        def measure(part: str, seed: int) -> list[Point]:
            dense = self._tuned(task, "dense") / f"seed-{seed}"
            if part == "tokens":
                return measure_tokens(dense)
            # off-ramps learn behind a frozen body
            name = f"exits-{seed}"
            self.tune(task, name, dense, "model.heads.classification.exits=after", seeds=1)
            return measure_exits(self._tuned(task, name) / "seed-0")

        for part in ("exits", "tokens"):
            points = [
                keep_result(
                    self.output / "early" / f"{part}-{seed}.json", partial(measure, part, seed)
                )
                for seed in self.seeds
            ]
            for same in zip(*points, strict=True):
                rules, amounts, scores = zip(*same, strict=True)
                row = _row(part, rules[0], task, 0, scores)
                rows.append({**row, "amount": fmean(amounts)})

        return rows


def heldout_loss(run: Path) -> float:
    """Return the last held-out loss of a run, in nats per masked token."""
    records = read_lines(run / "metrics.jsonl")
    *_, last = (record["heldout"]["heldout"]["loss"] for record in records if "heldout" in record)
    return float(last)


def path_list(paths: Iterable[Path]) -> str:
    """Return files as a value of the command line."""
    return f"[{', '.join(str(path.resolve()) for path in paths)}]"


def _layers(level: int) -> str:
    """Return the layers that stay of the teacher's four, spread evenly, the last among them."""
    return {30: "0,1,3", 50: "1,3", 70: "3", 90: "3"}[level]


def _row(part: str, case: str, task: str, level: int, scores: Sequence[float]) -> dict[str, Any]:
    return {"part": part, "case": case, "task": task, "level": level, "scores": list(scores)}


def _percent(scores: Sequence[float]) -> str:
    return mean_text([100 * score for score in scores], 2)


def show_distillation(rows: Sequence[dict[str, Any]]) -> None:
    """Print the students by the scores that they had."""
    _, _, _, *tasks = rows[0]  # part, case, nats
    cells = [
        (row["case"], mean_text(row["nats"], 2), *(_percent(row[task]) for task in tasks))
        for row in rows
    ]
    head = ("scores of the teacher", "held-out nats", *(f"{task}, %" for task in tasks))
    print_table(head, cells)


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


def show_early(rows: Sequence[dict[str, Any]]) -> None:
    """Print accuracy by rule."""
    cells = [
        (row["part"], row["case"], f"{row['amount']:.3f}", _percent(row["scores"])) for row in rows
    ]
    print_table(("", "rule", "mean depth, or share of tokens", "accuracy, %"), cells)


def main() -> None:
    """Run the parts that are asked for, and print their tables."""
    made = parser(__doc__, seeds=3, labels=1000)
    made.add_argument("output", type=Path)
    made.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE")
    made.add_argument("--student-text", type=Path, required=True, metavar="FILE")
    made.add_argument("--task", action="append", required=True, metavar="NAME=FILE[,TEST]")
    made.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = made.parse_args()
    experiment = Experiment(options.output.resolve(), options)
    rows = []
    if "sets" in options.parts:
        experiment.make_sets()

    for part, measure, show in (
        ("distillation", experiment.distil, show_distillation),
        ("pruning", experiment.prune, show_levels),
        ("quantization", experiment.quantize, show_levels),
        ("early", experiment.exit_early, show_early),
    ):
        if part in options.parts:
            rows += (found := measure())
            show(found)

    print(system_load())
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
