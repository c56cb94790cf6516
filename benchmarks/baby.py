"""Train one small body, and score it next to what must be beaten: `make baby` runs this.

    python -m benchmarks.baby OUTPUT --text FILE ... --pairs FILE
        [--task pos=FILE[,TEST] ...] [--share 1.0] [--ranks 2]
        [--train KEY=VALUE ...]

The body of `recipe:baby` is trained once; checkpoints are named by the words that it has seen. Each
is exported and scored on minimal pairs by classes of transformers (`benchmarks.baby_scores`), next
to n-grams of the same texts. The first one, after 40 steps, is a control. The last one is
fine-tuned on the tasks from all weights and from random ones; a task with one file is tested on 30
% of its rows. `--share 0.01` tries the chain on a hundredth of the rows. Every step is a command,
printed before it runs. The same call goes on after an interruption: what has a result is not run
again. OUTPUT gets results.md, curve.svg and figures.json.
"""

import json
import math
import re
import shutil
import time
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import ROOT, parser, system_load, table_text

import yaml

from benchmarks.baby_scores import score_by_harness, score_counts, score_folder, write_causal
from benchmarks.compression import clozeline, keep_result, path_list
from benchmarks.curve import draw_curves
from benchmarks.few_labels import tuning_words
from clozeline.extensions.evaluation.heldout_score import label_loss
from clozeline.extensions.evaluation.minimal_pairs import read_pairs
from clozeline.extensions.tasks.finetuning_scores import mean_text, read_scored
from clozeline.files import publish_text
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tables import read_texts
from clozeline.report.charts import short
from clozeline.tools.start.multirun.runner import run_step
from clozeline.train.checkpoint.stored_checkpoint import Index, steps_in
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.checkpoint import milestone_tokens
from clozeline.train.distributed.launcher import free_port

SMALLEST = None
CONFIGS: Final = ROOT / "configs" / "recipes" / "baby"
TRAINING: Final = CONFIGS / "train.yaml"
HARNESS: Final = 5
"""Paradigms that lm-eval scores too, where it is installed."""
SMALLER: Final = {
    "int8": ["method=int8"],
    "int8_dynamic": ["method=int8_dynamic"],
    "int4": ["method=int4"],
    "magnitude 30 %": ["method=magnitude", "sparsity=0.3", "scope=global"],
    "magnitude 50 %": ["method=magnitude", "sparsity=0.5", "scope=global"],
    "magnitude 70 %": ["method=magnitude", "sparsity=0.7", "scope=global"],
    "heads, 2 of 3": ["method=heads", "keep=2"],
    "heads, 1 of 3": ["method=heads", "keep=1"],
    "rows 30 %": ["method=rows", "sparsity=0.3"],
    "rows 50 %": ["method=rows", "sparsity=0.5"],
    "layers, 3 of 4": ["method=layers", "keep=[0,1,3]"],
    "layers, 2 of 4": ["method=layers", "keep=[0,3]"],
}
"""Ways to make the last checkpoint smaller, without training."""
HELDOUT_ROWS: Final = 1000
LABELS: Final = 1000
"""Training rows of a task, about."""
SEEDS: Final = 5


