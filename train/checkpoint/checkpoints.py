"""Save and load checkpoints atomically: under its final name a checkpoint is complete.

Every rank writes its slices to a hidden directory. When all parts are on disk and their slices tile
every parameter, rank 0 writes the index, renames the directory and points `latest` to it. A kill at
any moment leaves the previous checkpoint or the new one. A failed save removes its files, and
training continues.

A thread writes the part. In a background save the thread reads a copy, and all ranks commit
together at the end of the first step at which every part is written.
"""

import errno
import math
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from clozeline.errors import CheckpointError, ConfigurationError, SaveError
from clozeline.files import replacing, sweep, sync
from clozeline.train.checkpoint import zero_partitions as partitions
from clozeline.train.checkpoint.part_writer import WrittenPart, snapshot, write_part
from clozeline.train.checkpoint.retention import HIDDEN, prune, remove, size_of
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.checkpoint.stored_checkpoint import (
    LATEST,
    WEIGHT,
    CheckpointReader,
    Index,
    ParameterRecord,
    StoredCheckpoint,
    candidates,
    choose_valid,
    find_best,
    part_name,
    readable_states,
    step_of,
    steps_in,
    tiling_problem,
)
from clozeline.train.configuration.checkpoint import CheckpointConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.engine import Engine

Report = Callable[..., None]
_MAX_FAILURES: Final = 3
"""Failed saves in a row that end the run."""
_SCORE_KEYS: Final = ("heldout_loss", "heldout_sets", "best")
"""Beginnings of the state's keys that an evaluation after the save changes."""
_NO_SPACE: Final = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))


@dataclass(frozen=True)
class _PendingSave:
    """A save whose parts are being written."""

    state: TrainState
    shapes: dict[str, list[int]]
    """shapes of the parameters"""
    final: Path
    """directory under its final name"""
    written: Future[WrittenPart]
    """metadata of this rank's part, once it is on disk"""


