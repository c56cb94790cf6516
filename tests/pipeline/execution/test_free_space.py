"""Free space: the expectation against what stages write, and a disk that is too small."""

from __future__ import annotations

import json
from collections import namedtuple
from pathlib import Path

import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.execution import free_space
from clozeline.pipeline.execution.free_space import check_free_space, free_bytes, size_text
from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.miniature import RECIPE, write_corpus

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 KB"), (7_340_000_000, "7.3 GB"), (2.5e16, "25000.0 TB")],
)
def test_sizes_are_told_in_decimal_units(size: float, text: str) -> None:
    assert size_text(size) == text


def test_a_stage_is_refused_below_what_it_writes_in_any_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert free_bytes(tmp_path / "not" / "yet" / "there") > 0
    monkeypatch.setattr(free_space.shutil, "disk_usage", lambda folder: Usage(2000, 1000, 1000))
    assert check_free_space("dedup", tmp_path, 1000, 900) == ""
    said = check_free_space("dedup", tmp_path, 2000)
    assert "expected up to about 2.0 KB" in said
    assert said.endswith("set `output` to a larger disk, or give fewer files as `input`")
    assert "expected about 2.0 KB" in check_free_space("dedup", tmp_path, 2000, 1000)
    with pytest.raises(
        StorageError, match=r"dedup: expected about 2\.0 KB .* got 1\.0 KB of free space: .* set `output` to it"
    ):
        check_free_space("dedup", tmp_path, 2000, 1001)


def test_what_filters_may_drop_is_warned_of_and_what_is_certain_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command goes on where there is space, and a dry run names sizes that are about right."""
    write_corpus(tmp_path / "corpus")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    words = ["--config", str(tmp_path / "recipe.yaml"), f"input={tmp_path / 'corpus'}", f"output={tmp_path / 'out'}"]
    assert main(["--dry-run", *words, "executor={tasks: 3, workers: 2}"]) == 0
    assert "executor: local, tasks of a pass: 3, 2 at a time\n" in (said := capsys.readouterr().out)
    assert "free space: " in said
    with monkeypatch.context() as patched:
        patched.setattr(free_space.shutil, "disk_usage", lambda folder: Usage(2000, 1990, 10))
        assert main(["--dry-run", *words]) == 0
        assert "all stages: expected up to about" in capsys.readouterr().out
        assert main(words) == 74
        said = capsys.readouterr().err
        assert "clean: expected up to about" in said
        assert "dedup: expected up to about" in said
        documents = sum(path.stat().st_size for path in (tmp_path / "out/dedup/documents").iterdir())
        assert f"error: encode: expected about {size_text(documents)} to write" in said
        assert not list((tmp_path / "out" / "encode").rglob("*.arrow"))
        # the other units of `clean` say what this one will write
        (tmp_path / "out" / "clean" / "records" / "000000.json").unlink()
        assert main(words) == 74
        assert "error: clean: expected about" in capsys.readouterr().err
    assert main(words) == 0
    # half of the units of a stage are gone: the others say what they need
    records = sorted((tmp_path / "out" / "dedup" / "records").glob("0*.json"))
    lost = records[: len(records) // 2]
    sizes = [sum(facts["bytes"] for facts in json.loads(path.read_text())["outputs"].values()) for path in lost]
    for path in lost:
        path.unlink()
    capsys.readouterr()
    assert main(["--dry-run", *words]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("dedup:"))
    number, unit = line.partition("; about ")[2].partition(";")[0].split()
    expected = float(number) * {"bytes": 1, "KB": 1000}[unit]
    assert 0.3 * sum(sizes) < expected < 3 * sum(sizes)
