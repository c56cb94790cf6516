"""Training sets of another vocabulary under the checkpoints of a run."""

import shutil
from dataclasses import replace

import pytest

from clozeline.pipeline.tokenize.tokenizers._tokenizer import tokenizer_metadata
from clozeline.train.checkpoint.stored_checkpoint import StoredCheckpoint
from tests.train.masked_set import write_characters, write_config, write_masked_sets
from tests.train.runs import complete, contents, start


def make_sets(folder, letters, rows=240):
    """Write sets below a tokenizer with a piece for each letter."""
    shutil.rmtree(folder, ignore_errors=True)
    tokenizer = folder / "train_tokenizer" / "tokenizer"
    facts = tokenizer_metadata(tokenizer, write_characters(tokenizer, letters))
    return write_masked_sets(folder / "corrupt" / "set", rows=rows, tokenizer=facts)


@pytest.fixture(scope="module")
def trained(one_rank, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    shards = make_sets(folder / "out", "abcd")
    changes = {"evaluate__max_rows": 0, "schedule__steps": 8, "steps": 2}
    config = write_config(folder / "train.yaml", shards, folder / "run", **changes)
    complete(one_rank, config)
    return folder


def forget_tokenizer(checkpoint):
    """Write the index as a version did that recorded no tokenizer."""
    stored = StoredCheckpoint.open(checkpoint)
    state = {key: value for key, value in stored.index.state.items() if key != "tokenizer"}
    index = replace(stored.index, state=state)
    index.write(checkpoint)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_run_goes_on_with_its_vocabulary_and_with_no_other(
    one_rank, trained, tmp_path, is_recorded
):
    """Also if an earlier version wrote its checkpoint."""
    run = shutil.copytree(trained / "run", tmp_path / "run")
    if not is_recorded:
        forget_tokenizer(run / "checkpoints" / "step-00000002")
    words = [f"output={run}", "steps=3", "checkpoint.allow_changed=[data, model]"]
    before = contents(run)
    other = make_sets(tmp_path / "other", "abxd")
    ((code, message),) = one_rank.run(
        start, trained / "train.yaml", [*words, f"data.shards={other}"]
    )

    assert (code, contents(run)) == (64, before)
    assert all(word in message for word in ("id 412 ", "'c'", "'x'", f"path={run}/tokenizer"))

    shutil.rmtree(tmp_path / "other" / "train_tokenizer")
    ((code, message),) = one_rank.run(
        start, trained / "train.yaml", [*words, f"data.shards={other}"]
    )
    assert (code, "cannot be compared" in message) == (64, True)

    grown = make_sets(tmp_path / "grown", "abcd", rows=320)
    complete(one_rank, trained / "train.yaml", [*words, f"data.shards={grown}"])
