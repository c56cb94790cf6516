"""What minutes of one core give: our templates, the Trainer of transformers, and a plain loop.

    python -m benchmarks.hour --texts FILE ... --output DIR [--minutes 1 10 60] [--seeds 3 3 1]

All contenders read the same rows of 128 tokens, of one tokenizer, for the same minutes of CPU time.
Ours are the files that `clozeline new` writes for `model=gpt` and `model=bert`, with other `steps`
and without evaluations. The others are those of `benchmarks.peers.pretraining`, tuned for a minute.
Nobody stops by a clock: a first run of a few steps measures the speed, and from it follow the steps
that fill the minutes, since a learning rate must know its end.

One scorer measures all: the others are imported by `clozeline import-model`. Held-out nats of
causal and of masked rows (15 %) are different questions, and are not compared. Each step is a
command, printed before it runs; a contender and seed with a result is not run again. DIR gets
causal.svg and masked.svg, nats over minutes.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from benchmarks.harness import parser, print_table, run_script, system_load, write_json

import numpy as np
import yaml

from benchmarks.compression import clozeline, keep_result, path_list
from benchmarks.curve import draw_curves
from benchmarks.peers.pretraining import LENGTH, TUNED
from clozeline.extensions.evaluation.heldout_score import label_loss
from clozeline.extensions.tasks.finetuning_scores import mean_text, standard_error
from clozeline.extensions.tasks.task_run import set_rows
from clozeline.files import publish_text
from clozeline.pipeline.shards import open_shards
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.logs.figures import last_heldout
from clozeline.train.logs.json_lines import read_lines, step_records

SMALLEST = None
PEER: Final = Path(__file__).parent / "peers" / "pretraining.py"
METRICS: Final = "metrics.jsonl"
PROBE: Final = 40
"""Steps that measure the speed, at least the warmup of our templates."""
SKIPPED: Final = 9
"""First steps that do not tell the speed."""
HELDOUT_ROWS: Final = 2000
TEMPLATES: Final = {"causal": "gpt", "masked": "bert"}
CONTENDERS: Final = [
    f"{who}_{kind}" for kind in TEMPLATES for who in ("template", "trainer", "loop")
]


class Hour:
    """Folders of one output, and its steps."""

    def __init__(self, texts: Sequence[Path], output: Path) -> None:
        self.output = output.resolve()
        self.data = self.output / "data"
        self.sets: dict[str, Path] = {}
        for kind, model in TEMPLATES.items():
            folder = self.output / kind
            if not (folder / "train.yaml").exists():
                clozeline("new", folder, f"input={path_list(texts)}", f"model={model}")
            keys = yaml.safe_load((folder / "train.yaml").read_text(encoding="utf-8"))
            group = Path(keys["data"]["shards"]).relative_to(folder / "data")
            self.sets[kind] = self.data / group.parent

        # one tokenizer and the rows of all
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

    def train(self, name: str, steps: int, seed: int, run: Path) -> dict[str, Any]:
        """Train a contender; return its CPU seconds, those of a step, and the tokens seen."""
        shutil.rmtree(run, ignore_errors=True)
        kind = name.split("_")[1]
        if name in TUNED:
            os.environ["OMP_NUM_THREADS"] = os.environ["OMP_THREAD_LIMIT"] = "1"
            peer = (name, self.output / "rows" / kind, run, "--steps", steps, "--seed", seed)
            print("\n$ python", PEER, *peer, flush=True)
            found: dict[str, Any] = run_script(str(PEER), *peer)
            return found
        words = [f"output={run}", f"steps={steps}", f"seed={seed}", f"data.seed={seed}"]
        words += [f"data.shards={self.sets[kind] / 'manifest.json'}"]
        words += [f"evaluate.every={steps}", f"checkpoint.every={steps}"]
        clozeline("train", "--config", self.output / kind / "train.yaml", *words)
        records = [*step_records(read_lines(run / METRICS))]
        spent = [record["cpu_s"] for record in records]
        return {
            "whole": sum(spent),
            "step": fmean(spent[SKIPPED:]),
            "tokens": records[-1]["tokens"],
        }

    def speed(self, name: str) -> float:
        """Return the CPU seconds of a step, measured once."""
        path = self.output / "speeds" / f"{name}.json"
        return float(keep_result(path, partial(self.measure_speed, name)))

    def measure_speed(self, name: str) -> float:
        """Return the CPU seconds of a step."""
        if name in TUNED:
            # the probe of the template writes the rows
            self.speed(f"template_{name.split('_')[1]}")
        run = self.output / "probes" / name
        found = self.train(name, PROBE, 0, run)
        if name not in TUNED:
            self.give_rows(name.split("_")[1], run)
        return float(found["step"])

    def run(self, name: str, minutes: float, seed: int) -> dict[str, Any]:
        """Train a contender with a seed for the minutes, and measure it."""
        run = self.output / "runs" / f"{name}-{minutes:g}-{seed}"
        steps = max(PROBE, int(60 * minutes / self.speed(name)))
        found = self.train(name, steps, seed, run)
        if name in TUNED:
            # an import must have the logits of its origin
            origin, run = run, self.output / "imported" / run.name
            shutil.rmtree(run, ignore_errors=True)
            clozeline("import-model", origin, run)
            clozeline("compare-logits", origin, run, "--theirs")
        model = TrainedModel.open(run).model
        heldout = open_shards(self.data / "corrupt" / f"{name.split('_')[1]}_lm" / "heldout")
        return {
            "steps": steps,
            "tokens": found["tokens"],
            "cpu_minutes": found["whole"] / 60,
            "parameters": sum(value.numel() for value in model.parameters()),
            "nats": label_loss(model, heldout, HELDOUT_ROWS).nats,
            "load": system_load(),
        }


def judge(nats: Mapping[str, Sequence[float]]) -> list[str]:
    """Return for each kind by how much its template is below the best of the others.

    It is decided beyond two standard errors of the difference of means over seeds.
    """
    lines = []
    for kind in TEMPLATES:
        ours = f"template_{kind}"
        others = [name for name in nats if name.endswith(kind) and name != ours]
        if ours not in nats or not others:
            continue
        best = min(others, key=lambda name: fmean(nats[name]))
        below = fmean(nats[best]) - fmean(nats[ours])
        pair = (nats[ours], nats[best])
        error = None
        if min(map(len, pair)) > 1:
            error = standard_error(*pair)
        word = "undecided" if error is None or abs(below) <= 2 * error else "decided"
        text = "one seed" if error is None else f"standard error {error:.3f}"
        lines.append(f"{kind}: {ours} is {below:+.3f} nats below {best} ({text}): {word}")
    return lines


def draw(output: Path, results: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> None:
    """Write a picture of the mean nats of each contender over its CPU minutes."""
    for kind in TEMPLATES:
        lines: dict[str, list[tuple[float, float]]] = {}
        for by_name in results.values():
            for name, cells in by_name.items():
                if not name.endswith(kind):
                    continue
                minutes = fmean(one["cpu_minutes"] for one in cells)
                nats = fmean(one["nats"] for one in cells)
                lines.setdefault(name, []).append((float(f"{minutes:.2g}"), round(nats, 2)))
        if lines:
            heldout = last_heldout(read_lines(output / "probes" / f"template_{kind}" / METRICS))
            entropy = next(iter(heldout.values()))["unigram_entropy"]
            levels = {"unigram entropy": round(entropy, 2)}
            picture = draw_curves("held-out nats", "CPU minutes", lines, levels)
            publish_text(output / f"{kind}.svg", picture)


def main() -> int:
    """Run what has no result, and print table and verdict."""
    made = parser(__doc__, minutes=[1.0], seeds=[3])
    made.add_argument("--texts", type=Path, nargs="+", required=True, metavar="FILE")
    made.add_argument("--output", type=Path, required=True, metavar="DIR")
    made.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS, metavar="NAME")
    options = made.parse_args()
    hour = Hour(options.texts, options.output)
    written = {}
    seeds = [*options.seeds, *options.seeds[-1:] * len(options.minutes)]
    for minutes, count in zip(options.minutes, seeds, strict=False):
        results: dict[str, list[Any]] = {name: [] for name in options.only}
        for seed, name in product(range(count), options.only):
            path = hour.output / "results" / f"{name}-{minutes:g}-{seed}.json"
            results[name].append(keep_result(path, partial(hour.run, name, minutes, seed)))
        columns = {"steps": 0, "tokens": 0, "cpu_minutes": 2, "parameters": 0, "nats": 3}
        rows = [
            [name, *(mean_text([one[key] for one in found], columns[key]) for key in columns)]
            for name, found in results.items()
        ]
        print_table(("contender", *columns), rows, f"{minutes:g} CPU minutes")
        nats = {name: [one["nats"] for one in found] for name, found in results.items()}
        print(*judge(nats), system_load(), sep="\n")
        written[f"{minutes:g}"] = results
    draw(hour.output, written)
    write_json(options.json, written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
