"""Every command of Clozeline as a user types it, in a folder with finished runs of the pipeline and
the trainer."""

import contextlib
import io
import os
import re
import resource
import shlex
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from unittest import mock

import yaml

from clozeline import HOME
from clozeline.__main__ import commands
from clozeline.configuration.config import load_config
from clozeline.errors import message_text
from clozeline.extensions.tasks.scores import score_run
from clozeline.recorded_file import RecordedFile
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.failures import explain
from clozeline.train.run import run_training
from tests.distributed import RankPool
from tests.extensions.studies.small_study import write_study
from tests.pipeline import miniature, task_files
from tests.train.synthetic import plain_config

_opened = None


def _note(event, arguments):
    if (
        event == "open"
        and _opened is not None
        and isinstance(arguments[0], str)
        and "w" not in (arguments[1] or "")
    ):
        _opened.append(Path(arguments[0]))


@cache
def _listen():
    """Hear of every file that is opened, from the first command on: such a hook stays, and slows
    down what follows."""
    sys.addaudithook(_note)


@contextmanager
def reading():
    """Note the files that are opened.

    Those that Arrow maps are noted where their hash is compared.
    """
    global _opened
    _listen()
    real = RecordedFile.buffer
    _opened = []
    found = _opened
    with mock.patch.object(
        RecordedFile, "buffer", lambda self: (found.append(self.path), real(self))[1]
    ):
        yield found

    _opened = None


SET = "corpus1/corrupt/masked_lm/train"
TASK_SET = "task1/out/tasks/sst2/train"
HERE = "/proc/self/cwd"
_STAGES = miniature.RECIPE[: miniature.RECIPE.index("corrupt:")].replace(
    "group:", "balance: {}\ngroup:"
)
_MASKED = "{name: masked_lm, max_length: 64, block_rows: 16}"
_TASK_FILE = "{path: task1/files/train.tsv, reader: {name: glue, task: sst2}}"
_TUNING = (
    "model: {heads: {classification: {hidden: tanh}}}\noptimizer: {name: adamw, learning_rate: "
    "0.01}\nschedule: {name: linear, warmup: 1}\ndata: {global_batch: 16, lanes: 4, micro_batch: "
    "8}\nsteps: 2\n"
)
_TRAININGS = {
    "train.yaml": {"output": "encoder1", "model__type_vocab_size": 2},
    "start.yaml": {"model": {"heads": {"masked_lm": 1.0}}},
    "decoder.yaml": {
        "output": "decoder1",
        "data__shards": f"{HERE}/corpus1/corrupt/causal_lm/train",
        "model__family": "decoder",
        "model__heads": {"lm": 1.0},
    },
    "task1/train.yaml": {
        "output": "task1/run",
        "data__shards": f"{HERE}/{TASK_SET}",
        "model__heads": {"classification": {"hidden": "tanh"}},
    },
}


def write_inputs(folder):
    """Write everything that the lines of the bench need and no command makes."""
    # texts and recipes of the pipeline
    miniature.write_corpus(folder / "crawl", 25)
    plain = _STAGES.replace(
        "dedup:", f"decontaminate: {{against: [items1.txt, {_TASK_FILE}]}}\ndedup:"
    )
    miniature.write_recipe(
        folder, f"{plain}corrupt: [{_MASKED}, {{name: causal_lm, max_length: 64}}]\n"
    )
    (folder / "items1.txt").write_text(" ".join(miniature.text(9, 15).split()[7:40]) + "\n")
    task_files.write_task(folder / "task1" / "files")
    task_files.write_vocabulary(folder / "task1" / "words")
    task_files.write_recipe(folder / "task1")
    # configurations of the trainer
    usual = {
        "data__shards": f"{HERE}/{SET}",
        "model__position": {"maximum": 64},
        "steps": 2,
        "checkpoint__every": 1,
    }

    for name, changes in _TRAININGS.items():
        (folder / name).write_text(yaml.safe_dump(plain_config(**{**usual, **changes})))
    # small files of some tools
    shutil.copy(HOME / "configs" / "prompts" / "polarity_cloze.yaml", folder / "prompt.yaml")
    (folder / "texts.txt").write_text("a text\n")
    (folder / "words.txt").write_text("immunology " * 30)

    for name in ("first", "second"):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, "shards": TASK_SET}))

    (folder / "tuning").mkdir()
    shutil.copy(folder / "task1" / "recipe.yaml", folder / "tuning" / "pipeline.yaml")
    (folder / "tuning" / "train.yaml").write_text(_TUNING)
    # a study of two variants
    study = write_study(folder, flops=3e8, one="masked_lm", two="more")
    short = _MASKED.replace("64", "48")
    more = "{name: masked_lm, label: more, max_length: 48, mask_rate: 0.3}"
    (study / "pipeline.yaml").write_text(f"{_STAGES}corrupt: [{short}, {more}]\n")


