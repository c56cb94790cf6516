"""Folders with a model: new ones alone, in parts that transformers and our importer read."""

import json
import stat

import pytest
import torch
import transformers
from safetensors.torch import load_file

from clozeline.errors import ConfigurationError
from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.imported_folder import write_weights
from clozeline.files import publish_json
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.tools.command import byte_count
from clozeline.tools.model_folder import require_empty, write_tensors
from tests.extensions.published.peers import saved


def test_tensors_that_share_memory_are_written_apart(tmp_path):
    whole = torch.arange(6.0).view(2, 3)
    path = tmp_path / "deep" / "model.safetensors"
    write_tensors(path, {"a": whole[:1], "b": whole.T})
    found = load_file(path)

    assert torch.equal(found["b"], whole.T)
    assert path.stat().st_size < 400
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_sizes_are_words():
    assert [byte_count(text) for text in ("4096", "3KB", "200MB", "5GB")] == [
        4096,
        3000,
        2 * 10**8,
        5 * 10**9,
    ]

    for text in ("", "0", "5 GB", "1.5GB", "5gb"):
        with pytest.raises(ValueError, match="5GB, 200MB or 4096, got"):
            byte_count(text)


def test_transformers_and_our_importer_read_the_parts(tmp_path):
    theirs = saved(tmp_path / "in", "bert")
    export = export_checkpoint(read_checkpoint(tmp_path / "in"))
    folder = tmp_path / "out"
    folder.mkdir()
    require_empty(folder)
    write_weights(folder, export.tensors, 2000)
    for taken in (folder, next(folder.glob("model-*"))):
        with pytest.raises(ConfigurationError, match="expected a new or empty folder"):
            require_empty(taken)

    publish_json(folder / "config.json", export.config)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in folder.glob("model-*"))

    assert len(files) > 2
    assert files == sorted(set(index["weight_map"].values()))
    assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
    assert index["metadata"]["total_size"] == sum(
        tensor.nbytes for tensor in export.tensors.values()
    )
    assert all(
        sum(tensor.nbytes for tensor in load_file(folder / file).values()) <= 6000 for file in files
    )

    model, report = transformers.BertForMaskedLM.from_pretrained(folder, output_loading_info=True)

    assert not any(report.values())
    assert all(
        torch.equal(tensor, model.state_dict()[name])
        for name, tensor in theirs.state_dict().items()
    )

    again = read_checkpoint(folder)

    assert len(again.files) == len(files)

    first = read_checkpoint(tmp_path / "in")

    assert all(torch.equal(tensor, first.tensors[name]) for name, tensor in again.tensors.items())
