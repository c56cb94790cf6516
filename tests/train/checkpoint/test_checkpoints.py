"""Saves and resumes: exact to the last bit, at other stages and world sizes, and after failures."""

import math
import os
from pathlib import Path

import pytest
import torch

from clozeline.train.checkpoint import checkpoints as checkpoint
from clozeline.train.checkpoint import part_writer
from clozeline.train.checkpoint import zero_partitions as partitions
from clozeline.train.checkpoint.state import TrainState
from tests.train.synthetic import NO_DROPOUT, build, resume, save, store, tiny, train_steps


def grown(model):
    """Make a model awkward: a frozen matrix, a parameter of one element, a persistent buffer."""
    family = model.family
    family.stack.layers[0].requires_grad_(False)
    family.scale = torch.nn.Parameter(torch.full((1,), 0.5))
    family.register_buffer("counter", torch.arange(5.0))
    family.register_forward_hook(lambda module, _, hidden: hidden * (1 + module.scale * 0.01))


def everything(engine):
    """All state on this rank: slices in hex, scalars, buffers."""
    found = {
        f"{key}/{piece.name}@{piece.start}": view.detach().float().numpy().tobytes().hex()
        for piece in partitions.fragments(engine, owned=False)
        for key, view in piece.tensors.items()
    }

    found["scalars"] = partitions.scalars(engine)
    found["buffers"] = {
        name: buffer.tolist() for name, buffer in partitions.buffers(engine).items()
    }
    return found


def straight_and_resumed(world, config, folder):
    """4 steps straight; 2, save, 2 more; and 2 from the save with other initial weights."""
    engine = build(config, world, prepare=grown)
    straight = train_steps(engine, 1, 4)
    final = everything(engine)
    engine.close()
    engine = build(config, world, prepare=grown)
    begun = train_steps(engine, 1, 2)
    save(engine, Path(folder), 2)
    begun += train_steps(engine, 3, 4)
    undisturbed = begun == straight and everything(engine) == final
    engine.close()
    engine = build(config, world, seed=99, prepare=grown)
    resume(engine, Path(folder))
    resumed = begun[:2] + train_steps(engine, 3, 4)
    same_state = everything(engine) == final
    engine.close()
    return straight, resumed, undisturbed, same_state


@pytest.mark.parametrize(("stage", "precision"), [(3, "fp32"), (1, "bf16")])
def test_resume_is_exact_to_the_last_bit(two_ranks, tmp_path, stage, precision):
    """Dropout on, two micro-batches, clipping: losses, norms, masters, moments and scalars, on each
    rank."""
    config = tiny(zero__stage=stage, precision=precision)
    for straight, resumed, undisturbed, same in two_ranks.run(
        straight_and_resumed, config, str(tmp_path)
    ):
        assert resumed == straight
        assert undisturbed
        assert same


def begin(world, config, folder):
    """4 steps straight with a save at 2."""
    engine = build(config, world, prepare=grown)
    first = train_steps(engine, 1, 2)
    save(engine, Path(folder), 2)
    rest = train_steps(engine, 3, 4)
    engine.close()
    return first, rest


def hop(world, config, folder, target):
    engine = build(config, world, seed=5, prepare=grown)
    resume(engine, Path(folder))
    save(engine, Path(target), 2)
    rest = train_steps(engine, 3, 4)
    engine.close()
    return rest


def test_state_survives_another_stage_and_world(one_rank, two_ranks, tmp_path):
    """Saved at one shape, loaded and saved at another, resumed at the first: still equal to the
    straight run."""
    config = tiny(zero__stage=3, **NO_DROPOUT)
    changed = tiny(zero__stage=0, **NO_DROPOUT)
    first, second, third = (str(tmp_path / name) for name in ("first", "second", "third"))
    _, rest = two_ranks.run(begin, config, first)[0]
    (continued,) = one_rank.run(hop, changed, first, second)
    losses = [[float.fromhex(loss) for loss, _ in found] for found in (continued, rest)]

    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert two_ranks.run(hop, config, second, third)[0] == rest


def save_again(world, config, folder, steps, options):
    engine = build(config, world)
    found = store(Path(folder), world, **options)

    for step in steps:
        loss = {2: math.nan, 3: 0.1, 6: 0.5}.get(step, 0.9)
        assert found.save(engine, TrainState(step=step, samples=step))
        found.score(TrainState(step=step, samples=step, heldout_loss=loss))

    engine.close()


