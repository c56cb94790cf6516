"""What a change of a finished corpus makes again, and how long a start takes that finds no change.

    python -m benchmarks.growth [--documents 2000] [--units 100000] [--json FILE]

The first table makes an output of pieces of Python's texts with four objectives, then changes a
copy of it, one step a row: the units of each stage that were made again, of all that it has.

The second is a corpus of tiny files, each of which is a unit in five passes. The same command runs
twice; the second start reads records, and makes nothing. Seconds are CPU seconds of one process.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import Claim, cpu_seconds, finish, parser, print_table, system_load

import yaml

from benchmarks.texts import natural_texts
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.recipe_command import main as run_pipeline

SMALLEST = "--documents 400 --units 100"
_OBJECTIVES: Final = """
- {name: masked_lm, max_length: 128}
- {name: causal_lm, max_length: 128}
- {name: span_corruption, input_length: 128}
- {name: masked_lm, label: short, max_length: 64}
"""
_PIECE: Final = 1500
_FILES: Final = 20
_UNITS_OF_A_FILE: Final = 5
_MOST_START_S: Final = 5.0
_LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")


class Corpus:
    """Files of documents, and a recipe for them in a folder."""

    def __init__(self, folder: Path, texts: list[str]) -> None:
        self.folder = folder
        self.inputs = folder / "in"
        self.inputs.mkdir()
        size = len(texts) // _FILES
        for number in range(_FILES):
            self.write(f"{number:03d}", texts[number * size : (number + 1) * size])
        self.recipe: dict[str, Any] = {
            "corpus": "growth",
            "plan": {"shard_bytes": max(4096, sum(map(len, texts)) // 4)},
            "input": [{"path": str(self.inputs / "*.jsonl")}],
            "clean": {"language": None, "filters": []},
            "dedup": {},
            "train_tokenizer": {"name": "byte_bpe", "size": 4000},
            "encode": {},
            "group": {},
            "corrupt": yaml.safe_load(_OBJECTIVES),
        }

    def write(self, name: str, texts: list[str]) -> None:
        """Write a file of documents."""
        lines = [json.dumps({"text": text}) + "\n" for text in texts]
        (self.inputs / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")

    def run(self, output: Path, changes: dict[str, Any]) -> tuple[float, Counter[str]]:
        """Run the recipe with changes; return CPU seconds, and the units made by stage."""
        recipe = {**self.recipe, **changes, "output": str(output)}
        path = self.folder / "recipe.yaml"
        path.write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
        since = time.time_ns()
        start = cpu_seconds()
        if run_pipeline(["--quiet", "--config", str(path)]) != 0:
            raise SystemExit(f"the run of {path} failed")
        seconds = cpu_seconds() - start
        made = [stage for stage, record in read_records(output) if record["made"] >= since]
        return seconds, Counter(made)


def read_records(output: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the stage and the content of each record."""
    paths = sorted(output.glob("*/records/*/*.json"))
    records = [path for path in paths if path.parent.name != "options"]
    return [(path.parts[-4], json.loads(path.read_text(encoding="utf-8"))) for path in records]


