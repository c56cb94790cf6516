"""Files of tasks and their mistakes, and what elastic weight consolidation sums over several tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import ConfigurationError
from clozeline.tools.experiments.multirun.task_sequence import _sum_fisher_files, read_tasks
from tests.train.masked_set import write_masked_sets


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Tasks `one` and `two`; the second names the first one's held-out set."""
    found = []
    for name in ("one", "two"):
        manifest = write_masked_sets(tmp_path / name, name=name)
        heldout = f"heldout: {tmp_path / 'one' / 'heldout'}\n" if name == "two" else ""
        found.append(tmp_path / f"{name}.yaml")
        found[-1].write_text(f"name: {name}\nshards: {manifest.parent}\n{heldout}", encoding="utf-8")
    return found


def test_a_task_is_scored_on_the_set_beside_it_or_the_one_that_is_named(files: list[Path]) -> None:
    one, two = read_tasks(files, 1)
    assert one.heldout.path == two.heldout.path
    assert one.shards.path != two.shards.path
    assert one.signature == two.signature == (("masked_lm",), ())
    assert one.config is None


def test_mistakes_are_named(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="learned: expected fewer than the 2 tasks, got 2"):
        read_tasks(files, 2)
    with pytest.raises(ConfigurationError, match="expected different names, got 'one' twice"):
        read_tasks([files[0], files[0]], 0)
    with pytest.raises(ConfigurationError, match=r"nowhere\.yaml: no such file"):
        read_tasks([tmp_path / "nowhere.yaml"], 0)
    (tmp_path / "one" / "heldout" / "manifest.json").unlink()
    with pytest.raises(ConfigurationError, match="heldout: expected a set, got none at"):
        read_tasks(files[:1], 0)


def test_information_is_summed_at_the_last_weights(tmp_path: Path) -> None:
    for name, value in (("first", 1.0), ("second", 2.0)):
        tensors = {"fisher/a": torch.full((3,), value), "weight/a": torch.full((3,), 10 * value)}
        save_file(tensors, tmp_path / name)
    found = load_file(_sum_fisher_files([tmp_path / "first", tmp_path / "second"], tmp_path / "both"))
    assert {name: values.tolist() for name, values in found.items()} == {"fisher/a": [3.0] * 3, "weight/a": [20.0] * 3}
