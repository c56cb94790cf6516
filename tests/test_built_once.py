"""A folder that several workers ask for is built by one of them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.built_once import built_once


@pytest.fixture
def calls() -> list[Path]:
    return []


def ask(factory: pytest.TempPathFactory, calls: list[Path], name: str, *, fails: bool = False) -> Path:
    def build(folder: Path) -> None:
        calls.append(folder)
        folder.mkdir()
        time.sleep(0.05)  # long enough for the others to ask
        (folder / "file").write_text("complete")
        assert not fails

    folder = built_once(factory, name, build)
    assert (folder / "file").read_text() == "complete"
    return folder


def test_one_of_several_workers_builds(tmp_path_factory: pytest.TempPathFactory, calls: list[Path]) -> None:
    tmp_path_factory.getbasetemp()  # made by one thread
    workers = [threading.Thread(target=ask, args=(tmp_path_factory, calls, "several")) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert calls == [ask(tmp_path_factory, calls, "several")]


def test_a_failed_build_is_made_again(tmp_path_factory: pytest.TempPathFactory, calls: list[Path]) -> None:
    with pytest.raises(AssertionError):
        ask(tmp_path_factory, calls, "failed", fails=True)
    assert [ask(tmp_path_factory, calls, "failed")] * 2 == calls


def test_workers_of_one_run_share_their_folder(
    tmp_path_factory: pytest.TempPathFactory, calls: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker of pytest-xdist has a folder of its own below that of the run."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    own = tmp_path_factory.getbasetemp() / "gw0"
    monkeypatch.setattr(tmp_path_factory, "getbasetemp", lambda: own)
    assert ask(tmp_path_factory, calls, "shared").parent.name != "gw0"
