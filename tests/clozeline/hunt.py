"""Hunt for damage that passes: every command, every file that it reads, every kind of damage, in one process.

`python -m tests.clozeline.hunt LOG [--count 10000] [--minutes 60] [--only NAME]` writes one JSON line to LOG for each
damage, passes over those that LOG has, and prints a table of outcomes by kind of file and kind of damage. Exit code 1
if any was silent, or ended in a traceback or in a message without the file or the way out.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clozeline.pipeline.shards.quarantine import QUARANTINE
from clozeline.pipeline.tokenize.encode import tokenize_documents as tokenise
from clozeline.pipeline.tokenize.take import stage as tokenizer_stage
from clozeline.seeding import hash64
from tests.clozeline.bench import Answer
from tests.clozeline.damage import KINDS, Damage, fault
from tests.clozeline.folder_state import FolderState
from tests.clozeline.hunt_commands import Command, HuntBench
from tests.distributed import RankPool

OUTCOMES = ("detected", "harmless", "silent", "traceback", "unclear")
"""`unclear` is a message that lacks the file or the way out, or an exit code of something else."""
GOOD = OUTCOMES[:2]
FOREIGN = ("published", "exported")
"""Folders in a form of transformers, which holds no hashes: a changed digit is another model, not a damaged one."""
INPUTS = ("crawl", "files", "words", "texts.txt")
"""Folders and a file with texts of a user: any content may be meant so."""
OPTIONAL = ("test.tsv", QUARANTINE, "seed-0.json")
"""Files whose absence means something, and is nothing that could be noticed."""
OWN_FORM = (".arrow", ".json", ".jsonl", ".safetensors", ".tar", ".bin")
_VALUES = ("flip", "digit", "swap")
_LINKS = ("a link to nothing", "a link to itself")
_PLACES = ("deleted", "a folder", *_LINKS)
_WRITTEN_FOR_PEOPLE = ("report.", "config.yaml", "events.jsonl", "status.json", ".lock", ".holder", "rank0.")
_TIMES = re.compile(r"[\d,.]+ (tokens/s|seconds?|bytes|s\b)|at least [\d,.]+ s |[\d,.]+ │$", re.MULTILINE)
_CACHES = (tokenise._tokenizer, tokenizer_stage._import_vocabulary)
"""Caches that a fresh process would not have in memory."""


@dataclass(frozen=True)
class Case:
    """A command and the damage that it meets."""

    command: str
    file: str
    """relative to the bench"""
    kind: str
    number: int

    @property
    def draw(self) -> int:
        """The place of the damage."""
        return hash64(self.file, self.kind, self.number)

    @property
    def key(self) -> str:
        """The name of the case in the log."""
        return f"{self.command} | {self.file} | {self.kind} | {self.number}"


def kind_of(file: str) -> str:
    """Return the kind of a file: its name with N for numbers, below the folder that says what it is."""
    path = Path(re.sub(r"[0-9]+", "N", file))
    shown = {"records", "documents", "rejects", "clusters", "tokenizer", "scores", "exported", "imported", "published"}
    above = [part for part in path.parts[:-1] if part in shown]
    return f"{above[-1]}/{path.name}" if above else path.name


def _kinds_for(path: Path) -> Sequence[str]:
    """Return the kinds of damage of a file that are no other content which may be meant so."""
    if {*INPUTS} & {*path.parts}:
        return _LINKS if path.name in OPTIONAL else _PLACES
    if {*FOREIGN} & {*path.parts}:
        return [kind for kind in KINDS if kind not in _VALUES]
    return [kind for kind in KINDS if kind != "deleted" or path.name not in OPTIONAL]


class Hunt:
    """Commands on a bench that is put back after each of them."""

    def __init__(self, bench: HuntBench) -> None:
        self.bench = bench
        self._state = self._current = FolderState(bench.folder)
        self._prepared: dict[str, tuple[FolderState, Result, list[Path]]] = {}

    def whole(self, name: str) -> tuple[FolderState, Result, list[Path]]:
        """Return the state before a command, its result with no file damaged, and the files that it reads."""
        if name not in self._prepared:
            self._state.restore()
            command = self.bench.commands[name]
            for folder in command.again:
                for path in (folder / "records").iterdir():
                    path.unlink()
            state = FolderState(self.bench.folder) if command.again else self._state
            result, opened = self._run(command, state)
            assert result.answer.code == (name == "diff_manifests"), (name, result.answer)
            self._prepared[name] = state, result, self._read(opened, state)
            state.restore()
            self._current = state
        return self._prepared[name]

    def _read(self, opened: Iterable[Path], state: FolderState) -> list[Path]:
        """Return files that were opened, and their neighbours: libraries open some where that is not seen."""
        seen = {path for path in opened if path in state.files and path.suffix != ".py"}
        folders = {path.parent for path in seen if path.name not in ("recipe.yaml", "train.yaml")}
        near = {path for path in state.files if path.parent in folders and path.suffix in OWN_FORM}
        # a configuration or an input with another value in it means that value
        found = sorted(seen | near)
        return [path for path in found if (not path.name.startswith(("report.html", ".")) and path.suffix != ".yaml")
                or path.name == "config.yaml"]  # fmt: skip

    def cases(self, names: Sequence[str], number: int) -> list[Case]:
        """Return one damage of each kind for each kind of file that each command reads, in an order without a plan."""
        found = [case for name in names for case in self._cases(name, number)]
        return sorted(found, key=lambda case: hash64(case.key))

    def _cases(self, name: str, number: int) -> Iterator[Case]:
        """Yield the damages of a command; `number` chooses the files."""
        by_kind = defaultdict[str, list[str]](list)
        for path in self.whole(name)[2]:
            file = path.relative_to(self.bench.folder).as_posix()
            by_kind[kind_of(file)].append(file)
        for files in by_kind.values():
            for kind in KINDS:
                file = files[hash64(name, kind, number) % len(files)]
                if kind in _kinds_for(Path(file)):
                    yield Case(name, file, kind, number)

    def _run(self, command: Command, state: FolderState) -> tuple[Result, list[Path]]:
        for cache in _CACHES:
            cache.cache_clear()
        answer, opened = command.action()
        files = {path: _comparable(path, content) for path, content in {**state.files, **state.changes()}.items()}
        words = _TIMES.sub("", answer.out) if command.speaks else ""
        return Result(answer, words, {path: one for path, one in files.items() if one is not None}), opened

    def outcome(self, case: Case) -> tuple[str, str]:
        """Damage a file, run the command; return the outcome and what is wrong with it."""
        state, whole, _ = self.whole(case.command)
        if self._current is not state:
            state.restore()
            self._current = state
        damage = Damage(case.kind, self.bench.folder / case.file, case.draw)
        try:
            damage.apply()
            left = state.changes()
            if not left:
                return "harmless", ""
            found, _ = self._run(self.bench.commands[case.command], state)
        finally:
            state.restore()
        return judged(found, whole, damage.path, _comparable(damage.path, left[damage.path]))


@dataclass(frozen=True)
class Result:
    """Outcome of a command."""

    answer: Answer
    words: str
    """what it printed, without times, if that is a result"""
    files: dict[Path, object]
    """the files below the bench afterwards"""


def judged(found: Result, whole: Result, path: Path, damaged: object) -> tuple[str, str]:
    """Return the outcome of a command on a damaged file, and what is wrong with it.

    Args:
        found: what the command gave.
        whole: the same with no file damaged.
        path: the damaged file; a command may leave it as it is.
        damaged: its damaged content.
    """
    files = {
        **found.files,
        **{one: whole.files[one] for one in whole.files if f"{one} is removed" in found.answer.error},
    }
    if files.get(path) == damaged:
        files.pop(path, None)
        files |= {path: whole.files[path]} if path in whole.files else {}
    same = (found.answer.code, found.words, files) == (whole.answer.code, whole.words, whole.files)
    if not (problem := fault(found.answer, whole.answer, path, same=same)):
        return "harmless" if same else "detected", ""
    kinds = {"a traceback": "traceback", "another result": "silent"}
    return next((kind for sign, kind in kinds.items() if problem.startswith(sign)), "unclear"), problem


def _comparable(path: Path, content: bytes | None) -> object:
    """Return by what a file is compared; None if it differs from one start to the next."""
    if content is None or path.name.startswith(_WRITTEN_FOR_PEOPLE) or path.suffix == ".html":
        return None
    if {"logs", "tensorboard"} & set(path.parts):
        return None
    if path.name == QUARANTINE and b'"shard"' not in content:
        return None  # an empty list says nothing; it goes with an output that is made again
    if path.name == "metrics.jsonl":
        return [_figures(line) for line in content.splitlines()]
    return content


def _figures(line: bytes) -> object:
    """Return what a line of metrics says, without what depends on the machine."""
    try:
        record = json.loads(line)
        return {key: record.get(key) for key in ("step", "samples", "loss", "losses", "gradient_norm", "learning_rate",
                                                 "heldout")}  # fmt: skip
    except (ValueError, AttributeError, RecursionError):
        return line


def logged(path: Path) -> dict[str, dict[str, str]]:
    """Return the lines of a log by their cases; a torn last line is left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return {one["case"]: one for one in found}


