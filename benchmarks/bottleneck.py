"""What attention is worth to a recurrent encoder-decoder, by the length of the text.

    python -m benchmarks.bottleneck --output DIR [--train FILE --test FILE] [--flops 3e11]

Without files, the task is to copy 4, 8, 16 or 32 random letters. FILE is a table of translations,
such as those of Multi30k: an English and a German column. Pairs are joined to texts of one to four
sentences, equally often, so that long texts are frequent; each test set has the same sentences.

`recipe:rnn_search variant=tiny` is trained without attention (RNNencdec) and with additive
attention (RNNsearch, arXiv 1409.0473), for the same FLOPs and with the same seeds. The rate of each
is the best of four. The table has the held-out nats per target token, by length: without attention,
one vector has the whole source.

Each step is a command, printed before it runs; a run with a result is not repeated.
"""

import csv
import random
import string
import sys
from collections.abc import Iterator
from functools import partial
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
RATES: Final = (3e-3, 1e-2, 3e-2, 1e-1)
SENTENCES: Final = (1, 2, 3, 4)
LETTERS: Final = (4, 8, 16, 32)
TRAINED: Final = 40_000
TESTED: Final = 500
"""Texts of random letters."""
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


def copy_letters(texts: int, seed: int, counts: Iterator[int]) -> Iterator[list[str]]:
    """Yield texts of random letters twice."""
    drawn = random.Random(seed)
    for _ in range(texts):
        yield [" ".join(drawn.choices(string.ascii_lowercase, k=next(counts)))] * 2


class Bottleneck:
    """Folders of one output, and its steps."""

    def __init__(self, options: Any) -> None:
        self.output = options.output.resolve()
        self.flops = options.flops
        if options.train is None:
            unit = "letters"
            lengths = LETTERS
            words = ["train_tokenizer={name: word, size: 200}"]
            train = partial(copy_letters, TRAINED, 1)
            test = partial(copy_letters, TESTED, 2)
        else:
            unit = "sentences"
            lengths = SENTENCES
            words = ["train_tokenizer={name: byte_bpe, size: 4000}"]
            train = partial(join_pairs, options.train)
            test = partial(join_pairs, options.test)
        self.train = self.make_set("train", train(cycle(lengths)), words)
        words = ["train_tokenizer=null", f"tokenizer.path={self.output}/sets/train"]
        self.tests = {
            f"{unit}_{length}": self.make_set(f"test_{length}", test(repeat(length)), words)
            for length in lengths
        }

    def make_set(self, name: str, pairs: Iterator[list[str]], words: list[str]) -> Path:
        """Write pairs and their shards."""
        shards = self.output / "sets" / name / "corrupt" / "translation" / "train"
        if not (shards / "manifest.json").exists():
            table = self.output / f"{name}.tsv"
            table.parent.mkdir(parents=True, exist_ok=True)
            with table.open("w", encoding="utf-8") as file:
                file.writelines("\t".join(texts) + "\n" for texts in pairs)
            clozeline(
                *("pipeline", "--config", "recipe:rnn_search", f"output={shards.parents[2]}"),
                f"input=[{{path: {table}, language: en, target_language: de}}]",
                *("heldout.fraction=0", "dedup=null"),
                "corrupt=[{name: text_to_text, label: translation, input_length: 128, "
                "target_length: 128, decoder_start: bos}]",
                *words,
            )
        return shards

    def run(self, attention: str, rate: float, seed: int, steps: int, name: str) -> Path:
        """Train; return the folder."""
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

    def count_steps(self, attention: str) -> int:
        """Return the steps that the FLOPs allow, whatever the rate and the seed."""
        probe = self.run(attention, RATES[0], 0, PROBE, "probes")
        records = [*read_lines(probe / "metrics.jsonl")]
        return round(self.flops * PROBE / records[-1]["flops"])

    def measure(self, attention: str, rate: float, seed: int) -> dict[str, float]:
        """Return the held-out nats by test set, and the steps."""
        path = self.output / "steps" / f"{attention}.json"
        steps = int(keep_result(path, lambda: self.count_steps(attention)))
        run = self.run(attention, rate, seed, steps, "runs")
        results = last_heldout([*read_lines(run / "metrics.jsonl")])
        return {"steps": steps, **{name: results[name]["loss"] for name in self.tests}}

    def kept(self, attention: str, rate: float, seed: int) -> dict[str, float]:
        path = self.output / "results" / f"{attention}-{rate:g}-{seed}.json"
        return keep_result(path, lambda: self.measure(attention, rate, seed))


def main() -> int:
    options = parser(__doc__, train=Path, test=Path, output=Path, flops=3e11, seeds=3).parse_args()
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
