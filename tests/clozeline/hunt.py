"""Hunt for damage that passes: every command, every kind of file that it reads, every kind of damage, in one process.

A command that meets a damaged file either does what it does with the good one, or ends with an exit code of the table
and a message that names the file and a way out. Anything else is a fault.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clozeline.pipeline.execution.stage_order import all_stages
from clozeline.pipeline.shards.quarantine import QUARANTINE
from clozeline.pipeline.tokenize.encode import tokenize_documents
from clozeline.pipeline.tokenize.take import stage as tokenizer_stage
from clozeline.seeding import hash64
from tests.clozeline.bench import NAMES, WITHOUT_FILES, Answer, Bench

NO_READERS = {"continue_demo", "crawl_site", "demo", "draw_flow", "forgetting", "make_gallery", "race", "study",
              "train", *WITHOUT_FILES}  # fmt: skip
"""Commands that read the network, only what comes with Clozeline, or start other commands; `train` is hunted as
`resume` and `begin`."""
GOOD = ("detected", "harmless")
CODES = (64, 65, 69, 74)
"""Exit codes of files that cannot be taken."""
WAY_OUT = re.compile(
    r"\b(copy|run|extract|import|train|start|resume|remove|delete|choose|take|give|set|repair|restore|ask|wait|correct|see)\b"
)
"""A verb of what to do, in the imperative."""
FOREIGN = {"published", "exported"}
"""Folders in a form of transformers, which holds no hashes: a changed digit is another model, not a damaged one."""
INPUTS = {"crawl", "files", "words", "texts.txt", "words.txt"}
"""Texts of a user: any content may be meant so."""
OPTIONAL = {"test.tsv", QUARANTINE, "seed-0.json"}
"""Files whose absence means something."""
OWN_FORM = (".arrow", ".json", ".jsonl", ".safetensors", ".tar", ".bin")
_WRITTEN_FOR_PEOPLE = ("report.", "config.yaml", "events.jsonl", "status.json", ".lock", ".holder", "rank0.")
_TIMES = re.compile(
    r"[\d,.]+ (tokens/s|seconds?|bytes|s\b)|at least [\d,.]+ s |[\d,.]+ │$|^.*operations a second.*$", re.MULTILINE
)
_FIGURES = (b"step", b"samples", b"loss", b"gradient_norm", b"learning_rate", rb"heldout[^\"]*")
_CACHES = (tokenize_documents._tokenizer, tokenizer_stage._import_vocabulary)
"""Caches that a fresh process would not have in memory."""


def commands(bench: Bench) -> dict[str, list[str]]:
    """Return what is started, by name: a command and its words. A name with `, again` loses the stage's records."""
    folder, new, task, alone = str(bench.folder), str(bench.new), str(bench.task / "out"), "executor.workers=1"
    begin = ["train", "--config", f"{folder}/begin.yaml", f"output={new}"]
    resume = ["train", "--config", f"{folder}/train.yaml"]
    task_set = f"{task}/tasks/sst2/train"
    stages = {name: [name, *bench.words(name), alone] for name in all_stages()}
    stages["tasks"][0] = "pipeline"  # what it consumes is read with it
    return {
        **{name: [name, *bench.words(name)] for name in NAMES if name not in NO_READERS},
        **stages, **{f"{name}, again": words for name, words in stages.items()},
        "pipeline": ["pipeline", *bench.words("pipeline"), alone],
        "pipeline, verified": ["pipeline", *bench.words("pipeline"), alone, "--verify"],
        "validate a task": ["validate_shards", task_set], "inspect a task": ["inspect_shard", task_set],
        "verify a task": ["verify_counts", task],
        "validate a token set": ["validate_shards", f"{bench.output}/encode/manifest.json"],
        "validate a sample set": ["validate_shards", str(next(bench.output.glob("group/*/train")))],
        "report a published tokenizer": ["tokenizer_report", f"{task}/tokenizer/tokenizer", f"{bench.output}/dedup"],
        "report an imported tokenizer": ["tokenizer_report", f"{folder}/imported/tokenizer", f"{bench.output}/dedup"],
        "export a run": ["export_model", str(bench.run), new],
        "export a step": ["export_model", str(bench.run), new, "--step", "2"],
        "export an import": ["export_model", f"{folder}/imported", new],
        "import an export": ["import_model", f"{folder}/exported", new],
        "compare an import": ["compare_logits", f"{folder}/imported", f"{folder}/exported"],
        "explain a batch of a run": ["explain_batch", "--run", str(bench.run), "--step", "1"],
        "resume, dry": [*resume, "--dry-run"],
        "begin with a run": [*begin, "--dry-run", f"model.init_from={bench.run}"],
        "begin with an import": [*begin, "--dry-run", f"model.init_from={folder}/imported"],
        "resume": [*resume, "steps=4"], "resume over nothing new": resume,
        "resume a task": ["train", "--config", f"{bench.task}/train.yaml", "steps=4"],
        "begin": [*resume, "steps=1", f"output={new}"],
        "begin and train": [*begin, "steps=1", f"model.init_from={folder}/imported"],
    }  # fmt: skip


