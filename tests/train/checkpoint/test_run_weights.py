"""A run's weights without its engine; whole models are compared in the tests of the tools."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from clozeline.errors import ConfigurationError
from clozeline.files import file_hash
from clozeline.train.checkpoint.format import FileRecord, Index, ParameterRecord, part_name
from clozeline.train.checkpoint.run_weights import find_checkpoint, read_weights


def write_step(run: Path, step: int, values: torch.Tensor) -> None:
    folder = run / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    halves = values.flatten().chunk(2)
    files = {}
    for part, half in enumerate(halves):
        path = folder / part_name(part)
        save_file({"weight/w": half.clone()}, path)
        files[path.name] = FileRecord(path.stat().st_size, file_hash(path))
    count = len(halves[0])
    record = ParameterRecord(list(values.shape), "decay", ["weight"], [(0, 0, count), (1, count, len(halves[1]))])
    Index({"step": step, "samples": step}, {}, {"w": record}, [], files).write(folder)
    (folder.parent / "latest").write_text(f"{folder.name}\n")


def test_the_newest_or_the_one_asked_for(tmp_path: Path) -> None:
    for step in (1, 2):
        write_step(tmp_path, step, torch.full((3, 2), float(step)))
    assert torch.equal(read_weights(*find_checkpoint(tmp_path))["w"], torch.full((3, 2), 2.0))
    assert torch.equal(read_weights(*find_checkpoint(tmp_path, 1))["w"], torch.ones(3, 2))
    with pytest.raises(ConfigurationError, match="no checkpoint of step 7, only of 1, 2"):
        find_checkpoint(tmp_path, 7)


def test_averages_are_read_where_there_are_some(tmp_path: Path) -> None:
    """A parameter without them, such as a frozen one, has its weight."""
    folder = tmp_path / "checkpoints" / "step-00000001"
    folder.mkdir(parents=True)
    path = folder / part_name(0)
    save_file({"weight/w": torch.ones(4), "average/w": torch.full((4,), 3.0), "weight/frozen": torch.zeros(4)}, path)
    kinds = {"w": ("decay", ["average", "weight"]), "frozen": ("frozen", ["weight"])}
    records = {name: ParameterRecord([2, 2], group, keys, [(0, 0, 4)]) for name, (group, keys) in kinds.items()}
    files = {path.name: FileRecord(path.stat().st_size, file_hash(path))}
    Index({"step": 1, "samples": 1}, {}, records, [], files).write(folder)
    found = read_weights(*find_checkpoint(tmp_path))
    assert torch.equal(found["w"], torch.full((2, 2), 3.0))
    assert torch.equal(found["frozen"], torch.zeros(2, 2))


def test_a_damaged_one_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (1, 2):
        write_step(tmp_path, step, torch.full((3, 2), float(step)))
    part = tmp_path / "checkpoints" / "step-00000002" / part_name(1)
    part.write_bytes(part.read_bytes()[:-1])
    assert find_checkpoint(tmp_path)[0].name == "step-00000001"
    assert "step-00000002 is passed over" in capsys.readouterr().err


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="expected a run directory with checkpoints"):
        find_checkpoint(tmp_path)
