"""A second crawl is a run of its own beside the first one: `dedup.against`, `tokenizer.path`, and a mixture of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.pipeline.shards import open_shards
from tests.distributed import run_ranks
from tests.pipeline.miniature import text, write_recipe
from tests.train.faulty import train_normally

RECIPE = """
corpus: news
seed: 7
heldout: {{fraction: 0.1}}
clean: {{language: null, filters: []}}
dedup: {dedup}
{tokenizer}
encode: {{}}
group: {{}}
corrupt: [{{name: masked_lm, max_length: 64}}]
"""
OLD = [text(seed, 30) for seed in range(40)]
LONGER = OLD[3] + " And one more sentence is here at the end of it all."
NEW = [text(seed, 30) for seed in range(100, 130)]
SET = "corrupt/masked_lm/train/manifest.json"


def run(folder: Path, name: str, texts: list[str], **keys: str) -> Path:
    crawl = folder / f"{name}.jsonl"
    crawl.write_text("".join(json.dumps({"text": each}) + "\n" for each in texts), encoding="utf-8")
    recipe = write_recipe(folder, RECIPE.format(**keys))
    assert main(["--config", str(recipe), f"input={crawl}", f"output={folder / name}"]) == 0
    return folder / name


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An old run, and a new one whose crawl repeats three documents exactly and one with a further sentence."""
    folder = tmp_path_factory.mktemp("crawls")
    old = run(folder, "old", OLD, dedup="{}", tokenizer="train_tokenizer: {name: byte_bpe, size: 450}")
    new = run(folder, "new", [*NEW, *OLD[5:8], LONGER], dedup=f"{{against: {old}}}",
              tokenizer=f"tokenizer: {{path: {old}/train_tokenizer/tokenizer}}")  # fmt: skip
    return old, new


def test_documents_of_the_old_run_are_gone_and_ids_are_equal(crawls):
    old, new = crawls
    assert sorted(each.text for each in read_all_documents(new / "dedup/documents")) == sorted(NEW)
    counts = json.loads((new / "dedup/report.json").read_text())["counts"]
    assert counts["rejected"] == {"exact_duplicate": 3, "near_duplicate": 1}
    vocabularies = [folder / "vocabulary.json" for folder in (old / "train_tokenizer/tokenizer",
                                                              new / "tokenizer/tokenizer")]  # fmt: skip
    first, second = (json.loads(path.read_text()) for path in vocabularies)
    assert first == second
    hashes = [open_shards(folder / "encode").manifest.tokenizer for folder in crawls]
    assert hashes[0] == hashes[1]


def test_the_trainer_mixes_both(crawls, tmp_path):
    old, new = crawls
    small = ("model.dim=32", "model.layers=1", "model.attention_heads=2", "model.ffn_dim=64",
             "data.global_batch=8", "data.micro_batch=8", "data.lanes=8", "schedule.warmup=1", "steps=4",
             "checkpoint.every=null", "evaluate.every=null", "log.tensorboard=false")  # fmt: skip
    words = ["--config", "recipe:demo", f"data.shards=[{old}/{SET}, {new}/{SET}]", "data.weights=[1, 1]",
             f"output={tmp_path / 'run'}", *small]  # fmt: skip
    finished = run_ranks(1, train_normally, *words, folder=tmp_path)
    assert finished.codes == [0], finished.errors
    records = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if "loss" in record] == [1, 2, 3, 4]
