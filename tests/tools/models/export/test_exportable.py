from pathlib import Path

import torch

from clozeline.tools.models.export.exportable import card_rows, exported_form
from clozeline.train.startup.open_run import open_run
from tests.model.checkpoints.published import saved
from tests.train.written_runs import write_run


def test_a_run_gives_masters_ids_and_facts(shard_sets: Path, tmp_path: Path) -> None:
    model = write_run(tmp_path, shard_sets, [3, 12], 2)
    found = exported_form(open_run(tmp_path))
    for name, parameter in model.named_parameters():
        assert torch.equal(found.tensors[name], parameter), name
    assert set(found.token_ids) >= {"pad_token_id", "mask_token_id"}
    assert [card_rows(open_run(tmp_path, step))["steps"] for step in (None, 3)] == ["12", "3"]


def test_rotary_positions_say_the_length_of_rows(shard_sets: Path, tmp_path: Path) -> None:
    write_run(tmp_path, shard_sets, [3], 1, model__position={"kind": "rope", "maximum": 4}, model__attention_heads=5)
    assert exported_form(open_run(tmp_path)).config.position.maximum == 48


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    saved(tmp_path, "gpt2")
    assert card_rows(open_run(tmp_path)) == {"model type": "gpt2", "imported from": tmp_path.name}