# before any limit on files: its first import makes a semaphore, which is a file, and warns if it
# cannot
import_module("sklearn.base")

_SECTIONS = (Path(__file__).parent / "command_lines.txt").read_text().split("\n\n# ")[1:]
COMMANDS = {
    name: command
    for group in commands().values()
    for name, command in group.items()
    if name != "work"  # a worker ends its process, which is that of the tests here
}
MADE, READERS, STARTERS = (
    [line for line in section.splitlines()[1:] if line.split()[0] in COMMANDS]
    for section in _SECTIONS
)
STAGES = {
    COMMANDS[line.split()[0]].stage or "": line
    for line in READERS
    if COMMANDS[line.split()[0]].stage
}
AGAIN = {
    name: f"rm {line.rpartition('=')[2]}/{name}/records; {line}" for name, line in STAGES.items()
}
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


def call(action, words, folder, limit, out=None):
    """Call a command in a folder.

    Return what it said, and the files below the folder that it opened.

    No file may grow beyond `limit` bytes, as on a full disk; needs no privileges.
    """
    out = out or io.StringIO()
    error = io.StringIO()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)

    with contextlib.chdir(folder), reading() as opened:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, usual[1]))
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
                code = action(words)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)

        files = {os.path.relpath(os.path.realpath(path), folder.resolve()) for path in opened}

    return Answer(code, out.getvalue(), error.getvalue()), {
        file for file in files if not file.startswith("..")
    }


def train(world, words, folder, limit):
    """Train as the command does, on a rank of a pool."""

    def start(words):
        try:
            return run_training(load_config(TrainConfig, Path(words[1]), words[2:]), joined=world)
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

        with contextlib.chdir(folder):
            for seed in (0, 1):
                score_run(Path("task1/run"), "train", Path(f"scored1/scores/seed-{seed}.json"))

        return bench

    def copy(self, folder):
        return Bench(Path(shutil.copytree(self.folder, folder)), self.ranks)

    def undo(self, line):
        """Remove what a stage, the pipeline or the trainer wrote, so that it is made again."""
        stages = [*STAGES]
        name = line.split()[0]
        stage = COMMANDS[line.split()[0]].stage
        doomed = (
            stages[stages.index(stage) :]
            if stage
            else ["."]
            if name in ("pipeline", "train")
            else []
        )
        for folder in doomed:
            shutil.rmtree(
                self.folder / re.findall(r"output=(\S+)", line)[0] / folder, ignore_errors=True
            )

    def start(self, line, limit=UNLIMITED, out=None):
        """Run a line, of which no file may grow beyond `limit` bytes.

        Return also the files that it opened.
        """
        lost, _, line = line.rpartition("; ")
        if lost:
            shutil.rmtree(self.folder / lost.split()[-1])
        name, *words = shlex.split(line)
        if name == "train" and "--dry-run" not in words:
            return self.ranks.run(train, words, self.folder, limit)[0]
        # imported before the disk fills: a library warns where it can write nothing
        module = import_module(
            "clozeline.train.command" if name == "train" else COMMANDS[name].module
        )
        stage = COMMANDS[name].stage
        return call(
            partial(module.run_stage, stage) if stage else module.main,
            words,
            self.folder,
            limit,
            out,
        )

    def answer(self, line, limit=UNLIMITED, out=None):
        return self.start(line, limit, out)[0]
