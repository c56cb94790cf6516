"""A run directory that was moved, called from another folder, with its shard set gone or
elsewhere."""

import json
import os
import shutil
from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.extensions.evaluation.commands import evaluate, prompt
from clozeline.extensions.inference.commands import extract_features, fill_mask, generate
from clozeline.extensions.published.commands import compare_logits, export_model
from clozeline.pipeline.tokenize.published.folders import find_clozeline_tokenizer
from clozeline.tools.runs import fisher
from clozeline.tools.shards import explain_batch, where_is
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.run import run_training
from tests.distributed import RankPool
from tests.tools.small_run import example_sets
from tests.train.masked_set import write_config
from tests.train.written_runs import BERT

SENTENCE = "the <mask> page"


def _start(world, folder, label, head, changes):
    """Train from inside `folder`, with relative paths alone."""
    os.chdir(folder)
    config = write_config(
        Path(f"{label}.yaml"),
        Path("out/corrupt") / label / "train",
        Path("runs") / label,
        steps=2,
        model__heads={head: 1.0},
        model__position={"maximum": 64},
        **changes,
    )

    return run_training(load_config(TrainConfig, config), joined=world)


@pytest.fixture(scope="module")
def trained(shard_sets, tmp_path_factory):
    """A folder with runs of an encoder and of a decoder, whose sets were moved afterwards.

    Not to be changed.
    """
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(shard_sets, folder / "out")
    pool = RankPool(1)

    assert pool.run(_start, folder, "masked_lm", "masked_lm", BERT) == [0]
    assert pool.run(_start, folder, "causal_lm", "lm", {"model__family": "decoder"}) == [0]

    pool.close()
    (folder / "out").rename(folder / "sets")
    return folder


@pytest.fixture
def moved(trained, tmp_path, monkeypatch):
    """The runs alone in another folder, called from a third one."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return Path(shutil.copytree(trained / "runs", tmp_path / "kept"))


def test_what_needs_no_rows_needs_no_sets(moved, capsys):
    encoder = f"{moved}/masked_lm"
    decoder = f"{moved}/causal_lm"
    Path("text.txt").write_text("The cat is on the page.\n")
    Path("rows.jsonl").write_text('{"text": "a good film"}\n{"text": "a bad one"}\n')
    Path("template.yaml").write_text(
        "example: '{text} it was{label}'\nlabels: {positive: [' good'], negative: [' bad']}\n"
    )
    calls = [
        (fill_mask.main, [encoder, "--text", SENTENCE]),
        (generate.main, [decoder, "the page", "max_tokens=3"]),
        (export_model.main, [encoder, "exported"]),
        (export_model.main, [decoder, "exported-decoder"]),
        (compare_logits.main, [encoder, "exported"]),
        (extract_features.main, [encoder, "input=text.txt", "output=features"]),
        (evaluate.main, [decoder, "perplexity=text.txt"]),
        (prompt.main, [decoder, "template=template.yaml", "input=rows.jsonl"]),
    ]
    for command, words in calls:
        assert command(words) == 0, (words, capsys.readouterr().err)

    assert (Path("exported") / "tokenizer.json").is_file()

    tokenizer = find_clozeline_tokenizer(moved / "masked_lm")

    assert {path.parent for path in tokenizer.files} == {moved / "masked_lm/tokenizer"}


def test_what_needs_rows_says_which_sets_and_takes_their_place(moved, trained, capsys):
    run_ = f"{moved}/masked_lm"
    manifest = example_sets(trained / "sets")["masked_lm"][0]

    assert explain_batch.main([str(manifest), "--samples", "0", "--json"]) == 0

    uid = json.loads(capsys.readouterr().out.splitlines()[0])["sample"]
    calls = [
        (explain_batch.main, ["--run", run_, "--step", "1"]),
        (where_is.main, ["--run", run_, "--uid", uid]),
        (fisher.main, [run_, "output=fisher.safetensors", "rows=2"]),
    ]
    for command, words in calls:
        assert command(words) == 74, words
        said = capsys.readouterr().err
        assert f"{trained}/out/corrupt/masked_lm/train" in said, words
        assert "data.shards=" in said, words
        assert command([*words, f"data.shards={manifest}"]) == 0, (words, capsys.readouterr().err)

    other = example_sets(trained / "sets")["whole_word_masking"][0]

    assert explain_batch.main(["--run", run_, "--step", "1", f"data.shards={other}"]) == 64
    assert "data.shards" in capsys.readouterr().err


def test_a_run_without_a_record_of_its_sets_is_refused(trained, tmp_path, capsys):
    old = shutil.copytree(trained / "runs/masked_lm", tmp_path / "old")
    (old / "sets.json").unlink()
    assert fill_mask.main([str(old), "--text", SENTENCE]) == 65
    assert "sets.json is missing or damaged" in capsys.readouterr().err
