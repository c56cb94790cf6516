"""The small variant of each family's recipe learns from context within its few steps, on real English text."""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from pipeline.__main__ import main as run_pipeline

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "configs" / "recipes"
SETS = {
    "bert": "masked_lm",
    "bart": "bart",
    "deberta": "masked_lm",
    "gpt": "causal_lm",
    "mobilebert": "masked_lm",
    "t5": "span_corruption",
    "elmo": "causal_lm",
    "ulmfit": "causal_lm",
}
OWN = {
    "albert": "{name: sentence_order_prediction, label: albert, max_length: 128}",
    "modernbert": "{name: masked_lm, label: modernbert, max_length: 128, mask_rate: 0.3, cross_documents: false, "
    "separator: sep}",
    "spanbert": "{name: span_boundary, label: spanbert, max_length: 128}",
    "electra": "{name: replaced_token_detection, label: electra, max_length: 128, cross_documents: false}",
    "deberta_v3": "{name: replaced_token_detection, label: deberta_v3, max_length: 128, grouping: full_sentences, "
    "separator: sep}",
    "roberta": "{name: masked_lm, label: roberta, max_length: 128, grouping: full_sentences}",
    "unilm": "{name: mixture, label: unilm, parts: ["
    "{name: next_sentence_prediction, label: bidirectional, weight: 2, max_length: 128}, "
    "{name: next_sentence_prediction, label: prefix, weight: 2, attention: prefix, max_length: 128}, "
    "{name: masked_lm, label: forward, attention: left_to_right, grouping: sentence_pair, max_length: 128}, "
    "{name: masked_lm, label: backward, attention: right_to_left, grouping: sentence_pair, max_length: 128}]}",
    "xlm": "{name: masked_lm, label: xlm, max_length: 128, grouping: document, languages: true}",
    "mass": "{name: mass, label: mass, max_length: 128}",
    "ul2": "{name: mixture, label: ul2, parts: ["
    "{name: span_corruption, label: R, mode: R, input_length: 128, target_length: 128}, "
    "{name: span_corruption, label: X, mode: X, input_length: 128, noise_density: 0.5, target_length: 128}, "
    "{name: prefix_lm, label: S, mode: S, architecture: encoder_decoder, suffix_rate: 0.25, max_length: 128}]}",
    "coco_lm": "{name: corrective_lm, label: coco_lm, max_length: 128}",
    "xlnet": "{name: permuted_lm, label: xlnet, max_length: 128, frame: xlnet}",
}
"""Recipes whose sets the demo does not make, and the entries that make small ones."""
MARGIN = 0.2
CHARACTERS = 4_000_000


def texts() -> Iterator[str]:
    """Python's help topics, and long docstrings of its library."""
    yield from topics.values()
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if {"test", "tests", "idlelib", "site-packages"} & set(path.parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError):
            continue
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
        yield "\n\n".join(text for node in nodes if (text := ast.get_docstring(node)))


def corrupted(folder: Path, characters: int, *more: str) -> Path:
    """Run the demo's recipe on the texts; return the folder of its example sets."""
    with (folder / "python.jsonl").open("w", encoding="utf-8") as file:
        written = 0
        for text in texts():
            if len(text) > 500 and written < characters:
                file.write(json.dumps({"text": text}) + "\n")
                written += len(text)
    overrides = [
        f"input={folder / 'python.jsonl'}",
        f"output={folder / 'out'}",
        "clean.filters=[]",
        "heldout.fraction=0.1",
        *more,
    ]
    assert run_pipeline(["--config", str(RECIPES / "demo" / "pipeline.yaml"), *overrides]) == 0
    return folder / "out" / "corrupt"


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corrupted(tmp_path_factory.mktemp("tiny"), CHARACTERS)


@pytest.fixture(scope="module")
def own_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corrupted(tmp_path_factory.mktemp("own"), CHARACTERS // 4, f"corrupt=[{', '.join(OWN.values())}]")


def test_every_family_has_a_small_variant() -> None:
    families = {path.parent.name for path in RECIPES.glob("*/train.yaml")} - {"demo"}
    assert families == {path.parent.name for path in RECIPES.glob("*/train_tiny.yaml")} == {*SETS, *OWN}


@pytest.mark.slow
@pytest.mark.parametrize("family", SETS)
def test_it_beats_the_unigram_entropy(family: str, shards: Path, tmp_path: Path) -> None:
    config = RECIPES / family / "train_tiny.yaml"
    data = shards / SETS[family] / "train" / "manifest.json"
    words = ["--config", str(config), f"data.shards={data}", f"output={tmp_path / 'run'}"]
    subprocess.run([sys.executable, "train/main.py", *words], cwd=ROOT, check=True)
    found = json.loads((tmp_path / "run" / "status.json").read_text(encoding="utf-8"))
    heldout = found["heldout"]["heldout"]
    assert found["step"] <= 300
    assert heldout["labels"] > 2000
    assert heldout["loss"] < heldout["unigram_entropy"] - MARGIN


@pytest.mark.slow
@pytest.mark.parametrize("recipe", OWN)
def test_objectives_with_heads_of_their_own_are_learnt(recipe: str, own_shards: Path, tmp_path: Path) -> None:
    """The first steps of its small variant, with smaller batches; the larger one accepts the same rows."""
    data = f"data.shards={own_shards / recipe / 'train' / 'manifest.json'}"
    few = ["steps=30", "schedule.warmup=5", "data.global_batch=16", "evaluate.max_rows=64", "checkpoint.every=null"]
    for name, more in (("train", ["--dry-run"]), ("train_tiny", few)):
        words = ["--config", str(RECIPES / recipe / f"{name}.yaml"), data, f"output={tmp_path / 'run'}", *more]
        subprocess.run([sys.executable, "train/main.py", *words], cwd=ROOT, check=True)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [record["loss"] for record in map(json.loads, lines) if "losses" in record]
    assert sum(losses[-5:]) < 0.95 * sum(losses[:5])
    found = json.loads((tmp_path / "run" / "status.json").read_text(encoding="utf-8"))["heldout"]["heldout"]
    assert math.isfinite(found["loss"])