def table(lines: Iterable[Mapping[str, str]]) -> str:
    """Return the outcomes by kind of file and kind of damage: detected + harmless, and what is wrong."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for line in lines:
        for row in (kind_of(line["file"]), "all"):
            for column in (line["kind"], "all"):
                counts[row][column][line["outcome"]] += 1
    columns = [*KINDS, "all"]
    width = max(map(len, counts), default=0)
    text = [" ".join([" " * width, *(f"{column[:12]:>12}" for column in columns)])]
    for row in sorted(counts, key=lambda row: (row == "all", row)):
        text += [" ".join([f"{row:<{width}}", *(f"{_cell(counts[row][column]):>12}" for column in columns)])]
    return "\n".join(text)


def _cell(found: Counter[str]) -> str:
    wrong = " ".join(f"{name.upper()} {found[name]}" for name in OUTCOMES[2:] if found[name])
    return wrong or (f"{found['detected']}+{found['harmless']}" if found else "-")


def _bench(place: Path, ranks: RankPool) -> HuntBench:
    """Return the bench in a folder, made again where it was not finished: its files name the folder."""
    whole = place.with_name(f"{place.name}.whole")
    if whole.exists():
        return HuntBench(place, ranks)
    shutil.rmtree(place, ignore_errors=True)
    bench = HuntBench.made(place, ranks)
    whole.touch()
    return bench


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt, and return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--count", type=int, default=10_000, help="damages in all, those of the log included")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--bench", type=Path, help="folder for the runs that are damaged, used again if it is there")
    parser.add_argument("--only", action="append", help="a command, several times for several")
    given = parser.parse_args(arguments)
    ranks, end, wrong = RankPool(1), time.monotonic() + 60 * given.minutes, 0
    with tempfile.TemporaryDirectory() as folder:
        hunt = Hunt(_bench(given.bench or Path(folder) / "bench", ranks))
        done, names = logged(given.log), given.only or sorted(hunt.bench.commands)
        with given.log.open("a", encoding="utf-8") as log:
            for case in (case for number in range(given.count) for case in hunt.cases(names, number)):
                if len(done) >= given.count or time.monotonic() > end:
                    break
                if case.key in done:
                    continue
                before = time.monotonic()
                outcome, problem = hunt.outcome(case)
                line = {"case": case.key, "command": case.command, "file": case.file, "kind": case.kind}
                line |= {"outcome": outcome, "problem": problem, "seconds": f"{time.monotonic() - before:.2f}"}
                done[case.key] = line
                log.write(json.dumps(line) + "\n")
                log.flush()
    ranks.close()
    wrong = sum(line["outcome"] not in GOOD for line in done.values())
    sys.stdout.write(f"{table(done.values())}\n{len(done):,} damages, {wrong} wrong\n")
    return min(1, wrong)


if __name__ == "__main__":
    raise SystemExit(main())