def present(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


def save_and_watch(world, config, folder):
    """Save once; the files and folders that are forced to the disk, and renames, in order."""
    engine = build(config, world)
    events = []
    real_sync = os.fsync
    real_rename = Path.rename

    def fsync(descriptor):
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real_sync(descriptor)

    def rename(self, target):
        events.append(f"rename to {target.name}")
        return real_rename(self, target)

    os.fsync = fsync
    Path.rename = rename

    try:
        save(engine, Path(folder), 1)
    finally:
        os.fsync = real_sync
        Path.rename = real_rename

    engine.close()
    return [event.partition(".json")[0] for event in events]


def test_all_is_on_the_disk_before_a_checkpoint_has_its_name_with_the_usual_permissions(
    one_rank, tmp_path
):
    (events,) = one_rank.run(save_and_watch, tiny(), str(tmp_path))
    final = events.index("rename to step-00000001")

    assert {"part-00000.safetensors", "checkpoint", ".tmp-step-00000001"} <= set(events[:final])
    assert events[final + 1] == tmp_path.name

    mask = os.umask(0)
    os.umask(mask)
    part = tmp_path / "step-00000001" / "part-00000.safetensors"

    assert part.stat().st_mode & 0o777 == 0o666 & ~mask


def fail_saves(world, config, folder, number, working):
    """Rank 1 can write its part at the `working` steps alone."""
    engine = build(config, world)
    found = store(Path(folder), world)
    real = part_writer.save_file

    def broken(tensors, path):
        if world.rank == 1:
            raise OSError(number, os.strerror(number))
        real(tensors, path)

    done = []
    message = ""

    for step in range(1, 8):
        part_writer.save_file = real if step in working else broken
        try:
            done.append(found.save(engine, TrainState(step=step, samples=step)))
        except checkpoint.SaveError as error:
            message = str(error)

    part_writer.save_file = real
    left = [path.name for path in Path(folder).glob(".tmp*")]
    alive = bool(train_steps(engine, 1, 1))
    engine.close()
    return done, message, [r["event"] for r in found.reports], left, alive


def test_failed_save_costs_nothing_until_it_happens_too_often(two_ranks, tmp_path):
    for done, message, events, left, alive in two_ranks.run(
        fail_saves, tiny(), str(tmp_path), 28, (1, 4)
    ):
        assert done == [True, False, False, True, False, False]
        assert "No space left on device" in message
        assert "rank 1" in message
        assert message.endswith(
            "step-00000004 is valid: free space, then start the same command again"
        )
        assert events == ["save", "save_failed", "save_failed", "save", *["save_failed"] * 3]
        assert left == []
        assert alive

    assert present(tmp_path) == [4], "without space the older one went, never the last"


def test_a_failed_save_without_a_checkpoint_names_none(two_ranks, tmp_path):
    for _, message, *_ in two_ranks.run(fail_saves, tiny(), str(tmp_path), 5, ()):
        assert message.endswith(
            "no checkpoint was saved: remove this cause, then start the same command again"
        )


def fail_to_point(world, config, folder):
    """The directory of step 2 is there already when `latest` cannot be written."""
    engine = build(config, world)
    found = store(Path(folder), world)
    real = Path.replace
    broken = False

    def replace(self, target):
        if broken and target.name == "latest":
            raise OSError(28, "No space left on device")
        return real(self, target)

    Path.replace = replace
    done = []

    try:
        for step in (1, 2, 3):
            broken = step == 2
            done.append(found.save(engine, TrainState(step=step, samples=step)))
    finally:
        Path.replace = real
        engine.close()

    return done


def test_save_that_fails_after_the_rename_leaves_nothing(one_rank, tmp_path):
    assert one_rank.run(fail_to_point, tiny(), str(tmp_path)) == [[True, False, True]]
    assert present(tmp_path) == [1, 3]
    assert (tmp_path / "latest").read_text() == "step-00000003\n"


def mend_and_go_back(world, config, folder):
    """Step 2 is refused, then it is whole again; after step 3 the run goes back to it."""
    engine = build(config, world)
    found = store(Path(folder), world)
    path = Path(folder) / "step-00000002" / "checkpoint.json"
    for step in (1, 2):
        assert found.save(engine, TrainState(step=step, samples=step), wait=step == 2)
    whole = path.read_bytes()
    path.write_bytes(b"")

    assert found.find().folder.name == "step-00000001"

    path.write_bytes(whole)
    mended = found.find()

    assert found.save(engine, TrainState(step=3, samples=3))

    kept = present(Path(folder))
    found.return_to(mended, TrainState(step=2, samples=2))
    engine.close()
    return (
        kept,
        present(Path(folder)),
        [report["seconds"] for report in found.reports if "seconds" in report],
    )


def test_a_mended_checkpoint_counts_again_and_a_return_removes_what_came_later(one_rank, tmp_path):
    ((kept, left, (waited,)),) = one_rank.run(
        mend_and_go_back, tiny(checkpoint__keep_last=2), str(tmp_path)
    )
    assert (kept, left) == ([2, 3], [2])
    assert 0 <= waited < 60


def lose_a_slice(world, config, folder):
    """A rank that forgets one of its slices must be found out before anything is committed."""
    engine = build(config, world)
    found = store(Path(folder), world)
    real = partitions.fragments
    partitions.fragments = lambda e, owned: (
        real(e, owned=owned)[1:] if world.rank else real(e, owned=owned)
    )
    done = found.save(engine, TrainState(step=1, samples=1))
    partitions.fragments = real
    engine.close()

    assert not done

    return str(found.reports[0]["error"])


def test_lost_slice_is_found_before_commit(two_ranks, tmp_path):
    for error in two_ranks.run(lose_a_slice, tiny(zero__stage=3), str(tmp_path)):
        assert "slices end at element" in error or "a gap at element" in error
    assert present(tmp_path) == []
