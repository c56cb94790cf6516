"""Two languages without a word in common: pairs of sentences let a task that is learnt in one be solved in the other.

The toy of translation LM (arXiv 1901.07291): one grammar, two vocabularies. The body learns both languages, once from
their texts alone and once from aligned pairs beside them; a classifier then sees labels of the first language only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.tools.experiments.finetune import main as finetune
from clozeline.tools.experiments.multirun.finetuning_scores import read_by_split
from tests.distributed import ROOT

SYMBOLS = 16
LANGUAGES = {"aa": "bdfgklmn", "bb": "prstvwzx"}
"""Consonants of the words of a language; with two vowels each makes a word for each symbol."""
LENGTH = 6
SEEDS = 3
BODY: dict[str, Any] = {
    "model": {
        "family": "encoder", "dim": 64, "layers": 2, "attention_heads": 4, "ffn_dim": 128, "dropout": {},
        "position": {"maximum": 32}, "init": {"std": 0.1}, "heads": {"masked_lm": 1.0},
    },
    "data": {"global_batch": 64, "micro_batch": 64, "lanes": 16},
    "optimizer": {"name": "adamw", "learning_rate": 2e-3, "weight_decay": 0.01},
    "schedule": {"name": "linear", "warmup": 50},
    "zero": {"stage": 0}, "steps": 1200,
    "evaluate": {"every": None}, "checkpoint": {"every": 1200, "keep_last": 1},
    "log": {"tensorboard": False},
}  # fmt: skip
TUNED: dict[str, Any] = {
    "model": {"heads": {"classification": {"pool": "mean", "hidden": None}}},
    "data": {"global_batch": 64, "micro_batch": 64, "lanes": 16},
    "optimizer": {"name": "adamw", "learning_rate": 1e-3},
    "schedule": {"name": "linear", "warmup": 20},
    "zero": {"stage": 0}, "steps": 200,
    "evaluate": {"every": None}, "checkpoint": {"every": 200, "keep_last": 1},
    "log": {"tensorboard": False},
}  # fmt: skip
TASK = """
corpus: toy
seed: 1
tasks: {reader: {name: glue, task: sst2}, frame: bert, max_length: 16}
"""


def words_of(language: str) -> list[str]:
    """The word of each symbol."""
    return [f"{consonant}{vowel}" for consonant in LANGUAGES[language] for vowel in "ae"]


def drawn(count: int, seed: int) -> list[list[int]]:
    """Sentences of the grammar: each symbol is followed by one of four others."""
    grammar = np.random.default_rng(0)
    after = [grammar.permutation(SYMBOLS)[:4] for _ in range(SYMBOLS)]
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        sentence = [int(draw.integers(SYMBOLS))]
        while len(sentence) < LENGTH:
            sentence.append(int(after[sentence[-1]][draw.integers(4)]))
        found.append(sentence)
    return found


def text(sentence: list[int], language: str) -> str:
    return " ".join(words_of(language)[symbol] for symbol in sentence)


def labelled(count: int, seed: int) -> list[tuple[list[int], int]]:
    """Sentences, half of which have more than half of their symbols from the lower half."""
    of: dict[int, list[list[int]]] = {0: [], 1: []}
    for sentence in drawn(4 * count, seed):
        of[int(sum(symbol < SYMBOLS // 2 for symbol in sentence) > LENGTH // 2)].append(sentence)
    return [pair for no, yes in zip(of[0], of[1], strict=False) for pair in ((no, 0), (yes, 1))][:count]


def write_sets(folder: Path) -> Path:
    """Write texts of both languages and pairs, and make their sets: masked_lm and translation_lm."""
    inputs = []
    for number, language in enumerate(LANGUAGES):
        lines = [json.dumps({"text": text(one, language)}) for one in drawn(3000, 1 + number)]
        (folder / f"{language}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        inputs.append({"path": str(folder / f"{language}.jsonl"), "source": language, "language": language})
    lines = ["\t".join(text(one, language) for language in LANGUAGES) for one in drawn(3000, 3)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    one, other = LANGUAGES
    inputs.append({"path": str(folder / "pairs.tsv"), "source": "pairs", "language": one, "target_language": other})
    recipe = {
        "corpus": "toy", "seed": 1, "input": inputs, "clean": {"language": None, "filters": []},
        "dedup": {"exact": {"key": "text"}, "near": None}, "train_tokenizer": {"name": "wordpiece", "size": 260},
        "encode": {"sentences": "regex"}, "group": {}, "heldout": {"fraction": 0.0},
        "corrupt": [
            {"name": "masked_lm", "max_length": 32, "mask_rate": 0.25, "grouping": "document", "variants": 4},
            {"name": "translation_lm", "max_length": 32, "mask_rate": 0.25, "reset_positions": True, "variants": 4},
        ],
    }  # fmt: skip
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    assert run_pipeline(["--config", str(folder / "recipe.yaml"), f"output={folder / 'sets'}"]) == 0
    return folder / "sets" / "corrupt"


def train(folder: Path, sets: list[Path], seed: int) -> Path:
    """Train a body on some sets, each read equally often."""
    data = BODY["data"] | {"shards": [str(one) for one in sets], "seed": seed}
    if len(sets) > 1:
        data["ignore"] = ["segment_starts", "languages"]  # the two vocabularies tell the languages apart
    config = BODY | {"data": data, "seed": seed, "output": str(folder)}
    folder.with_suffix(".yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "train/main.py", "--config", str(folder.with_suffix(".yaml"))]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


@pytest.mark.slow
def test_pairs_carry_a_task_into_the_other_language(tmp_path: Path) -> None:
    """Accuracy in the unseen language: with pairs at least 10 points above that without, as a mean of three seeds."""
    sets = write_sets(tmp_path)
    task = tmp_path / "task"
    task.mkdir()
    (task / "pipeline.yaml").write_text(TASK, encoding="utf-8")
    (task / "train.yaml").write_text(yaml.safe_dump(TUNED), encoding="utf-8")
    files = {}
    for name, language, count, seed in (("train", "aa", 1000, 5), ("dev", "aa", 400, 6), ("other", "bb", 400, 7)):
        lines = ["sentence\tlabel", *(f"{text(one, language)}\t{label}" for one, label in labelled(count, seed))]
        files[name] = tmp_path / f"{name}.tsv"
        files[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
    found: dict[str, list[dict[str, float]]] = {"texts": [], "pairs": []}
    for name, objectives in (("texts", ["masked_lm"]), ("pairs", ["masked_lm", "translation_lm"])):
        for seed in range(SEEDS):
            body = train(tmp_path / f"{name}-{seed}", [sets / one / "train" for one in objectives], seed)
            output = tmp_path / f"{name}-{seed}-tuned"
            words = [
                f"task={task}",
                f"train={files['train']}",
                f"dev={files['dev']}",
                f"tests={{bb: {files['other']}}}",
            ]
            assert finetune([str(body), *words, f"output={output}", "seeds=1"]) == 0
            scores = {split: runs[0].scores["metrics"]["accuracy"] for split, runs in read_by_split(output).items()}
            found[name].append(scores)
    means = {name: {split: np.mean([one[split] for one in runs]) for split in runs[0]} for name, runs in found.items()}
    assert min(of["dev"] for of in means.values()) > 0.95, means
    assert means["pairs"]["bb"] - means["texts"]["bb"] >= 0.10, means
