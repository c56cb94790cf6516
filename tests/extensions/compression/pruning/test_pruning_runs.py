"""Runs that prune: exact to resume, refused before the first step, and usable by every tool."""

import pytest
import torch

from clozeline.extensions.compression.comparison import MeasureOptions, measure_row, table_lines
from clozeline.extensions.compression.registries import PRUNING
from clozeline.train.checkpoint.stored_checkpoint import CheckpointReader, StoredCheckpoint
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.train.masked_set import write_config
from tests.train.runs import start

WAYS = {
    "magnitude": "prune={name: magnitude, sparsity: 0.8, end: 4, every: 2}",
    "movement": "prune={name: movement, keep: 0.15, end: 4}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_rank, shards):
    """A folder with a trained dense run, `dense`, and its configuration."""
    folder = tmp_path_factory.mktemp("pruning")
    config = write_config(folder / "train.yaml", shards, folder / "dense", schedule__steps=12)
    assert one_rank.run(start, config, ["steps=2", "evaluate.max_rows=0"]) == [(0, "")]
    return folder


def words(folder, output, *others):
    return [
        f"output={folder / output}",
        f"model.init_from={folder}/dense",
        "evaluate.max_rows=32",
        *others,
    ]


@pytest.mark.parametrize("name", WAYS)
def test_every_tool_reads_the_pruned_weights(folder, one_rank, name):
    from clozeline.extensions.published.export_plan import exported_form

    config = folder / "train.yaml"

    assert one_rank.run(start, config, words(folder, name, WAYS[name], "steps=6")) == [(0, "")]
    # the export is the weights times the mask
    found = StoredCheckpoint.find(folder / name)
    reader = CheckpointReader(found.folder, found.index)
    exported = exported_form(TrainedModel.open(folder / name)).tensors
    masked = [key for key, record in reader.index.parameters.items() if "mask" in record.keys]

    assert masked

    for key in masked:
        source = reader.parameter("dense" if name == "movement" else "weight", key)
        mask = reader.parameter("mask", key)
        assert torch.equal(exported[key], source * mask)
        assert set(mask.unique().tolist()) == {0.0, 1.0}
    # the table shows zeros, what they save, and the claim of the paper
    options = MeasureOptions(length=8, repeats=1)
    rows = [measure_row(folder / each, folder / "dense", options) for each in ("dense", name)]

    assert rows[1].sizes.nonzero < 0.8 * rows[1].sizes.parameters

    assert list(table_lines(rows))[-1].endswith(PRUNING.load_class(name).published_result)