class Checkpoints:
    """The checkpoints of a run directory. Every method is called by all ranks together."""

    def __init__(
        self, directory: Path, config: CheckpointConfig, world: World, report: Report
    ) -> None:
        self.directory = directory
        self.config = config
        self.world = world
        self._report = report
        self._failures = 0
        self._full = False
        """The last save failed because the disk was full."""
        self._current: str | None = None
        """Name of the newest checkpoint."""
        self._refused: set[str] = set()
        """Names of damaged checkpoints."""
        self._pending: _PendingSave | None = None
        """A save that is not committed yet."""
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._copies: dict[str, Tensor] = {}
        """Copies for background saves, reused by the next save."""

    def prepare(self) -> None:
        """Create the directory and remove the files of interrupted saves."""
        with self.world.sharing_errors():
            if self.world.rank == 0:
                self.directory.mkdir(parents=True, exist_ok=True)
                for stale in self.directory.glob(f"{HIDDEN}*step-*"):
                    remove(stale)
                sweep(self.directory)

    def save(self, engine: Engine, state: TrainState, *, wait: bool = True) -> bool:
        """Save a checkpoint; return whether it is committed.

        Without `wait`, start a copy that `poll` commits.

        Raises:
            SaveError: three saves in a row have failed.
        """
        # one save at a time
        if self._pending is not None:
            began = time.perf_counter()
            self.finish()
            self._report("save_waited", step=state.step, seconds=time.perf_counter() - began)

        # make room, or fail on all ranks
        final = self.directory / f"step-{state.step:08d}"
        hidden = self.directory / f"{HIDDEN}{final.name}"
        if problem := self._first_problem(
            self._make_room(hidden) if self.world.rank == 0 else None
        ):
            return self._report_end(state.step, final, problem)

        # write this rank's part
        try:
            content = snapshot(engine, None if wait else self._copies)
            written = self._writer.submit(write_part, content, hidden / part_name(self.world.rank))
        except CheckpointError as error:  # reported at the commit, where all ranks meet
            written = Future()
            written.set_exception(error)

        self._pending = _PendingSave(state, partitions.shapes(engine), final, written)
        return self.finish() if wait else True

    def poll(self) -> bool:
        """Commit a background save if all parts are written; return False if a save failed."""
        if self._pending is not None and all(self.world.gather(self._pending.written.done())):
            return self.finish()
        return not self._failures

    def finish(self) -> bool:
        """Wait for a background save and commit it; return False if a save failed."""
        pending = self._pending
        self._pending = None
        if pending is None:
            return not self._failures
        return self._report_end(pending.state.step, pending.final, self._commit_together(pending))

    def _report_end(self, step: int, final: Path, problem: str | None) -> bool:
        """Report a save that was committed or failed; return whether it was committed."""
        # committed: prune old checkpoints
        if problem is None:
            self._failures = 0
            self._full = False
            self._current = final.name
            self._refused.discard(final.name)
            # before pruning: status.json never names a removed checkpoint
            self._report("save", step=step, checkpoint=final.name)
            if self.world.rank == 0:
                self._prune(final.name, self.config.keep_last)
            return True

        # failed: count it, and give up after three in a row
        self._failures += 1
        self._full = any(sign in problem for sign in _NO_SPACE)
        self._report("save_failed", step=step, error=problem, failures=self._failures)

        if self._failures >= _MAX_FAILURES:
            kept = f"{self._current} is valid" if self._current else "no checkpoint was saved"
            remedy = "free space" if self._full else "remove this cause"
            raise SaveError(
                f"{final}: {problem}; {self._failures} saves in a row have failed; {kept}: "
                f"{remedy}, then start the same command again"
            )

        return False

    def score(self, state: TrainState) -> None:
        """Add a held-out loss to the checkpoint of its step, saved before the evaluation."""
        path = self.directory / f"step-{state.step:08d}"
        if self._pending is not None and self._pending.state.step == state.step:
            self.finish()
        if self.world.rank > 0 or path.name != self._current:
            return
        try:
            index = Index.read(path)
            scores = {
                key: value for key, value in state.as_dict().items() if key.startswith(_SCORE_KEYS)
            }
            replace(index, state={**index.state, **scores}).write(path)
            self._prune(path.name, self.config.keep_last)
        except (OSError, CheckpointError) as error:
            self._report("score_failed", step=state.step, error=str(error))

    def is_best(self, state: TrainState) -> bool:
        """Return whether `keep_best` asks to save an evaluated step.

        It does if its held-out loss is below the losses of all checkpoints.
        """
        if (
            not self.config.keep_best
            or state.heldout_loss is None
            or not math.isfinite(state.heldout_loss)
        ):
            return False

        # compare with the checkpoints up to this step, on rank 0
        self.finish()
        lowest = None

        if self.world.rank == 0:
            earlier = [
                path for path in steps_in(self.directory) if step_of(path.name) <= state.step
            ]
            lowest = find_best(
                readable_states(path for path in earlier if path.name not in self._refused),
                state.heldout_sets,
            )

        lowest = self.world.gather(lowest)[0]
        return lowest is None or state.heldout_loss < lowest[0]

    def _commit_together(self, pending: _PendingSave) -> str | None:
        """Commit the parts of all ranks; return the problem on every rank, or None."""
        # wait for all ranks to finish writing
        hidden = pending.final.with_name(f"{HIDDEN}{pending.final.name}")

        try:
            written = pending.written.result()
            problem = None
        except Exception as error:  # whatever fails, no rank may continue alone
            written = None
            problem = f"rank {self.world.rank}: {error}"

        gathered = self.world.gather((written, problem))
        problem = next((text for _, text in gathered if text), None)

        # rank 0 commits, or removes everything
        if self.world.rank == 0:
            try:
                if problem is None:
                    parts = [part for part, _ in gathered if part]
                    _publish(_build_index(pending, parts), hidden, pending.final)
            except (OSError, CheckpointError) as error:
                problem = str(error)
            if problem is not None:
                shutil.rmtree(hidden, ignore_errors=True)

        return self._first_problem(problem)

    def _first_problem(self, problem: str | None) -> str | None:
        return next((text for text in self.world.gather(problem) if text), None)

    def _make_room(self, hidden: Path) -> str | None:
        """Create the hidden directory; if space is short, first remove the oldest checkpoint.

        Return the problem, or None.
        """
        try:
            remove(hidden)
            previous = max((size_of(path) for path in steps_in(self.directory)), default=0)
            if self._current and (
                self._full or shutil.disk_usage(self.directory).free < 1.2 * previous
            ):
                self._prune(self._current, max(1, self.config.keep_last - 1))
            if (free := shutil.disk_usage(self.directory).free) < 1.2 * previous:
                return (
                    f"{self.directory}: {_NO_SPACE[0]}: {free} bytes are free, a checkpoint needs "
                    f"{math.ceil(1.2 * previous)}"
                )
            hidden.mkdir()
        except OSError as error:
            return str(error)

        return None

    def _prune(self, latest: str, keep_last: int) -> None:
        prune(self.directory, latest, keep_last, self.config, self._refused)

    def find(self) -> StoredCheckpoint | None:
        """Return the checkpoint to resume from: `latest` if it is valid, else the newest valid one.

        Every skipped checkpoint is reported with the reason.

        Raises:
            CheckpointError: there are checkpoints, but none is valid.
            NewerFormatError: a newer version wrote the preferred checkpoint.
        """
        names, ignored = self.world.gather(candidates(self.directory))[0]
        if ignored:
            self._report("latest_ignored", reason=ignored)
        checkpoint = choose_valid(self.directory, names, self.validate, self._refuse)
        self._current = None if checkpoint is None else checkpoint.folder.name
        return checkpoint

    def find_earlier(self, before: int, back: int) -> StoredCheckpoint | None:
        """Return the checkpoint `back` saves before a step, else the oldest; None without any."""
        names = [
            path.name for path in reversed(steps_in(self.directory)) if step_of(path.name) < before
        ]
        names = self.world.gather(names)[0]
        allowed = names[back - 1 :] or names[-1:]
        return choose_valid(self.directory, allowed, self.validate, self._refuse)

    def return_to(self, checkpoint: StoredCheckpoint, state: TrainState) -> None:
        """Remove later checkpoints, then replace the state in this one by a rename.

        `state` is the state from which the run goes on. If the run is killed before the rename, its
        next start goes back again.
        """
        with self.world.sharing_errors():
            if self.world.rank == 0:
                _name_latest(checkpoint.folder)
                for later in reversed(steps_in(self.directory)):
                    if step_of(later.name) > state.step:
                        remove(later)
                        self._refused.discard(later.name)
                sync(self.directory)
                replace(checkpoint.index, state=state.as_dict()).write(checkpoint.folder)
        self._current = checkpoint.folder.name

    def _refuse(self, name: str, reason: str) -> None:
        self._refused.add(name)
        self._report("checkpoint_refused", checkpoint=name, reason=reason)

    def validate(self, path: Path) -> StoredCheckpoint:
        """Check a checkpoint against its index; each rank checks its share of the parts."""
        with self.world.sharing_errors():
            checkpoint = StoredCheckpoint.open(path, rank=self.world.rank, size=self.world.size)
            self._refused.discard(path.name)
        return checkpoint


