"""Rows whose places exceed 16 bits, from token documents to the blocks of an example set."""

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.shards import open_shards
from clozeline.registry import find, names
from tests.pipeline.corruption_cases import EOS, vocabulary
from tests.pipeline.token_sets import recipe, run_stage, write_token_set

LENGTH = 131_072


@pytest.mark.parametrize("container", ["arrow", "tar"])
def test_rows_of_131072_tokens(tmp_path, container):
    words = vocabulary(1000)
    tokens = write_token_set(tmp_path, [150_000, 60_000, 90_000, 40], shards=1, words=words)
    entry = {"name": "causal_lm", "max_length": LENGTH, "cross_documents": False, "container": container}
    made = recipe(tmp_path, [entry], heldout=0.0)
    run_stage(made, "group")
    run_stage(made, "corrupt")
    shards = open_shards(tmp_path / "corrupt/causal_lm/train")
    assert [spec.dtype for spec in shards.columns if spec.kind == "list"] == ["uint16", "uint32"]
    assert shards.manifest.max_length == LENGTH
    rows = [row for block in range(len(shards.index)) for row in shards.read_block(block)]
    assert sorted(len(row["input_ids"]) for row in rows) == [300_044 - 2 * LENGTH, LENGTH, LENGTH]
    documents = [np.append(ids, EOS) for ids in tokens.columns["token_ids"]]
    for row in rows:
        starts = row["document_starts"].astype(int).tolist()
        assert starts[0] == 0
        for start, piece in zip(starts[1:], np.split(row["input_ids"], starts[1:])[1:], strict=True):
            assert row["input_ids"][start - 1] == EOS
            assert any(np.array_equal(document[: len(piece)], piece) for document in documents)
    assert max(int(row["document_starts"].max()) for row in rows) > 65_535


OBJECTIVES = "clozeline.pipeline.corrupt.objectives"


@pytest.mark.parametrize("name", names(OBJECTIVES))
def test_objectives_that_number_places_in_16_bits_refuse_such_rows(name):
    """By the option that bounds their rows, if they have one."""
    for key in {"max_length", "input_length"} & find(OBJECTIVES, name).Options.__pydantic_fields__.keys():
        if find(OBJECTIVES, name).longest_row is None:
            assert build_objective({"name": name, key: LENGTH}, vocabulary(1000)).content_length > 65_535
        else:
            with pytest.raises(ConfigurationError, match=f"'{name}'.*(16 bits|over 65000)"):
                build_objective({"name": name, key: LENGTH}, vocabulary(1000))
