"""Random histories of one output folder: inputs and options change, runs are killed, folders are
copied."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from copy import deepcopy
from pathlib import Path
from random import Random

import yaml

from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.growing_corpus import GrowingCorpus
from tests.pipeline.needless_units import (
    Dependencies,
    find_complete,
    find_needless,
    read_records,
)
from tests.pipeline.recipe_changes import RECIPE, change_option

FREE = ("executor", "keep_intermediates", "reuse")
"""Keys that change no file."""


class History:
    """One output folder, and what was done to it.

    Each step must end with the files of a fresh run, and make nothing again that did not change.
    """

    def __init__(self, folder, seed):
        self.folder = folder
        self.random = Random(seed)
        self.corpus = GrowingCorpus(folder / "in", self.random)
        self.recipe = yaml.safe_load(RECIPE)
        self.output = folder / "out"
        self.states = []
        """What was there before a step: dependencies, and the units all of whose files were."""
        self.copied = None
        """Recipe and state of the copy of the folder."""
        self.killed_after = None
        self.options = []
        self.steps = [f"seed {seed}"]
        if self.random.random() < 0.4:
            self._keep_tokenizer()
        if self.random.random() < 0.5:
            self._find_items()
        self._run()

    def step(self):
        """Change something at random, run, and compare."""
        change = self.random.choice(
            [
                *[self._change_inputs] * 5,
                *[self._change_option] * 5,
                *[self._kill] * 2,
                self._change_executor,
                self._change_intermediates,
                self._change_shards,
                self._verify,
                self._copy,
                self._go_back,
            ]
        )
        self.steps.append(f"{change.__name__.strip('_')}: {change()}")
        self._run()

    def _run(self):
        since = time.time_ns()
        killed = self._run_and_kill() if self.killed_after else {}
        self.killed_after = None
        words = [*self.options, *self._words(self.output, self.recipe)]
        self.options = []
        assert main(words) == 0, self.steps

        fresh = self.folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        plain = {key: value for key, value in self.recipe.items() if key not in FREE}
        assert main(self._words(fresh, plain)) == 0, self.steps

        theirs = _data_of(fresh, plain)
        # published sets that the recipe no longer names stay
        sets = {name.rpartition("/")[0] for name in theirs if name.endswith("/manifest.json")}
        ours = {
            name: data
            for name, data in _data_of(self.output, plain).items()
            if name in theirs
            or name.rpartition("/")[0] in sets
            or not (self.output / name).with_name("manifest.json").exists()
        }
        wrong = sorted(name for name in ours | theirs if ours.get(name) != theirs.get(name))

        assert wrong == [], f"not the files of a fresh run, after {self.steps}"

        records = read_records(self.output)
        twice = [
            unit
            for unit, record in killed.items()
            if unit in records and _is_new(record, since, records[unit])
        ]

        assert twice == [], f"made before the kill and after it, in {self.steps}"

        after = Dependencies(fresh, deepcopy(plain), self.corpus.contents())

        needless = find_needless(self.states, after, records, since)

        assert needless == [], (
            f"made again, although nothing had changed, in {self.steps}: {needless}"
        )

        self.states = [(after, find_complete(self.output, records))]
        if "reuse" in self.recipe:
            self.states.append(self.copied[1])

    def _words(self, output, recipe):
        path = self.folder / f"{output.name}.yaml"
        whole = {**recipe, "input": self.corpus.inputs(), "output": str(output)}
        path.write_text(yaml.safe_dump(whole, sort_keys=False))
        return ["--quiet", "--config", str(path)]

    def _run_and_kill(self):
        """Kill a run with all its processes once some units are done; return its records."""
        since = time.time_ns()
        program = Path(sys.executable).with_name("clozeline")
        words = [str(program), "pipeline", *self._words(self.output, self.recipe)]
        count, pause = self.killed_after
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(words, start_new_session=True, **quiet) as process:
            while process.poll() is None and self._count_records(since) < count:
                time.sleep(0.02)
            time.sleep(pause)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return read_records(self.output)

    def _count_records(self, since):
        count = 0
        for path in self.output.glob("*/records/*/*.json"):
            with contextlib.suppress(FileNotFoundError):  # the run removes records meanwhile
                count += path.stat().st_mtime_ns >= since
        return count

    def _change_inputs(self):
        corpus = self.corpus
        change = self.random.choice(
            [
                corpus.add,
                corpus.edit,
                corpus.append,
                corpus.truncate,
                corpus.remove,
                corpus.rename,
                corpus.touch,
            ]
        )
        return f"{change.__name__} {change()}"

    def _change_option(self):
        return change_option(self.recipe, self.random)

    def _change_executor(self):
        workers = self.random.choice([1, 2])
        self.recipe["executor"] = {"name": "local", "workers": workers}
        return f"{workers} workers, {self._change_inputs()}"

    def _change_intermediates(self):
        kept = not self.recipe.get("keep_intermediates", True)
        self.recipe["keep_intermediates"] = kept
        return f"{kept}, {self._change_option()}"

    def _change_shards(self):
        """Take another number of shards, from one to eight or so."""
        self.recipe["plan"]["shard_bytes"] = self.random.choice([1_000_000, 60_000, 30_000, 12_000])
        return f"{self.recipe['plan']}, {self._change_inputs()}"

    def _verify(self):
        self.options = ["--verify"]
        return self._change_inputs()

    def _kill(self):
        self.killed_after = (self.random.randrange(80), self.random.random() / 20)
        change = self.random.choice([self._change_inputs, self._change_option])
        return f"after {self.killed_after[0]} units, {change()}"

    def _copy(self):
        """Copy the folder for `reuse`, then change it."""
        other = self.folder / "other"
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(self.output, other)
        self.recipe.pop("reuse", None)
        self.copied = deepcopy(self.recipe), self.states[0]
        return self._change_option()

    def _go_back(self):
        """Take the recipe of the copy again, half of the time in an empty folder."""
        if not self.copied:
            return self._copy()
        self.recipe = deepcopy(self.copied[0]) | {"reuse": [str(self.folder / "other")]}
        self.states = [self.states[0], self.copied[1]]
        if self.random.random() < 0.5:
            return "in the same folder"
        shutil.rmtree(self.output)
        self.states = self.states[1:]
        return "in an empty folder"

    def _keep_tokenizer(self):
        """Take a tokenizer that does not change with the documents."""
        sample = self.folder / "sample"

        assert main(self._words(sample, self.recipe)) == 0

        del self.recipe["train_tokenizer"]
        path = str(sample / "train_tokenizer" / "tokenizer")
        self.recipe["tokenizer"] = {"path": path, "add": True}

    def _find_items(self):
        """Add the stage that drops documents with items of a test."""
        path = self.folder / "items.txt"
        words = b" ".join(self.corpus.read_all().values()).decode().split()
        starts = [self.random.randrange(len(words) - 20) for _ in range(4)]
        lines = [" ".join(words[start : start + 16]) for start in starts]
        path.write_text("\n".join(lines) + "\n")
        self.recipe["decontaminate"] = {"against": [str(path)]}


def _is_new(record, since, later):
    """Return whether a unit was made in a run that was killed, and again after it."""
    return record["made"] >= since and record["made"] != later["made"]


def _data_of(output, recipe):
    """Return the data files of a recipe's stages by name."""
    found = {}
    for stage in recipe:
        for path in (output / stage).rglob("*"):
            name = path.relative_to(output / stage)
            is_state = name.parts[0] in ("records", "tmp", "config.yaml")
            if is_state or not path.is_file() or name.name.startswith("report."):
                continue
            data = path.read_bytes()
            if name.name == "plan.json":
                # the plan also holds the times of the inputs
                data = json.loads(data) | {"checksum": None}
                for each in data["inputs"]:
                    del each["state"]
                    each.pop("identity", None)
            found[f"{stage}/{name}"] = data
    return found
