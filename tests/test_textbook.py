"""The examples of configs/textbook: each is read by the command that docs/textbook.md names for it."""

import json
from pathlib import Path

import pytest

from clozeline.pipeline.__main__ import main as run_pipeline
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.runs.evaluation.last_word_prediction import read_passages
from clozeline.tools.runs.evaluation.masked_facts import read_facts
from clozeline.tools.runs.evaluation.minimal_pairs import read_pairs

TEXTBOOK = Path(__file__).parents[1] / "configs" / "textbook"


def test_sentences_are_read_by_their_suites():
    assert len(read_facts(TEXTBOOK / "cloze.jsonl")) == 14
    pairs = read_pairs(TEXTBOOK / "pairs.jsonl")
    assert len(pairs) == len({pair.paradigm for pair in pairs}) == 6
    # the sentences of a pair are equally long: no pair is decided by its length
    assert all(len(pair.good.split()) == len(pair.bad.split()) for pair in pairs)
    assert len(read_passages(TEXTBOOK / "prompts.jsonl")) == 3


@pytest.fixture(scope="module")
def merges(tmp_path_factory):
    """The output of the recipe for the words of the paper."""
    output = tmp_path_factory.mktemp("merges")
    recipe = ["--config", str(TEXTBOOK / "pipeline_merges.yaml"), f"input={TEXTBOOK / 'merges.txt'}"]
    assert run_pipeline([*recipe, f"output={output}"]) == 0
    return output / "train_tokenizer" / "tokenizer"


def test_merges_are_those_of_the_paper(merges):
    """Figure 1's algorithm and its ten merges (arXiv 1508.07909)."""
    model = json.loads((merges / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    assert ["".join(pair) for pair in model["merges"][:10]] == (
        ["es", "est", "est_", "lo", "low", "ne", "new", "newest_", "low_", "wi"]
    )
    tokenizer = load_tokenizer(merges)
    lowest = tokenizer.encode(["lowest"])[0].ids.tolist()
    assert [tokenizer.piece(token) for token in lowest] == ["low", "est_"]  # a word that training did not have


@pytest.mark.parametrize(
    ("recipe", "files", "sizes"),
    [
        ("pipeline_senses.yaml", str(TEXTBOOK / "senses"), {"train": 24, "dev": 12}),
        ("pipeline_t5.yaml", f"[{{path: {TEXTBOOK / 't5_tasks.jsonl'}, source: train}}]", {"train": 5}),
    ],
)
def test_sentences_become_tasks(merges, tmp_path, recipe, files, sizes):
    words = [f"input={files}", f"tokenizer.path={merges}", f"output={tmp_path}"]
    assert run_pipeline(["--config", str(TEXTBOOK / recipe), *words]) == 0
    (task,) = (tmp_path / "tasks").glob("*/train")
    assert {name: len(open_shards(task.parent / name)) for name in sizes} == sizes