def _flip(content: bytes, draw: int) -> bytes:
    changed = bytearray(content)
    changed[draw // 8 % len(content)] ^= 1 << draw % 8
    return bytes(changed)


def _change_digit(content: bytes, draw: int) -> bytes:
    """Change one digit: the damage that a text most likely survives."""
    digits = [found.start() for found in re.finditer(rb"[0-9]", content)] or [0]
    offset = digits[draw % len(digits)]
    return content[:offset] + b"%d" % ((content[offset] - 47 + draw % 8) % 10) + content[offset + 1 :]


def _neighbor(path: Path, draw: int) -> bytes:
    others = sorted(one for one in path.parent.iterdir() if one.is_file() and one != path)
    return others[draw % len(others)].read_bytes() if others else b"another file"


CONTENT: dict[str, Callable[[bytes, int], bytes]] = {
    "flip": _flip,
    "digit": _change_digit,
    "cut": lambda content, draw: content[: draw % len(content)],
    "empty": lambda content, draw: b"",
    "longer": lambda content, draw: content + b"\0x",
    "not UTF-8": lambda content, draw: b"\xff\xfe" + content[2:],
    "another type": lambda content, draw: (b"[]\n", b"null\n", b"{}\n", b"7\n", b"[" * 9999)[draw % 5],
}
"""Damage to the bytes of a file; the number chooses its offset."""
LINKS = {"a link to nothing": "nowhere", "a link to itself": "{}", "a link to a device": "/dev/null"}
KINDS = (*CONTENT, "swap", "deleted", "a folder", *LINKS)


def damage(path: Path, kind: str, draw: int) -> None:
    """Change a file; an empty one has no bytes to change."""
    content = path.read_bytes()
    if kind in CONTENT:
        path.write_bytes(CONTENT[kind](content, draw) if content else content)
    elif kind == "swap":
        path.write_bytes(_neighbor(path, draw))
    else:
        path.unlink()
        if kind == "a folder":
            path.mkdir()
        elif kind in LINKS:
            path.symlink_to(LINKS[kind].format(path.name))


def kinds_for(file: Path) -> list[str]:
    """Return the kinds of damage that are no other content or absence which may be meant so."""
    names, absent = {*file.parts}, {"deleted"} if file.name in OPTIONAL else set()
    if names & INPUTS:
        found = {"a link to nothing", "a link to itself"} | (set() if absent else {"deleted", "a folder"})
    else:
        found = {*KINDS} - absent - ({"flip", "digit", "swap"} if names & FOREIGN else set())
    return [kind for kind in KINDS if kind in found]


class Snapshot:
    """The files of a folder in memory: what differs is put back file by file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.content = {path: path.read_bytes() if path.is_file() else None for path in _below(root)}
        self._stamps = {path: _stamp(path) for path in self.content}

    def changed(self) -> list[Path]:
        """Return the paths that differ, folders before what they hold."""
        return sorted(path for path in {*self.content, *_below(self.root)} if _stamp(path) != self._stamps.get(path))

    def restore(self) -> None:
        """Make the folder what it was, times included."""
        for path in self.changed():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for path in sorted(path for path in self.content if not os.path.lexists(path)):
            if (content := self.content[path]) is None:
                path.mkdir()
            else:
                path.write_bytes(content)
                os.utime(path, ns=(self._stamps[path][-1], self._stamps[path][-1]))
            self._stamps[path] = _stamp(path)


def _below(root: Path) -> list[Path]:
    return [Path(above, name) for above, folders, files in os.walk(root) for name in (*folders, *files)]


def _stamp(path: Path) -> tuple[int, ...]:
    """Return mode, inode, size and time of a file, the mode alone of a folder; nothing where nothing is."""
    try:
        found = path.lstat()
    except OSError:
        return ()
    folder = path.is_dir() and not path.is_symlink()
    return (found.st_mode,) if folder else (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Result:
    """Outcome of a command: its answer, the files that it changed, and its words if they are a result (no times)."""

    answer: Answer
    files: Mapping[Path, object]
    words: str = ""


def judge(found: Result, good: Result, path: Path) -> tuple[str, str]:
    """Return the outcome of a command on a damaged file `path`, and what is wrong with it.

    `found.files` is without `path` if the command left it as it was. Outcomes: `detected`, `harmless`; `silent`,
    `traceback`, and `unclear`: a message that lacks the file or the way out, or an exit code of something else.
    """
    answer, error = found.answer, found.answer.error
    removed = {one: content for one, content in found.files.items() if f"{one} is removed" not in error}
    same = (answer.code, found.words, removed) == (good.answer.code, good.words, good.files)
    if "Traceback" in error or "please report" in error:
        return "traceback", error[-400:]
    if answer.code in (0, 1):
        usual = {*good.answer.out.splitlines(), *good.answer.error.splitlines()}
        new = "\n".join(line for line in (answer.out + error).splitlines() if line not in usual)
        step = f"{path.parent.name} is passed over"
        told = path.name in new or "none: no evaluation" in new or (step.startswith("step-") and step in new)
        return ("harmless" if same else "detected", "") if same or told else ("silent", new[-300:])
    if answer.code not in CODES:
        return "unclear", f"exit code {answer.code}: {error[-300:]}"
    if str(path) not in error and str(path.parent) not in error:
        return "unclear", f"the file is not named: {error[-300:]}"
    if not WAY_OUT.search(error.replace(str(path), "")):
        return "unclear", f"no way out: {error[-300:]}"
    return "detected", ""


def comparable(path: Path, content: bytes) -> object:
    """Return by what a file is compared; None if it differs from one start to the next."""
    if path.name.startswith(_WRITTEN_FOR_PEOPLE) or path.suffix == ".html" or {"logs", "tensorboard"} & {*path.parts}:
        return None
    if path.name == QUARANTINE and b'"shard"' not in content:
        return None  # an empty list says nothing; it goes with an output that is made again
    if path.name == "metrics.jsonl":  # without what depends on the machine
        return [[re.findall(rb'"%b": ([^,}]+)' % figure, line) for figure in _FIGURES] for line in content.splitlines()]
    return content


@dataclass(frozen=True)
class Case:
    """A command, and the damage of one file that it reads; `file` is relative to the bench."""

    command: str
    file: str
    kind: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.command} | {self.file} | {self.kind} | {self.number}"


class Hunt:
    """Commands on a bench that is put back after each of them."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.commands = bench, commands(bench)
        self._snapshot = Snapshot(bench.folder)
        self._good: dict[str, tuple[Result, list[str]]] = {}

    def good(self, name: str) -> tuple[Result, list[str]]:
        """Return the result of a command with no file damaged, and the files that it reads."""
        if name not in self._good:
            try:
                result, opened = self._start(name)
                assert result.answer.code == (name == "diff_manifests"), (name, result.answer)
                lost = {*self._records(name)}
            finally:
                self._snapshot.restore()
            seen = {path for path in opened if self._snapshot.content.get(path) is not None and path.suffix != ".py"}
            # libraries open some files where that is not seen
            folders = {path.parent for path in seen if path.parent != self.bench.folder}
            near = {path for path in self._snapshot.content if path.parent in folders and path.suffix in OWN_FORM}
            # a configuration with another value in it means that value
            files = [path for path in sorted((seen | near) - lost) if not path.name.startswith(("report.html", "."))
                     and (path.suffix != ".yaml" or path.name == "config.yaml")]  # fmt: skip
            self._good[name] = result, [path.relative_to(self.bench.folder).as_posix() for path in files]
        return self._good[name]

    def _records(self, name: str) -> list[Path]:
        """Return the records that a stage loses before it is done again."""
        stage, again, _ = name.partition(", again")
        output = self.bench.task / "out" if stage in ("tokenizer", "tasks") else self.bench.output
        return [path for path in self._snapshot.content if again and path.parent == output / stage / "records"]

    def _start(self, name: str) -> tuple[Result, list[Path]]:
        for cache in _CACHES:
            cache.cache_clear()
        for path in self._records(name):
            path.unlink(missing_ok=True)
        command, *words = self.commands[name]
        answer, opened = self.bench.answer_and_files(command, words)
        files = {}
        for path in self._snapshot.changed():
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            old = self._snapshot.content.get(path, b"")
            if not path.is_dir() and content != old and (seen := comparable(path, content)) is not None:
                files[path] = seen
        speaks = "--dry-run" in words or command not in ("train", "pipeline", *all_stages())
        return Result(answer, files, _TIMES.sub("", answer.out) if speaks else ""), opened

    def cases(self, names: Sequence[str], number: int = 0) -> Iterator[Case]:
        """Yield one damage of each kind for each kind of file that each command reads; `number` chooses the files."""
        for name in names:
            by_kind = defaultdict[str, list[str]](list)
            for file in self.good(name)[1]:
                by_kind[kind_of(file)].append(file)
            for files in by_kind.values():
                for kind in KINDS:
                    file = files[hash64(name, kind, number) % len(files)]
                    if kind in kinds_for(Path(file)):
                        yield Case(name, file, kind, number)

    def outcome(self, case: Case) -> tuple[str, str]:
        """Damage a file, run the command; return the outcome and what is wrong with it."""
        good, path = self.good(case.command)[0], self.bench.folder / case.file
        try:
            damage(path, case.kind, hash64(case.file, case.kind, case.number))
            damaged = _stamp(path)
            if path not in self._snapshot.changed():
                return "harmless", ""
            found, _ = self._start(case.command)
            left = {one: content for one, content in found.files.items() if one != path or _stamp(path) != damaged}
        finally:
            self._snapshot.restore()
        usual = {one: content for one, content in good.files.items() if one != path or path in left}
        return judge(replace(found, files=left), replace(good, files=usual), path)


def kind_of(file: str) -> str:
    """Return the kind of a file: its name with N for numbers, below the folder that says what it is."""
    path = Path(re.sub(r"[0-9]+", "N", file))
    shown = {"records", "documents", "rejects", "clusters", "tokenizer", "scores", "exported", "imported", "published"}
    return "/".join([*[part for part in path.parts[:-1] if part in shown][-1:], path.name])
