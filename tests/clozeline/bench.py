"""Every command of Clozeline as a user types it, in a folder with finished runs of the pipeline and the trainer."""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import shlex
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from clozeline.__main__ import commands
from clozeline.configuration.config import load_config
from clozeline.errors import message_text
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.quarantine import publish_quarantine
from clozeline.tools.experiments.multirun.finetuning_scores import score_run
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.failures import explain
from clozeline.train.run import run
from tests.clozeline.bench_inputs import SET, write_inputs
from tests.clozeline.observed import reading
from tests.distributed import RankPool

# before any limit on files: its first import makes a semaphore, which is a file, and warns if it cannot
import_module("sklearn.base")

_SECTIONS = (Path(__file__).parent / "command_lines.txt").read_text(encoding="utf-8").split("\n\n# ")[1:]
MADE, READERS, STARTERS = (section.splitlines()[1:] for section in _SECTIONS)
COMMANDS = {name: command for group in commands().values() for name, command in group.items()}
STAGES = {COMMANDS[line.split()[0]].stage or "": line for line in READERS if COMMANDS[line.split()[0]].stage}
AGAIN = {name: f"rm {line.rpartition('=')[2]}/{name}/records; {line}" for name, line in STAGES.items()}
"""Stages that lost the records of their units, so that they are done again."""
LINES = {line.split()[0]: line for line in reversed([*STARTERS, *READERS])}
"""A line of each command."""
UNLIMITED = resource.RLIM_INFINITY


@dataclass(frozen=True)
class Answer:
    """Outcome of a command: its exit code, its standard output and its errors."""

    code: int
    out: str
    error: str


def call(action, words, folder, limit):
    """Call a command in a folder; return what it said, and the files below the folder that it opened.

    No file may grow beyond `limit` bytes, as on a full disk; needs no privileges.
    """
    out, error = io.StringIO(), io.StringIO()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    with contextlib.chdir(folder), reading() as opened:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, usual[1]))
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
                code = action(words)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        files = {os.path.relpath(os.path.realpath(path), folder.resolve()) for path in opened}
    return Answer(code, out.getvalue(), error.getvalue()), {file for file in files if not file.startswith("..")}


def train(world, words, folder, limit):
    """Train as the command does, on a rank of a pool."""

    def start(words):
        try:
            return run(load_config(TrainConfig, Path(words[1]), words[2:]), joined=world)
        except Exception as fault:
            code, message = explain(fault)
            sys.stderr.write(message_text(message))
            return code

    return call(start, words, folder, limit)


@dataclass(frozen=True)
class Bench:
    """A folder with what `MADE` made, and a rank for the trainer."""

    folder: Path
    ranks: RankPool

    @staticmethod
    def made(folder, ranks):
        """Run the pipeline, a task, four trainings of two steps, an export and an import."""
        folder.mkdir(parents=True)
        write_inputs(folder)
        bench = Bench(folder, ranks)
        for line in MADE:
            answer = bench.answer(line)
            assert answer.code == 0, (line, answer)
        last = open_shards(folder / SET).manifest.shards[-1]
        publish_quarantine(folder / SET, [{"shard": last.path, "block": last.blocks - 1, "reason": "a test"}])
        with contextlib.chdir(folder):
            for seed in (0, 1):
                score_run(Path("task1/run"), "train", Path(f"scored1/scores/seed-{seed}.json"))
        return bench

    def copy(self, folder):
        """Return the same, in another folder."""
        return Bench(Path(shutil.copytree(self.folder, folder)), self.ranks)

    def undo(self, line):
        """Remove what a stage, the pipeline or the trainer wrote, so that it is made again."""
        stages = [*STAGES]
        name, stage = line.split()[0], COMMANDS[line.split()[0]].stage
        doomed = stages[stages.index(stage) :] if stage else ["."] if name in ("pipeline", "train") else []
        for folder in doomed:
            shutil.rmtree(self.folder / re.findall(r"output=(\S+)", line)[0] / folder, ignore_errors=True)

    def start(self, line, limit=UNLIMITED):
        """Run a line, of which no file may grow beyond `limit` bytes; return also the files that it opened."""
        lost, _, line = line.rpartition("; ")
        if lost:
            shutil.rmtree(self.folder / lost.split()[-1])
        name, *words = shlex.split(line)
        if name == "train" and "--dry-run" not in words:
            return self.ranks.run(train, words, self.folder, limit)[0]
        # imported before the disk fills: a library warns where it can write nothing
        module = import_module("clozeline.train.command" if name == "train" else COMMANDS[name].module)
        stage = COMMANDS[name].stage
        return call(partial(module.run_stage, stage) if stage else module.main, words, self.folder, limit)

    def answer(self, line, limit=UNLIMITED):
        """Run a line, and return what it said."""
        return self.start(line, limit)[0]
