import argparse
import json
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from clozeline.files import publish_json
from clozeline.model.checkpoints import export_checkpoint, read_checkpoint
from clozeline.tools.command import byte_count
from clozeline.tools.model_folder import divide, write_weights
from tests.model.checkpoints.published import saved


@pytest.mark.parametrize(("text", "wanted"), [("4096", 4096), ("3KB", 3000), ("200MB", 2 * 10**8), ("5GB", 5 * 10**9)])
def test_sizes(text: str, wanted: int) -> None:
    assert byte_count(text) == wanted


@pytest.mark.parametrize("text", ["", "0", "5 GB", "-1", "1.5GB", "5gb"])
def test_other_words_are_no_sizes(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="5GB, 200MB or 4096, got"):
        byte_count(text)


@pytest.mark.parametrize(
    ("most", "wanted"), [(100, ["abcd"]), (24, ["ab", "cd"]), (15, ["a", "b", "c", "d"]), (12, ["a", "b", "c", "d"])]
)
def test_parts_are_as_full_as_their_order_allows(most: int, wanted: list[str]) -> None:
    tensors = {name: torch.zeros(size) for name, size in zip("abcd", (2, 4, 3, 1), strict=True)}
    assert ["".join(part) for part in divide(tensors, most)] == wanted


def test_transformers_and_our_importer_read_the_parts(tmp_path: Path) -> None:
    theirs = saved(tmp_path / "in", "bert")
    export = export_checkpoint(read_checkpoint(tmp_path / "in"))
    folder = tmp_path / "out"
    folder.mkdir()
    write_weights(folder, export.tensors, 2000)
    publish_json(folder / "config.json", export.config)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in folder.glob("model-*"))
    assert len(files) > 2
    assert files == sorted(set(index["weight_map"].values()))
    assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in export.tensors.values())
    assert all(sum(tensor.nbytes for tensor in load_file(folder / file).values()) <= 6000 for file in files)
    model, report = transformers.BertForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values())
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in theirs.state_dict().items())
    again = read_checkpoint(folder)
    assert len(again.files) == len(files)
    first = read_checkpoint(tmp_path / "in")
    assert all(torch.equal(tensor, first.tensors[name]) for name, tensor in again.tensors.items())
