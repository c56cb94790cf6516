"""Saves while training continues: the same bytes as a save that is waited for, whatever happens
meanwhile."""

import threading
from pathlib import Path

from clozeline.train.checkpoint import part_writer
from clozeline.train.checkpoint.state import TrainState
from tests.train.synthetic import build, store, tiny, train_steps

STEP = TrainState(step=4, samples=32)
NAME = "step-00000004"


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def saved_meanwhile(world, config, folder):
    """Save after four steps, waiting.

    Then once more in the background, where the thread waits for four more steps.
    """
    engine = build(config, world)
    train_steps(engine, 1, 4)

    assert store(Path(folder) / "waited", world).save(engine, STEP)

    found = store(Path(folder) / "background", world)
    held = threading.Event()
    real = part_writer.save_file

    def late(tensors, path):
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


def test_later_updates_do_not_reach_the_file(two_ranks, tmp_path):
    """Updates of a high rate: they would show in every element.

    The memory of the copy is used again.
    """
    config = tiny(zero__stage=1, precision="bf16", optimizer__learning_rate=0.3)
    for undisturbed, straight, (polled, there, same_pages) in two_ranks.run(
        saved_meanwhile, config, str(tmp_path)
    ):
        assert undisturbed == straight
        assert polled
        assert not there
        assert same_pages

    assert bytes_of(tmp_path / "waited" / NAME) == bytes_of(tmp_path / "background" / NAME)
