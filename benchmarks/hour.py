"""What an hour of two cores gives: our templates, the Trainer of transformers, and a plain loop.

    python -m benchmarks.hour --texts FILE ... --pairs blimp.jsonl --labeled TRAIN.conllu DEV.conllu
        --output DIR [--minutes 60] [--seeds 3] [--threads 2] [--clock cpu]

All contenders read the same rows of 128 tokens, of one tokenizer, for the same minutes. Ours are
the files that `clozeline new` writes for `model=gpt` and `model=bert`, with 4 layers instead of 2
and other `steps`. The others are those of `benchmarks.peers.pretraining`, with 4 layers of the same
width. Nobody stops by a clock: a first run of a few steps measures the speed, and from it follow
the steps that fill the minutes, since a learning rate must know its end. Our evaluations and
checkpoints count as time, imports do not.

One scorer measures all: the others are imported by `clozeline import-model`. Held-out nats of
causal and of masked rows (15 %) are different questions, and are not compared. The weights are then
fine-tuned on parts of speech, all by the recipe `task=pos` as it stands. `--clock cpu` counts CPU
time of the threads, for a machine that does other work. Each step is a command, printed before it
runs; a contender and seed with a result is not run again.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from benchmarks.harness import (
    cpu_seconds,
    parser,
    print_table,
    run_script,
    system_load,
    write_json,
)

import numpy as np
import yaml

from benchmarks.compression import clozeline, keep_result, path_list
from benchmarks.peers.pretraining import LAYERS, LENGTH, TRAINERS
from clozeline.extensions.evaluation.heldout_score import label_loss
from clozeline.extensions.tasks.finetuning_scores import (
    difference_text,
    mean_text,
    read_scored,
)
from clozeline.extensions.tasks.task_run import set_rows
from clozeline.pipeline.shards import open_shards
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.logs.json_lines import read_lines, step_records

SMALLEST = None
PEER: Final = Path(__file__).parent / "peers" / "pretraining.py"
PROBE: Final = 40
"""Steps that measure the speed, at least the warmup of our templates."""
HELDOUT_ROWS: Final = 2000
TEMPLATES: Final = {"causal": "gpt", "masked": "bert"}
CONTENDERS: Final = {
    "template_causal": "causal",
    "trainer_causal": "causal",
    "plain_loop": "causal",
    "template_masked": "masked",
    "trainer_masked": "masked",
}
"""What each contender learns, by its name."""
MEASURES: Final = {"nats": -1, "pairs": 1, "tuned": 1}
"""1: more is better, -1: less is."""
Seconds = dict[str, float]
"""By clock: cpu, wall."""


class Hour:
    """Folders of one output, and its steps."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.output = options.output.resolve()
        self.data = self.output / "data"
        self.keys: dict[str, Any] = {}
        self.sets: dict[str, Path] = {}

    def make_sets(self) -> None:
        """Write our templates, and make one tokenizer and the rows of all."""
        for kind, model in TEMPLATES.items():
            folder = self.output / kind
            if not (folder / "train.yaml").exists():
                files = f"input={path_list(self.options.texts)}"
                clozeline("new", folder, files, f"model={model}")
            self.keys[kind] = yaml.safe_load((folder / "train.yaml").read_text(encoding="utf-8"))
            group = Path(self.keys[kind]["data"]["shards"]).relative_to(folder / "data")
            self.sets[kind] = self.data / group.parent

        objectives = [f"{{name: {kind}_lm, max_length: {LENGTH}}}" for kind in TEMPLATES]
        config = self.output / "causal" / "pipeline.yaml"
        words = [f"output={self.data}", f"corrupt=[{', '.join(objectives)}]"]
        clozeline("pipeline", "--config", config, *words)

    def give_rows(self, kind: str, probe: Path) -> None:
        """Write rows and tokenizer for the other contenders, who know no shards."""
        folder = self.output / "rows" / kind
        clozeline("export-model", probe, folder)
        shards = open_shards(self.sets[kind])
        ids = set_rows(shards).columns["ids"]
        if kind == "causal":
            rows = ids.values[: len(ids.values) // LENGTH * LENGTH].reshape(-1, LENGTH)
        else:
            special = shards.manifest.tokenizer.special_ids
            texts = [ids[row] for row in range(len(ids))]
            full = [text for text in texts if len(text) == LENGTH - 2]
            ends = ((0, 0), (1, 1))
            rows = np.pad(
                np.stack(full), ends, constant_values=((0, 0), (special["cls"], special["sep"]))
            )
        np.save(folder / "rows.npy", rows.astype(np.uint16))

    def train_template(self, kind: str, steps: int, seed: int, run: Path) -> tuple[Seconds, int]:
        """Train by our template; return the seconds without the imports, and the tokens seen."""
        shutil.rmtree(run, ignore_errors=True)
        words = ["--config", str(self.output / kind / "train.yaml"), f"output={run}"]
        words += [f"data.shards={self.sets[kind] / 'manifest.json'}", f"model.layers={LAYERS}"]
        words += [f"steps={steps}", f"seed={seed}", f"data.seed={seed}"]
        start = partial(clozeline, "train", *words, threads=self.options.threads)
        before = measure_children(partial(start, "--dry-run"))
        whole = measure_children(start)
        seen = read_steps(run)[-1]["tokens"]
        return {clock: whole[clock] - before[clock] for clock in whole}, seen

    def train_peer(self, name: str, steps: int, seed: int, run: Path) -> dict[str, Any]:
        """Train another contender; return its seconds, those of a step, and the tokens seen."""
        shutil.rmtree(run, ignore_errors=True)
        os.environ["OMP_NUM_THREADS"] = os.environ["OMP_THREAD_LIMIT"] = str(self.options.threads)
        data = self.output / "rows" / CONTENDERS[name]
        words = (name, data, run, "--steps", steps, "--seed", seed)
        print("\n$ python", PEER, *words, flush=True)
        found: dict[str, Any] = run_script(str(PEER), *words)
        return found

    def measure_speed(self, name: str) -> float:
        """Return the seconds of a step, with a step's share of evaluation and checkpoint."""
        run = self.output / "probes" / name
        clock = self.options.clock
        if name in TRAINERS:
            return float(self.train_peer(name, PROBE, 0, run)["step"][clock])
        kind = CONTENDERS[name]
        seconds, _ = self.train_template(kind, PROBE, 0, run)
        self.give_rows(kind, run)
        records = read_steps(run)
        spent = {
            "cpu": sum(record["cpu_s"] for record in records),
            "wall": sum(sum(record["step_ms"].values()) for record in records) / 1e3,
        }
        rest = max(0.0, seconds[clock] - spent[clock])
        return spent[clock] / len(records) + rest / self.keys[kind]["evaluate"]["every"]

    def run(self, name: str, seed: int, seconds_of_step: float) -> dict[str, Any]:
        """Train a contender with a seed for the minutes, and measure it."""
        run = self.output / "runs" / f"{name}-{seed}"
        budget = self.options.minutes * 60 * self._cores()
        steps = max(PROBE, int(budget / seconds_of_step))
        if name in TRAINERS:
            found = self.train_peer(name, steps, seed, run)
            seconds, tokens = found["whole"], found["tokens"]
        else:
            seconds, tokens = self.train_template(CONTENDERS[name], steps, seed, run)
        figures = {"steps": steps, "tokens": tokens, "load": system_load()}
        figures |= {f"{clock}_minutes": value / 60 for clock, value in seconds.items()}
        return figures | self.score(name, self.take_over(name, run))

    def take_over(self, name: str, run: Path) -> Path:
        """Return a folder that our commands read; an import must have the logits of its origin."""
        if name not in TRAINERS:
            return run
        imported = self.output / "imported" / run.name
        shutil.rmtree(imported, ignore_errors=True)
        clozeline("import-model", run, imported)
        clozeline("compare-logits", run, imported, "--theirs")
        return imported

    def score(self, name: str, folder: Path) -> dict[str, Any]:
        """Return held-out nats, the accuracy on minimal pairs, and that on words' tags."""
        model = TrainedModel.open(folder).model
        heldout = open_shards(self.data / "corrupt" / f"{CONTENDERS[name]}_lm" / "heldout")
        pairs = self.output / "pairs" / f"{folder.name}.json"
        options = self.options
        clozeline(
            "evaluate", folder, "suite=blimp", f"input={options.pairs.resolve()}", f"output={pairs}"
        )
        tuned = self.output / "tuned" / folder.name
        train, dev = (path.resolve() for path in options.labeled)
        shutil.rmtree(tuned, ignore_errors=True)
        words = ["task=pos", f"train={train}", f"dev={dev}", f"output={tuned}", "seeds=1"]
        clozeline("finetune", folder, *words, threads=options.threads)
        scored = read_scored(tuned)[0]
        return {
            "parameters": sum(value.numel() for value in model.parameters()),
            "nats": label_loss(model, heldout, HELDOUT_ROWS).nats,
            "pairs": 100 * json.loads(pairs.read_text(encoding="utf-8"))["accuracy"],
            "tuned": 100 * scored.metrics[scored.facts.metrics[0]],
        }

    def _cores(self) -> int:
        """Return what a second of the clock holds: CPU seconds of all threads, or one second."""
        return int(self.options.threads) if self.options.clock == "cpu" else 1


def read_steps(run: Path) -> list[dict[str, Any]]:
    """Return what a run of ours recorded of each step."""
    return [*step_records(read_lines(run / "metrics.jsonl"))]


def measure_children(work: Callable[[], None]) -> Seconds:
    """Return the seconds of the commands that a work runs."""
    cpu = cpu_seconds()
    wall = time.perf_counter()
    work()
    return {"cpu": cpu_seconds() - cpu, "wall": time.perf_counter() - wall}


def judge(results: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """Return a line for each kind and measure, then what a user would pick of each kind.

    A difference counts if it is larger than both standard deviations over seeds together.
    """
    lines = []
    picks = []
    for kind in TEMPLATES:
        names = [name for name in results if CONTENDERS[name] == kind]
        firsts = set()
        for measure, sign in MEASURES.items():
            values = {name: [one[measure] for one in results[name]] for name in names}
            first, second = sorted(names, key=lambda name: -sign * fmean(values[name]))[:2]
            difference = difference_text(values[first], values[second], 2)
            is_decided = is_beyond_chance(values[first], values[second])
            firsts |= {first} if is_decided else set()
            word = "ahead of" if is_decided else "not distinguishable from"
            lines.append(f"{kind}, {measure}: {first} {word} {second}, {difference}")
        if len(firsts) == 1:
            picks.append(f"{kind}: a user would pick {firsts.pop()}")
        else:
            picks.append(f"{kind}: no contender is first in all that is decided")
    return lines + picks


def is_beyond_chance(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether means differ by more than the sum of the standard deviations over seeds."""
    if min(len(first), len(second)) < 2:
        return False
    return abs(fmean(first) - fmean(second)) > stdev(first) + stdev(second)


def main() -> int:
    """Run what has no result, and print table and verdict."""
    made = parser(
        __doc__,
        minutes=(60.0, "of training, each contender and seed"),
        seeds=3,
        threads=2,
        clock=("wall", "wall or cpu"),
    )
    made.add_argument("--texts", type=Path, nargs="+", required=True, metavar="FILE")
    made.add_argument("--pairs", type=Path, required=True, metavar="FILE")
    made.add_argument("--labeled", type=Path, nargs=2, required=True, metavar="CONLLU")
    made.add_argument("--output", type=Path, required=True, metavar="DIR")
    hour = Hour(made.parse_args())
    options = hour.options
    hour.make_sets()
    ordered = sorted(CONTENDERS, key=lambda name: name in TRAINERS)  # ours export the tokenizer
    speeds = {
        name: keep_result(
            hour.output / "speeds" / f"{name}.json", partial(hour.measure_speed, name)
        )
        for name in ordered
    }

    results: dict[str, list[Any]] = {name: [] for name in CONTENDERS}
    for seed, name in product(range(options.seeds), CONTENDERS):
        path = hour.output / "results" / f"{name}-{seed}.json"
        results[name].append(keep_result(path, partial(hour.run, name, seed, speeds[name])))

    columns = {"steps": 0, "tokens": 0, f"{options.clock}_minutes": 2, "parameters": 0}
    columns |= {"nats": 3, "pairs": 1, "tuned": 1}
    rows = [
        [name, *(mean_text([one[key] for one in found], digits) for key, digits in columns.items())]
        for name, found in results.items()
    ]
    print_table(("contender", *columns), rows)
    print(*judge(results), system_load(), sep="\n")
    write_json(options.json, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
