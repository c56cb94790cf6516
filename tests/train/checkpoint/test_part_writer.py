"""Saves while training continues: the same bytes as a save that is waited for, whatever happens meanwhile."""

import threading
from pathlib import Path
from typing import Any

import pytest

from clozeline.train.checkpoint import part_writer
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.json_lines import read_lines
from tests.distributed import RankPool
from tests.train import faulty
from tests.train.aftermath import run_checked
from tests.train.masked_set import write_config
from tests.train.runs import steps
from tests.train.synthetic import build, store, tiny, train_steps

STEP = TrainState(step=4, samples=32)
NAME = "step-00000004"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def saved_meanwhile(world: World, config: TrainConfig, folder: str) -> tuple[list[Any], list[Any], list[bool]]:
    """Save after four steps, waiting; then once more in the background, where the thread waits for four more steps."""
    engine = build(config, world)
    train_steps(engine, 1, 4)
    assert store(Path(folder) / "waited", world).save(engine, STEP)
    found, held = store(Path(folder) / "background", world), threading.Event()
    real = part_writer.save_file

    def late(tensors: Any, path: Path) -> None:
        assert held.wait(60)
        real(tensors, path)

    part_writer.save_file = late
    try:
        assert found.save(engine, STEP, wait=False)
        polled = [found.poll()]
        undisturbed = train_steps(engine, 5, 8)
        polled.append((Path(folder) / "background" / NAME).exists())
        held.set()
        assert found.finish()
    finally:
        part_writer.save_file = real
    pages = {name: copy.data_ptr() for name, copy in found._copies.items()}
    assert found.save(engine, TrainState(step=8, samples=64), wait=False)
    assert found.finish()
    polled.append(pages == {name: copy.data_ptr() for name, copy in found._copies.items()})
    engine.close()
    engine = build(config, world)
    straight = train_steps(engine, 1, 8)[4:]
    engine.close()
    return undisturbed, straight, polled


def test_later_updates_do_not_reach_the_file(two_ranks: RankPool, tmp_path: Path) -> None:
    """Updates of a high rate: they would show in every element. The memory of the copy is used again."""
    config = tiny(zero__stage=1, precision="bf16", optimizer__learning_rate=0.3)
    for undisturbed, straight, (polled, there, same_pages) in two_ranks.run(saved_meanwhile, config, str(tmp_path)):
        assert undisturbed == straight
        assert polled
        assert not there
        assert same_pages
    assert bytes_of(tmp_path / "waited" / NAME) == bytes_of(tmp_path / "background" / NAME)


@pytest.fixture(scope="module")
def waited(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six steps whose saves are waited for."""
    folder = tmp_path_factory.mktemp("waited")
    ended = go(folder, shards, faulty.train_normally)
    assert ended.codes == [0, 0], ended.errors
    return folder


def go(folder: Path, shards: Path, function: Any, *arguments: Any, **changes: Any) -> Any:
    settings = {"checkpoint__every": 2, "checkpoint__keep_last": 9, "steps": 6, "log__tensorboard": False}
    write_config(folder / "train.yaml", shards, folder / "run", **settings | changes)
    return run_checked(2, function, *arguments, "--config", str(folder / "train.yaml"), folder=folder)


def losses(folder: Path) -> list[Any]:
    return [(one["step"], one["loss"].hex()) for one in steps(folder / "run")]


def checkpoints_of(folder: Path) -> dict[str, dict[str, bytes]]:
    return {path.name: bytes_of(path) for path in sorted((folder / "run" / "checkpoints").glob("step-*"))}


def test_a_run_has_the_same_checkpoints(shards: Path, waited: Path, tmp_path: Path) -> None:
    ended = go(tmp_path, shards, faulty.train_normally, checkpoint__asynchronous=True)
    assert ended.codes == [0, 0], ended.errors
    assert losses(tmp_path) == losses(waited)
    assert _without_configuration(checkpoints_of(tmp_path)) == _without_configuration(checkpoints_of(waited))


def _without_configuration(found: dict[str, dict[str, bytes]]) -> dict[str, dict[str, bytes]]:
    """Leave out the indices, which hold the configuration and its keys."""
    return {name: {key: raw for key, raw in files.items() if key != "checkpoint.json"} for name, files in found.items()}


def test_a_stop_request_while_a_save_is_written(shards: Path, waited: Path, tmp_path: Path) -> None:
    """The newest state is saved before the end, and the same command ends like a straight run."""
    stopped = go(tmp_path, shards, faulty.stop_in_write, checkpoint__asynchronous=True)
    assert stopped.codes == [75, 75], stopped.errors
    (last, *_) = read_lines(tmp_path / "run" / "metrics.jsonl")[::-1]
    assert (tmp_path / "run/checkpoints/latest").read_text() == f"step-{last['step']:08d}\n"
    assert go(tmp_path, shards, faulty.train_normally, checkpoint__asynchronous=True).codes == [0, 0]
    assert losses(tmp_path) == losses(waited)