def measure_changes(folder: Path, documents: int) -> list[Claim]:
    """Print the table of changes; return what must not be made again."""
    text = "\n\n".join(natural_texts())
    wanted = documents + documents // 10
    pieces = [text[start : start + _PIECE] for start in range(0, wanted * _PIECE, _PIECE)]
    corpus = Corpus(folder, pieces[:documents])
    first = folder / "first"
    everything = corpus.run(first, {})
    objectives = corpus.recipe["corrupt"]
    kept_tokenizer = {
        "train_tokenizer": None,
        "tokenizer": {"path": str(first / "train_tokenizer" / "tokenizer"), "add": True},
    }
    other = {"name": "masked_lm", "label": "other", "max_length": 128}
    rate = [{**objectives[0], "mask_rate": 0.3}, *objectives[1:]]
    rows = {
        "all of it": everything,
        "one more objective": corpus.run(_copy(first), {"corrupt": [*objectives, other]}),
        "mask_rate of one": corpus.run(_copy(first), {"corrupt": rate}),
    }
    beside = {"train_tokenizer": {"name": "byte_bpe", "size": 3000}, "reuse": [str(first)]}
    rows["a second tokenizer"] = corpus.run(folder / "second", beside)
    kept = _copy(first)
    corpus.run(kept, kept_tokenizer)
    corpus.write("new", pieces[documents:])
    rows["10 % more documents"] = corpus.run(_copy(first), {})
    rows["the same, tokenizer kept"] = corpus.run(kept, kept_tokenizer)
    corpus.write("003", [*pieces[:20], "One more document."])
    rows["one file edited"] = corpus.run(kept, kept_tokenizer)
    stages = [stage for stage in all_stages() if stage in everything[1]]
    print_table(
        ("step", *stages, "CPU s"),
        [(name, *(made[s] for s in stages), f"{cpu:.1f}") for name, (cpu, made) in rows.items()],
        f"Units made, of {documents} documents with {len(objectives)} objectives",
    )
    unchanged = [
        ("one more objective", stages[:-1], 0),
        ("mask_rate of one", stages[:-1], 0),
        ("a second tokenizer", ["clean", "dedup"], 0),
        ("10 % more documents", ["clean"], 1),
        ("one file edited", ["clean"], 1),
    ]
    return [
        Claim(
            f"{name}: {', '.join(known)}",
            "units made",
            sum(rows[name][1][stage] for stage in known),
            most,
        )
        for name, known, most in unchanged
    ]


def _copy(output: Path) -> Path:
    copied = Path(tempfile.mkdtemp(dir=output.parent)) / "out"
    return Path(shutil.copytree(output, copied))


def measure_start(folder: Path, units: int) -> list[Claim]:
    """Make an output of many units; return the seconds of a start that finds no change."""
    corpus = Corpus(folder, [_unlike_all_others(number) for number in range(_FILES)])
    corpus.recipe["train_tokenizer"]["size"] = 450
    del corpus.recipe["group"], corpus.recipe["corrupt"], corpus.recipe["encode"]
    corpus.run(folder / "sample", {})
    del corpus.recipe["train_tokenizer"]
    corpus.recipe |= {
        "plan": {"unit_bytes": 4096},
        "tokenizer": {"path": str(folder / "sample" / "train_tokenizer" / "tokenizer")},
        "encode": {},
    }
    for number in range(_FILES, units // _UNITS_OF_A_FILE):
        corpus.write(f"{number:07d}", [_unlike_all_others(number)])
    seconds, _ = corpus.run(folder / "many", {})
    again, nothing = corpus.run(folder / "many", {})
    found = len(read_records(folder / "many"))
    print(f"\n{found} units in {seconds:.0f} s; the same command again: {again:.2f} s")
    limit = _MOST_START_S * max(1.0, found / 100_000)
    return [
        Claim(f"start on {found} units", "CPU s", again, limit),
        Claim(f"start on {found} units", "units made", nothing.total(), 0),
    ]


def _unlike_all_others(number: int) -> str:
    """Return a text without a run of words that another number has."""
    letters = hashlib.shake_128(str(number).encode()).hexdigest(1200).translate(_LETTERS)
    return " ".join(letters[start : start + 6] for start in range(0, len(letters), 6))


def main() -> int:
    """Measure both; return the exit code, 1 if something was made in vain."""
    options = parser(__doc__, documents=2000, units=100_000).parse_args()
    # the figures are of the CPU, not of the disk
    vars(os)["fsync"] = lambda _: None
    print(system_load())
    claims = []
    with tempfile.TemporaryDirectory() as folder:
        for name, work, size in (
            ("changes", measure_changes, options.documents),
            ("start", measure_start, options.units),
        ):
            (Path(folder) / name).mkdir()
            claims += work(Path(folder) / name, size)
    return finish(claims, options.json)


if __name__ == "__main__":
    sys.exit(main())