def _build_index(pending: _PendingSave, written: Sequence[WrittenPart]) -> Index:
    """Return the index of the parts of all ranks."""
    # gather the slices of each parameter over the parts
    slices: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    groups: dict[str, set[tuple[str, tuple[str, ...]]]] = defaultdict(set)

    for part, from_rank in enumerate(written):
        for name, group, start, count, keys in from_rank.content.rows:
            slices[name].append((part, start, count))
            groups[name].add((group, tuple(keys)))

    # every parameter must have one group, and slices that tile it
    parameters: dict[str, ParameterRecord] = {}

    for name, shape in pending.shapes.items():
        if len(groups[name]) != 1:
            raise CheckpointError(
                f"{name}: ranks disagree about its group and states: {sorted(groups[name])}"
            )
        ((group, state_keys),) = groups[name]
        record = ParameterRecord(shape, group, list(state_keys), slices[name])
        if problem := tiling_problem(name, record):
            raise CheckpointError(problem)
        parameters[name] = record

    # all ranks must have the same numbers
    first = written[0].content
    scalars = [from_rank.content.scalars for from_rank in written]
    if any(other != first.scalars for other in scalars):
        raise CheckpointError(f"ranks disagree about optimizer states: {scalars}")
    files = {part_name(part): from_rank.file for part, from_rank in enumerate(written)}
    return Index(
        pending.state.as_dict(),
        first.scalars,
        parameters,
        first.buffers,
        files,
        whole=first.whole,
        hooks=first.hooks,
    )