class Baby:
    """Folders of one output, and its steps."""

    def __init__(self, output: Path, options: Any) -> None:
        self.output = output
        self.options = options
        self.data = output / "data"
        self.run = output / "run"
        self.pairs = read_pairs(options.pairs, options.most)
        self.exports = output / "exports"
        self.keys = yaml.safe_load(TRAINING.read_text(encoding="utf-8"))

    def make_sets(self) -> None:
        """Make the rows, and write the texts that they come from."""
        files = f"input={path_list(self.options.text)}"
        clozeline("pipeline", "--config", CONFIGS / "pipeline.yaml", files, f"output={self.data}")
        texts = self.output / "texts"
        if not texts.exists():
            clozeline("export-documents", self.data / "dedup" / "documents", f"output={texts}")

    def train(self) -> None:
        """Train, or go on; a share of the steps has all phases."""
        ranks = ("--num_accelerators", str(self.options.ranks))
        start = ["deepspeed", *ranks, "--master_port", str(free_port()), "--quiet", "train/main.py"]
        words = [f"data.folder={self.data}", f"output={self.run}"]
        if self.options.share < 1:
            steps = round(self.keys["steps"] * self.options.share)
            words += [f"steps={steps}", f"evaluate.every={max(1, steps // 4)}"]
        words += ["--config", str(TRAINING), *self.options.train]
        run_step(*start, *words, accelerator=None, variables={"OMP_NUM_THREADS": "1"})

    def find_checkpoints(self) -> dict[str, tuple[int, float]]:
        """Return step and words seen of the checkpoints that stay, by name: `1M`.

        The first is the control.
        """
        at = self.keys["checkpoint"]["at"]
        per_word = self.keys["checkpoint"]["tokens_per_word"]
        states = [Index.read(path).state for path in steps_in(self.run / "checkpoints")]
        seen = [(int(state["step"]), state["tokens"] / per_word) for state in states]
        found = {}
        for entry in at:
            (tokens,), name = milestone_tokens([entry], per_word), entry.removesuffix(" words")
            if later := [each for each in seen if each[1] * per_word >= tokens]:
                found[name] = later[0]
        return found if seen[-1] in found.values() else found | {short(seen[-1][1]): seen[-1]}

    def export(self, name: str, step: int) -> Path:
        """Export a checkpoint; one that was interrupted has no config.json."""
        folder = self.exports / name
        if not (folder / "config.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            clozeline("export-model", self.run, folder, "--step", str(step))
        return folder

    def score_pairs(self, checkpoints: Mapping[str, tuple[int, float]]) -> dict[str, Any]:
        """Return the accuracies of each checkpoint and of the n-grams on minimal pairs."""
        scores = self.output / "pairs"
        found = {}
        last = [*checkpoints][-1]

        for name, (step, _) in checkpoints.items():
            folder = self.export(name, step)
            found[name] = keep_result(
                scores / f"{name}.json", partial(score_folder, folder, self.pairs, name == last)
            )

        texts = self.output / "texts"
        found["n-grams"] = keep_result(
            scores / "n-grams.json", lambda: score_counts([*read_texts(texts)], self.pairs, folder)
        )
        return found

    def compare_harness(self, folder: Path) -> dict[str, float]:
        """Return the accuracies of lm-eval on a few paradigms; none where it is not installed."""
        if find_spec("lm_eval") is None:
            return {}
        return keep_result(
            self.output / "harness.json",
            lambda: score_by_harness(write_causal(folder), self.pairs, HARNESS),
        )

    def perplexity(self, name: str, step: int, last: bool) -> dict[str, Any]:
        """Return the perplexity on held-out rows.

        That of the last checkpoint is compared with 5-grams of tokens.
        """
        file = self.output / "perplexity" / f"{name}.json"
        if not file.exists():
            sets = self.data / "corrupt" / "causal"
            words = [f"perplexity={sets / 'heldout'}", f"step={step}", f"output={file}"]
            words += [f"baseline={sets / 'train'}"] if last else []
            clozeline("evaluate", self.run, *words)
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def compress(self) -> list[list[str]]:
        """Make the last checkpoint smaller in each way.

        Return held-out perplexities, causal and masked.
        """
        found = []

        for name, words in {"as trained": [], **SMALLER}.items():
            folder = self.output / "smaller" / "-".join(re.findall(r"\w+", name))
            folder = folder if words else self.run
            if words and not (folder / "compression.json").exists():
                shutil.rmtree(folder, ignore_errors=True)
                clozeline("compress", self.run, *words, f"output={folder}", "repeats=1")
            scores = keep_result(
                self.output / "smaller" / f"{name}.json", partial(self._perplexities, folder)
            )
            found.append([name, *(f"{scores[kind]:.1f}" for kind in ("causal", "masked"))])

        return found

    def _perplexities(self, folder: Path) -> dict[str, float]:
        model = TrainedModel.open(folder).model
        sets = {kind: self.data / "corrupt" / kind / "heldout" for kind in ("causal", "masked")}
        return {
            kind: math.exp(label_loss(model, open_shards(path), HELDOUT_ROWS).nats)
            for kind, path in sets.items()
        }

    def tune(self, word: str) -> list[str]:
        """Fine-tune on a task from all weights and from random ones; return a row of the table."""
        task, keys = tuning_words(word, LABELS)
        row = []

        for begin in ("all", "random"):
            output = self.output / "tuned" / f"{task}-{begin}"
            words = [*keys, f"seeds={SEEDS}", f"from={begin}", f"output={output}"]
            clozeline("finetune", self.run, *words)
            runs = read_scored(output)
            metric = runs[0].facts.metrics[0]
            row.append(mean_text([run.metrics[metric] for run in runs], 3))

        baselines = runs[0].scores["baselines"].items()
        return [
            f"{task}, {metric}",
            *row,
            ", ".join(f"{name} {values[metric]:.3f}" for name, values in baselines),
        ]


def percent(scores: Mapping[str, Any]) -> str:
    return f"{100 * scores['mean']:.1f}"


def scores_text(title: str, scores: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of accuracies and ties by name."""
    rows = [(name, percent(of), of["ties"]) for name, of in scores.items()]
    return table_text((title, "BLiMP, %", "ties"), rows)


def report(baby: Baby, checkpoints: Mapping[str, tuple[int, float]]) -> str:
    """Score checkpoints without scores, and write the curve and the figures.

    Return the tables as Markdown.
    """
    pairs = baby.score_pairs(checkpoints)
    last = [*checkpoints][-1]
    nats = {
        name: baby.perplexity(name, step, name == last) for name, (step, _) in checkpoints.items()
    }
    counts = pairs["n-grams"]
    five = counts["5-gram"]
    first, *_ = checkpoints
    controls = {f"{checkpoints[first][0]} steps": pairs[first]["causal"], **counts}
    levels = {name: round(100 * scores["mean"], 1) for name, scores in controls.items()}
    points = [
        (words, round(100 * pairs[name]["causal"]["mean"], 1))
        for name, (_, words) in checkpoints.items()
    ]
    picture = draw_curves("BLiMP, percent correct", "words", {"": points}, levels)
    publish_text(baby.output / "curve.svg", picture)
    rows = [
        [
            name,
            f"{step:,}",
            short(words),
            percent(pairs[name]["causal"]),
            f"{nats[name]['perplexity']:.1f}",
        ]
        for name, (step, words) in checkpoints.items()
    ]

    ours = pairs[last]
    paradigms = [
        [name, *(f"{100 * scores['paradigms'][name]:.1f}" for scores in (*ours.values(), five))]
        for name in five["paradigms"]
    ]

    parts = [
        table_text(("checkpoint", "step", "words seen", "BLiMP, %", "held-out perplexity"), rows),
        scores_text("control on the same pairs", counts),
        scores_text("score of the last checkpoint", ours),
        table_text(("paradigm", *ours, "5-gram"), paradigms),
    ]

    if harness := baby.compare_harness(baby.exports / last):
        most = max(
            abs(value - ours["causal"]["paradigms"][name]) for name, value in harness.items()
        )
        parts.append(
            f"lm-eval on {len(harness)} paradigms: its accuracies differ by {most:.1g} at most.\n"
        )

    untrained = ("without further training", "causal perplexity", "masked perplexity")
    parts.append(table_text(untrained, baby.compress()))
    if tuned := [baby.tune(word) for word in baby.options.task]:
        weights = ("task", "from all weights", "from random weights", "baselines")
        parts.append(table_text(weights, tuned))
    base = nats[last]["baseline"]
    parts.append(
        f"Perplexity of a {base['ngram']}-gram of the same tokens: {base['perplexity']:.1f}.\n"
    )
    figures = {"checkpoints": checkpoints, "pairs": pairs, "perplexity": nats, "tasks": tuned}
    publish_text(baby.output / "figures.json", json.dumps(figures, indent=1))
    return "\n".join(parts)


def main() -> None:
    """Run what has no result yet, and write the tables."""
    made = parser(
        __doc__,
        share=(1.0, "share of the rows to train on"),
        ranks=(2, "processes that train"),
        most=(int, "pairs of a paradigm; default: all"),
    )

    made.add_argument("output", type=Path)
    made.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE")
    made.add_argument("--pairs", type=Path, required=True, metavar="FILE")
    made.add_argument("--task", nargs="+", default=[], metavar="NAME=FILE[,TEST]")
    made.add_argument(
        "--train", nargs="+", default=[], metavar="KEY=VALUE", help="keys of the training"
    )
    options = made.parse_args()
    baby = Baby(options.output.resolve(), options)
    start = time.time()
    baby.make_sets()
    baby.train()
    checkpoints = baby.find_checkpoints()
    found = report(baby, checkpoints)
    publish_text(baby.output / "results.md", found)
    print(
        found, f"{(time.time() - start) / 60:.0f} minutes of this call, {system_load()}", sep="\n"
    )


if __name__ == "__main__":
    main()
