"""Lines read from the end, compared with the whole file split at line ends."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clozeline.configuration.config import load_config
from clozeline.errors import StorageError
from clozeline.sealed_json import unseal
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs import json_lines as lines
from clozeline.train.logs import recorder
from clozeline.train.logs.json_lines import last_lines, read_lines, unreadable_lines
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.sealed_lines import sealed
from tests.train.masked_set import write_config, write_masked_sets

pieces = st.sampled_from(
    [sealed(step=1).encode(), sealed(step=22, loss=3.5).encode(), b'{"st', b"", b"  ", b"\xff\xfe", b"[1]", b"x" * 40]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(pieces, max_size=8), st.booleans(), st.integers(1, 50))
def test_lines_from_the_end_are_those_from_the_start(
    tmp_path: Path, content: list[bytes], ended: bool, at_once: int
) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = b"\n".join(content) + b"\n" * ended
    path.write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_READ", at_once)
        found = list(last_lines(path))
    assert [whole[line.start : line.stop] for line in reversed(found)] == [
        line for line in whole.splitlines(keepends=True) if line.strip()
    ]
    records = [line.record for line in reversed(found) if line.record is not None]
    assert records == read_lines(path)
    assert records == [unseal(json.loads(piece), "") for piece in content if piece.startswith(b'{"step')]
    assert len(found) - len(records) == unreadable_lines(path)


def test_a_missing_file_has_no_lines_and_a_folder_is_no_file(tmp_path: Path) -> None:
    assert list(last_lines(tmp_path / "metrics.jsonl")) == []
    with pytest.raises(StorageError, match="cannot be read"):
        list(last_lines(tmp_path))


def counted(world: World, config: Path, steps: int) -> tuple[int, int, int]:
    """A start; returns (exit code, bytes read of metrics.jsonl, lines of it parsed)."""
    found, parsed, plain = {"bytes": 0}, [], Path.open

    class Counted(io.FileIO):
        def readinto(self, buffer: Any) -> int | None:
            size = super().readinto(buffer)
            found["bytes"] += size or 0
            return size

        def readall(self) -> bytes:
            content = super().readall()
            found["bytes"] += len(content)
            return content

    def opened(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if path.name == "metrics.jsonl" and mode == "rb":
            return io.BufferedReader(Counted(path))
        return plain(path, mode, *args, **kwargs)

    real = lines._parse
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", opened)
        for name, answer in (("write_report", ""), ("unreadable_lines", 0)):  # the page
            patch.setattr(recorder, name, lambda _, answer=answer: answer)
        patch.setattr(lines, "_parse", lambda line, path: (parsed.append(path.name), real(line, path))[1])
        code = run(load_config(TrainConfig, config, [f"steps={steps}"]), joined=world)
    return code, found["bytes"], parsed.count("metrics.jsonl")


def test_a_resume_reads_the_end_of_a_long_run(one_rank: RankPool, tmp_path: Path) -> None:
    """Of 100,000 records the 200 that a step is compared with, whatever else looks at the file; curves are left out."""
    shards = write_masked_sets(tmp_path / "sets", rows=48, heldout=10)
    config = write_config(tmp_path / "run.yaml", shards, tmp_path / "run", log__spike=6.0)
    assert one_rank.run(counted, config, 2)[0][0] == 0
    path = tmp_path / "run" / "metrics.jsonl"
    path.write_text(f"{sealed(step=0, loss=3.25, gradient_norm=1.5)}\n" * 100_000 + path.read_text())
    ((code, size, parsed),) = one_rank.run(counted, config, 4)
    assert code == 0
    assert parsed < 250
    assert size < 10 * lines._READ < path.stat().st_size / 4
    assert [one["step"] for one in read_lines(path)[-5:]] == [0, 1, 2, 3, 4]
