"""What attention is worth to a recurrent encoder-decoder, by the length of the text.

    python -m benchmarks.bottleneck --train FILE --test FILE --output DIR [--flops 8e12] [--seeds 3]

The files are tables of translations, such as those of Multi30k: an English and a German column.
Pairs are joined to texts of one to four sentences, equally often, so that long texts are frequent.
`recipe:rnn_search variant=tiny` is trained without attention (RNNencdec) and with additive
attention (RNNsearch, arXiv 1409.0473), for the same FLOPs and with the same seeds. The rate of each
is the best of three. The table has the held-out nats per target token, by number of sentences:
without attention, one vector has the whole source.

Each step is a command, printed before it runs; a run with a result is not repeated.
"""

import csv
import sys
from collections.abc import Iterator
from itertools import cycle, repeat
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import parser, print_table, system_load, write_json

from benchmarks.compression import clozeline, keep_result
from clozeline.extensions.tasks.finetuning_scores import difference_text, mean_text
from clozeline.train.logs.figures import last_heldout
from clozeline.train.logs.json_lines import read_lines

SMALLEST = None
ATTENTION: Final = ("none", "additive")
RATES: Final = (3e-3, 1e-2, 3e-2)
SENTENCES: Final = (1, 2, 3, 4)
PROBE: Final = 10
"""Steps that measure the FLOPs of a step."""


def join_pairs(path: Path, counts: Iterator[int]) -> Iterator[list[str]]:
    """Yield texts of the next pairs, a text of each language."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = (
            row for row in csv.reader(file, "excel-tab", quoting=csv.QUOTE_NONE) if len(row) == 2
        )
        while pairs := [row for _, row in zip(range(next(counts)), rows, strict=False)]:
            yield [" ".join(texts) for texts in zip(*pairs, strict=True)]


class Bottleneck:
    """Folders of one output, and its steps."""

    def __init__(self, options: Any) -> None:
        self.output = options.output.resolve()
        self.flops = options.flops
        self.train = self.make_set("train", options.train, cycle(SENTENCES))
        tokenizer = ("train_tokenizer=null", f"tokenizer.path={self.output}/sets/train")
        self.tests = {
            f"sentences_{count}": self.make_set(
                f"test_{count}", options.test, repeat(count), *tokenizer
            )
            for count in SENTENCES
        }

    def make_set(self, name: str, pairs: Path, counts: Iterator[int], *words: str) -> Path:
        """Write joined pairs and their shards."""
        shards = self.output / "sets" / name / "corrupt" / "translation" / "train"
        if not (shards / "manifest.json").exists():
            table = self.output / f"{name}.tsv"
            table.parent.mkdir(parents=True, exist_ok=True)
            with table.open("w", encoding="utf-8") as file:
                file.writelines("\t".join(texts) + "\n" for texts in join_pairs(pairs, counts))
            clozeline(
                *("pipeline", "--config", "recipe:rnn_search", f"output={shards.parents[2]}"),
                f"input=[{{path: {table}, language: en, target_language: de}}]",
                *("heldout.fraction=0", "dedup=null"),
                "corrupt=[{name: text_to_text, label: translation, input_length: 128, "
                "target_length: 128, decoder_start: bos}]",
                *(words or ["train_tokenizer.size=4000"]),
            )
        return shards

    def run(self, attention: str, rate: float, seed: int, steps: int, name: str) -> Path:
        """Train, unless it was done; return the folder."""
        run: Path = self.output / name / f"{attention}-{rate:g}-{seed}"
        tests = ", ".join(f"{test}: {shards}" for test, shards in self.tests.items())
        clozeline(
            *("train", "--config", "recipe:rnn_search", "variant=tiny", f"output={run}"),
            *(f"model.attention={attention}", f"optimizer.learning_rate={rate}"),
            *(f"seed={seed}", f"data.seed={seed}", f"data.shards={self.train}"),
            *(f"data.heldout={{{tests}}}", f"evaluate.every={steps}", "evaluate.max_rows=null"),
            *(f"steps={steps}", f"schedule.warmup={steps // 10}", f"checkpoint.every={steps}"),
        )
        return run

    def measure(self, attention: str, rate: float, seed: int) -> dict[str, float]:
        """Return the held-out nats by test set, and the steps."""
        probe = self.run(attention, rate, 0, PROBE, "probes")
        records = [*read_lines(probe / "metrics.jsonl")]
        steps = round(self.flops * PROBE / records[-1]["flops"])
        run = self.run(attention, rate, seed, steps, "runs")
        results = last_heldout([*read_lines(run / "metrics.jsonl")])
        return {"steps": steps, **{name: results[name]["loss"] for name in self.tests}}

    def kept(self, attention: str, rate: float, seed: int) -> dict[str, float]:
        path = self.output / "results" / f"{attention}-{rate:g}-{seed}.json"
        return keep_result(path, lambda: self.measure(attention, rate, seed))


def main() -> int:
    options = parser(__doc__, train=Path, test=Path, output=Path, flops=8e12, seeds=3).parse_args()
    study = Bottleneck(options)

    best = {}
    for attention in ATTENTION:
        first = {rate: study.kept(attention, rate, 0) for rate in RATES}
        best[attention] = min(RATES, key=lambda rate: sum(first[rate].values()))
    found = {
        attention: [study.kept(attention, best[attention], seed) for seed in range(options.seeds)]
        for attention in ATTENTION
    }

    rows = []
    for name in study.tests:
        losses = [[result[name] for result in found[attention]] for attention in ATTENTION]
        means = [mean_text(group, 3) for group in losses]
        rows.append([name.replace("_", " "), *means, difference_text(losses[0], losses[1], 3)])
    for attention, rate in best.items():
        sys.stdout.write(f"{attention}: rate {rate:g}, {found[attention][0]['steps']:,} steps\n")
    print_table(["test set", *ATTENTION, "difference"], rows)
    sys.stdout.write(f"{system_load()}\n")
    if options.json:
        write_json(options.json, [{"rates": best, "results": found}])
    return 0


if __name__ == "__main__":
    sys.exit(main())
