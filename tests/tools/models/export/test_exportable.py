from pathlib import Path

import torch

from clozeline.tools.models.export.exportable import open_exportable
from tests.model.checkpoints.published import saved
from tests.tools.runs.inference.test_trained_model import write_run


def test_a_run_gives_masters_ids_and_facts(shard_sets: Path, tmp_path: Path) -> None:
    model = write_run(tmp_path, shard_sets, [3, 12], 2)
    found = open_exportable(tmp_path)
    for name, parameter in model.named_parameters():
        assert torch.equal(found.checkpoint.tensors[name], parameter), name
    assert found.facts["steps"] == "12"
    assert set(found.checkpoint.token_ids) >= {"pad_token_id", "mask_token_id"}
    assert open_exportable(tmp_path, 3).facts["steps"] == "3"


def test_rotary_positions_say_the_length_of_rows(shard_sets: Path, tmp_path: Path) -> None:
    write_run(tmp_path, shard_sets, [3], 1, model__position={"kind": "rope", "maximum": 4}, model__attention_heads=5)
    assert open_exportable(tmp_path).checkpoint.config.position.maximum == 48


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    saved(tmp_path, "gpt2")
    assert open_exportable(tmp_path).facts == {"model type": "gpt2", "imported from": tmp_path.name}
