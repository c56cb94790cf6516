"""Make the golden files of this version: the smallest of everything that it stores.

    python -m tests.golden_files FOLDER

runs the commands below in FOLDER, and copies what they wrote to `tests/data/format_X.Y`, with the
values that the readers of today find in it (`tests/golden_readers.py`). Every later version must
find the same values: `tests/test_golden_files.py`.

What the commands write holds the absolute path of FOLDER. The golden files hold a placeholder, so
that they can be read in any folder: `relocate` replaces the one by the other.

The files of a version are made again only before its release. Afterwards they never change: a later
version gets a folder of its own, next to the old ones.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import unittest.mock
from importlib.metadata import version
from pathlib import Path
from typing import Final

from clozeline.__main__ import main as call_command
from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import validate
from clozeline.pipeline.registries import TOKENIZERS
from clozeline.pipeline.tokenize.tokenizers import list_trainable, save_tokenizer
from tests.distributed import RankPool
from tests.golden_readers import EXPECTED, read_all
from tests.guard import parse
from tests.train.runs import start

ROOT: Final = Path(__file__).parents[1]
DATA: Final = ROOT / "tests" / "data"
PLACEHOLDER: Final = "/GOLDEN_FILES"
"""Stands in stored files for the absolute path of the folder that they are in."""
DOCUMENTS: Final = 12
NOUNS: Final = (("cat", "Katze"), ("duck", "Ente"), ("cow", "Kuh"), ("wasp", "Wespe"))
VERBS: Final = (("sleeps", "schläft"), ("waits", "wartet"), ("sings", "singt"))
PLACES: Final = (("under the old tree", "unter dem alten Baum"), ("on the hill", "auf dem Hügel"))

RECIPE: Final = """\
corpus: golden
seed: 7
output: sets
heldout: {fraction: 0.3}
plan: {unit_bytes: 1048576, shard_bytes: 30000}
input:
  - {path: texts/*.jsonl, language: en}
  - {path: pairs.tsv, source: pairs, language: en, target_language: de}
clean: {language: null, filters: [{name: gopher_quality, words: [10, 100000]}]}
dedup: {lines: {min_letters: 8}, spans: {}}
decontaminate: {against: [items.txt]}
train_tokenizer: {name: byte_bpe, size: 320, options: {sentinels: 8, reserved: 0}}
encode: {sentences: regex, extra: [id]}
balance: {alpha: 0.5}
group: {}
corrupt:
  - {name: masked_lm, max_length: 48, variants: 2}
  - {name: causal_lm, max_length: 48, compression: {codec: none}}
  - {name: span_corruption, input_length: 48, container: tar}
  - {name: translation_lm, max_length: 48}
  - {name: permuted_lm, max_length: 48, frame: xlnet, separator: sep}
"""
TRAIN: Final = """\
data: {global_batch: 8, micro_batch: 4, lanes: 4}
optimizer: {name: adamw, learning_rate: 1e-2}
schedule: {name: linear, warmup: 1, steps: 8}
steps: 2
evaluate: {every: 2}
checkpoint: {every: 2, keep_last: 1}
log: {tensorboard: false}
seed: 7
"""
POST: Final = "norm_place: post, final_norm: false"
SIZES: Final = "dim: 8, layers: 1, attention_heads: 2, ffn_dim: 16"
SHORT: Final = "position: {maximum: 64}"
ENCODER: Final = f"{SIZES}, {POST}, emb_norm: true, type_vocab_size: 2"
MODELS: Final = {
    "encoder": f"{ENCODER}, {SHORT}, heads: {{masked_lm: 1.0}}",
    "decoder": f"{SIZES}, {SHORT}, heads: {{lm: 1.0}}",
    "encoder_decoder": f"{SIZES}, {SHORT}, heads: {{lm: 1.0}}",
    "replaced_tokens": f"{ENCODER}, {SHORT}, heads: {{masked_lm: 1.0, token: 50.0}}, "
    "generator: {layers: 1, dim: 4, attention_heads: 1, ffn_dim: 8}",
    "mobilebert": f"{ENCODER}, {SHORT}, heads: {{masked_lm: 1.0}}, activation: relu, "
    "bottleneck_dim: 4, feed_forwards: 2",
    "xlnet": f"{SIZES}, {POST}, position: {{kind: sinusoidal}}, bias: {{qkv: false, out: false}}, "
    "heads: {masked_lm: {transform: false}}",
    "awd_lstm": "dim: 8, layers: 2, cell_dim: 6, heads: {regularized_lm: 1.0}",
    "elmo": "dim: 8, layers: 1, cell_dim: 4, max_characters: 7, character_dim: 3, "
    "filters: [[1, 4], [3, 5]], heads: {bidirectional_lm: 1.0}",
}
"""family → keys of its model"""
SETS: Final = {
    "encoder_decoder": "span_corruption",
    "xlnet": "permuted_lm",
    "decoder": "causal_lm",
    "awd_lstm": "causal_lm",
    "elmo": "causal_lm",
}
"""family → its set; the others learn from masked_lm"""
OPTIMIZERS: Final = {
    "decoder": "optimizer={name: muon, learning_rate: 1e-2}",
    "encoder_decoder": "optimizer={name: adafactor, learning_rate: 1e-2}",
    "awd_lstm": "optimizer={name: nt_asgd, learning_rate: 1.0, patience: 5}",
}
BASE: Final = "model.init_from=runs/encoder"
CLASSES: Final = (
    "data.shards=tasks/tasks/golden/train",
    "model.heads={classification: {hidden: auto}}",
)


def model_words(family: str) -> tuple[str, ...]:
    """Return the words of a training of a family."""
    return (
        f"model={{family: {family}, {MODELS[family]}}}",
        f"data.shards=sets/corrupt/{SETS.get(family, 'masked_lm')}/train",
        *([OPTIMIZERS[family]] if family in OPTIMIZERS else []),
    )


RUNS: Final = {
    **{family: model_words(family) for family in MODELS if family != "encoder"},
    "tuned": (BASE, *CLASSES),
    "lora": (BASE, *CLASSES, "model.adapter={name: lora, rank: 2}"),
    "student": (
        *model_words("encoder"),
        "data.shards={path: sets/corrupt/masked_lm/train, columns: [teacher]}",
        "distil={losses: [scores]}",
    ),
    "pruned": (
        BASE,
        "data.shards=sets/corrupt/masked_lm/train",
        "prune={name: movement, keep: 0.5, end: 4}",
    ),
}
"""run → words of its command; each starts again from `runs/encoder`, or from nothing"""

MODEL_COMMANDS: Final = (
    "export-model runs/encoder models/exported",
    "import-model models/exported models/imported",
    "compress runs/encoder method=heads keep=1 output=models/heads",
    "compress models/imported method=int8 output=models/int8",
    "export-adapter runs/lora adapter",
    "extract-features models/imported input=items.txt output=features",
)


def start_in(world: object, folder: Path, words: tuple[str, ...]) -> tuple[int, str]:
    """Train in a folder, whose paths are relative; return the exit code and the error."""
    with contextlib.chdir(folder):
        return start(world, Path("train.yaml"), words)


def call_in(world: object, folder: Path, words: tuple[str, ...]) -> int:
    """Run a command in a folder, in a process that has imported torch; return the exit code."""
    with contextlib.chdir(folder), unittest.mock.patch("sys.argv", ["clozeline", *words]):
        return call_command()


class Maker:
    """Runs commands in a folder, as a user would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        one_thread = {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), **one_thread}

    def run(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "clozeline", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(f"{' '.join(words)}: code {done.returncode}\n{done.stdout}{done.stderr}")

    def train(self, pool: RankPool, name: str, *words: str) -> None:
        """Train by all ranks of a pool."""
        words = (f"output=runs/{name}", *words)
        for told in pool.run(start_in, self.folder, words):
            assert told == (0, ""), told

    def write_inputs(self) -> None:
        """Write texts of our own, pairs of sentences, evaluation items, and labeled rows."""
        texts = DATA / "guard" / "texts.jsonl"
        lines = texts.read_text(encoding="utf-8").splitlines()
        whole = [json.dumps(row) for row in map(parse, lines) if "text" in row and "id" in row]
        rows = sorted(whole, key=len)[:DOCUMENTS]
        (self.folder / "texts").mkdir()
        for part in range(2):
            file = self.folder / "texts" / f"part{part}.jsonl"
            file.write_text("\n".join([*rows[part::2], "{broken", ""]), encoding="utf-8")
        items = " ".join(json.loads(rows[0])["text"].split()[:20])
        (self.folder / "items.txt").write_text(f"{items}\n", encoding="utf-8")

        pairs = []
        for noun, substantive in NOUNS:
            for verb, verbum in VERBS:
                for place, ort in PLACES:
                    pairs.append(
                        f"The {noun} {verb} {place} and thinks of rain.\t"
                        f"Die {substantive} {verbum} {ort} und denkt an Regen."
                    )
        (self.folder / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")

        (self.folder / "labels").mkdir()
        english = [pair.partition("\t")[0] for pair in pairs]
        for split, chosen in (("train", english[:16]), ("dev", english[16:])):
            labeled = [f"{text}\t{'hill' if 'hill' in text else 'tree'}" for text in chosen]
            file = self.folder / "labels" / f"{split}.tsv"
            file.write_text("\n".join(["text\tlabel", *labeled]) + "\n", encoding="utf-8")
        (self.folder / "pipeline.yaml").write_text(RECIPE, encoding="utf-8")
        (self.folder / "train.yaml").write_text(TRAIN, encoding="utf-8")

    def make_sets(self) -> None:
        """Run the pipeline, and write what tools make of its sets."""
        self.run("pipeline", "--config", "pipeline.yaml")
        reader = "tasks.reader={name: labeled, task: golden, text: text, label: label}"
        task = ("tokenizer.path=sets/train_tokenizer/tokenizer", "output=tasks", "input=labels")
        self.run("tasks", "--config", "recipe:tasks/labels", reader, *task)
        options = ("block_rows=60", "container=tar", "output=repacked")
        self.run("repack-shards", "sets/corrupt/masked_lm/train", *options)

    def make_tokenizers(self) -> None:
        texts = [
            json.loads(line)["text"]
            for file in sorted((self.folder / "texts").iterdir())
            for line in file.read_text(encoding="utf-8").splitlines()[:-1]
        ]
        for name in list_trainable():
            kind = TOKENIZERS.load_class(name)
            given = {"size": 400, "sentinels": 2, "modes": False, "reserved": 0}
            options = validate(kind.Options, given, name)
            folder = self.folder / "tokenizers" / name
            folder.mkdir(parents=True)
            save_tokenizer(kind.train(texts, options, folder), name, folder)

    def make_runs(self) -> None:
        """Train the base, what it teaches and measures, and every other run."""
        pool = RankPool(1)
        self.train(pool, "encoder", *model_words("encoder"), "hooks=[{name: average}]")
        shards = "data.shards=sets/corrupt/masked_lm/train"
        self.run("teach", "runs/encoder", shards, "output=teacher", "k=4", "processes=1")
        self.run("fisher", "runs/encoder", "output=fisher.safetensors", "rows=200")
        for name, words in RUNS.items():
            self.train(pool, name, *words)
        pool.close()

        pool = RankPool(2)
        self.train(pool, "sharded", *model_words("encoder"), "zero.stage=3")
        pool.close()

    def make_models(self) -> None:
        """Export, import and compress models and an adapter, and extract vectors."""
        pool = RankPool(1)
        for command in MODEL_COMMANDS:
            assert pool.run(call_in, self.folder, tuple(command.split())) == [0], command
        pool.close()

    def make_all(self) -> None:
        self.folder.mkdir(parents=True)
        self.write_inputs()
        self.make_sets()
        self.make_tokenizers()
        self.make_runs()
        self.make_models()
        for path in sorted(self.folder.rglob("tmp")):
            shutil.rmtree(path)
        # nothing of ours reads pages
        for page in self.folder.rglob("report.html"):
            page.unlink()


def require_unreleased(released: str) -> None:
    """Exit if a version has a tag: its files are not made again."""
    listed = subprocess.run(
        ["git", "tag", "--list", f"v{released}.*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    if listed.stdout:
        sys.exit(
            f"{released} is released, so its golden files never change again: raise the version in "
            "pyproject.toml, and this makes a folder for the new one"
        )


def relocate(folder: Path, old: str, new: str) -> None:
    """Replace a path in all JSON and YAML files of a folder, and add their checksums again."""
    for path in (*folder.rglob("*.json"), *folder.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if old not in text:
            continue
        text = text.replace(old, new)
        if path.suffix == ".json":
            content = json.loads(text)
            del content["checksum"]
            text = json.dumps(add_checksum(content), indent=1, sort_keys=True) + "\n"
        path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a new folder")
    folder = parser.parse_args().folder.resolve()

    minor = ".".join(version("clozeline").split(".")[:2])
    require_unreleased(minor)
    Maker(folder).make_all()
    found = read_all(folder)
    target = DATA / f"format_{minor}"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    relocate(target, str(folder), PLACEHOLDER)
    (target / EXPECTED).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