def _publish(index: Index, hidden: Path, final: Path) -> None:
    """Publish a complete hidden directory: index, rename, then `latest`."""
    index.write(hidden)
    sync(hidden)
    remove(final)  # an invalid checkpoint of the same step
    hidden.rename(final)
    try:
        sync(final.parent)
        _name_latest(final)
    except OSError:
        remove(final)  # a failed save must not look like a checkpoint later
        raise


def _name_latest(path: Path) -> None:
    with replacing(path.parent / LATEST) as temporary:
        temporary.write_text(f"{path.name}\n", encoding="utf-8")


def restore(engine: Engine, checkpoint: StoredCheckpoint | None, new: Collection[str]) -> None:
    """Load a checkpoint into an engine, if there is one, and start its hooks.

    `new`: parameters that `model.init_from` does not have.
    """
    if checkpoint is not None:
        load(engine, checkpoint)
    for hook in engine.hooks:
        hook.start(new, initialized=engine.config.model.init_from is not None)


def load(engine: Engine, checkpoint: StoredCheckpoint) -> None:
    """Load a checkpoint into an engine; each rank reads its ranges.

    Any world size and ZeRO stage may have written it. States of another optimizer are ignored: this
    optimizer starts as in a new run.

    Raises:
        CheckpointError: a part contradicts the index.
        ConfigurationError: the checkpoint belongs to another model.
    """
    # refuse a checkpoint of another model
    directory = checkpoint.folder
    index = checkpoint.index
    state = checkpoint.state
    expected = partitions.shapes(engine)
    saved = {name: record.shape for name, record in index.parameters.items()}
    if differing := sorted(
        name for name in {*expected, *saved} if expected.get(name) != saved.get(name)
    ):
        name = differing[0]
        raise ConfigurationError(
            f"{directory}: parameter {name} has shape {saved.get(name)} there and "
            f"{expected.get(name)} in this model ({len(differing)} parameters differ): the "
            "checkpoint belongs to another model"
        )

    if (ours := sorted(partitions.buffers(engine))) != sorted(index.buffers):
        raise ConfigurationError(
            f"{directory} has the buffers {sorted(index.buffers)}, this model has {ours}"
        )

    # create the optimizer states
    reader = CheckpointReader(directory, index)
    has_other_optimizer = (
        state.optimizer is not None and state.optimizer != engine.config.optimizer.name
    )
    keys: dict[str, set[str]] = defaultdict(set)

    for record in index.parameters.values():
        keys[record.group].update(
            key
            for key in record.keys
            if key != WEIGHT and (key in index.hooks or not has_other_optimizer)
        )

    partitions.prepare_states(
        engine, keys, {} if has_other_optimizer else index.scalars, index.hooks
    )

    # fill the slices of this rank
    with torch.no_grad():
        for piece in partitions.fragments(engine, owned=False):
            for key, view in piece.tensors.items():
                view.copy_(reader.read(key, piece.name, piece.start, piece.count))
        partitions.set_whole_states(engine, {} if has_other_optimizer else reader.states())
        for name, buffer in partitions.buffers(engine).items():
            buffer.copy_(reader.buffer(name, buffer.shape))
        engine.zero.refresh_model()

    engine.continue_from(state.step, state.samples, state.skipped)
