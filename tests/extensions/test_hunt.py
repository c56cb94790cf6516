"""Hunt for damage that passes: every line of the bench, every kind of file that it reads, every
kind of damage.

A command that meets a damaged file either does what it does with the good one, or ends with an exit
code of the table and a message that names the file and a way out. Anything else is a fault. Files
are named relative to the bench."""

import re
import shutil
import stat
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from clozeline.extensions.curation.decontaminate import ngram_index
from clozeline.files import parse_json
from clozeline.pipeline.tokenize.encode import tokenize_documents
from clozeline.pipeline.tokenize.import_published import stage as tokenizer_stage
from clozeline.seeding import hash64
from tests.clozeline.bench import AGAIN, LINES, READERS, Answer

REFUSALS = (64, 65, 69, 74)
"""Exit codes of files that cannot be taken."""
WAY_OUT = re.compile(
    r"\b(copy|download|name|run|extract|import|train|start|resume|remove|delete|choose|take|give|set|repair|restore|ask|wait|correct|see|write)\b"
)
"""A verb of what to do, in the imperative."""
_OWN_FORM = (".arrow", ".json", ".jsonl", ".safetensors", ".tar", ".bin")
_WRITTEN_FOR_PEOPLE = re.compile(
    r"(^|/)(report\.|config\.yaml|events\.jsonl|status\.json|\.lock|\.holder|rank0\.|logs/|tensorboard/)|\.html$"
)
_MEASURED = {
    "time",
    "tokens_per_s",
    "padded_tokens_per_s",
    "samples_per_s",
    "mfu",
    "step_ms",
    "memory_bytes",
    "cpu_s",
    "cpu_seconds",
    "made",
    "stream",
    "checksum",
}
"""Keys of metrics.jsonl and of records that differ between two equal runs."""
_TIMES = re.compile(
    r" *[\d,.]+[kMG]? (tok/s|tokens/s|seconds?|bytes|[KMGTP]B|s\b)|at least [\d,.]+ s "
    r"|\d+:\d\d:\d\d left| {2,}| $"
    r"|^.*(operations per second|ms, batch| x\)|saves ).*$",
    re.MULTILINE,
)
_CACHES = (tokenize_documents._load_once, tokenizer_stage._import, ngram_index.open_index)
"""Caches that a fresh process would not have in memory; a kept index maps a file that the hunt
overwrites."""

"""What happens to a file; the number chooses an offset, a length or another file."""


def _edit(change):
    return lambda path, draw: (
        path.write_bytes(change(content, draw)) if (content := path.read_bytes()) else None
    )


def _replace(make):
    return lambda path, draw: (path.unlink(), make(path))


def _flip(content, draw):
    changed = bytearray(content)
    changed[draw // 8 % len(content)] ^= 1 << draw % 8
    return bytes(changed)


def _change_digit(content, draw):
    """Change one digit: the damage that a text most likely survives."""
    digits = [match.start() for match in re.finditer(rb"[0-9]", content)] or [0]
    offset = digits[draw % len(digits)]
    return (
        content[:offset] + b"%d" % ((content[offset] - 47 + draw % 8) % 10) + content[offset + 1 :]
    )


def _swap(path, draw):
    others = sorted(other for other in path.parent.iterdir() if other.is_file() and other != path)
    path.write_bytes(others[draw % len(others)].read_bytes() if others else b"another file")


DAMAGES = {
    "flip": _edit(_flip),
    "digit": _edit(_change_digit),
    "cut": _edit(lambda content, draw: content[: draw % len(content)]),
    "empty": _edit(lambda content, draw: b""),
    "longer": _edit(lambda content, draw: content + b"\0x"),
    "not UTF-8": _edit(lambda content, draw: b"\xff\xfe" + content[2:]),
    "another type": _edit(
        lambda content, draw: (b"[1]\n", b"null\n", b"{}\n", b"7\n", b"[" * 9999)[draw % 5]
    ),
    "swap": _swap,
    "deleted": _replace(lambda path: None),
    "a folder": _replace(Path.mkdir),
    "a link to nothing": _replace(lambda path: path.symlink_to("nowhere")),
    "a link to itself": _replace(lambda path: path.symlink_to(path.name)),
    "a link to a device": _replace(lambda path: path.symlink_to("/dev/null")),
}
_OTHER_CONTENT = {*DAMAGES} - {"deleted", "a folder", "a link to nothing", "a link to itself"}
MEANT = {
    # texts of a user: any content may be meant so
    r"crawl/|/files/|/words/|^(texts|words|items1)\.txt": _OTHER_CONTENT,
    # in a form of transformers, which holds no hashes: a changed digit is another model,
    # not a damaged one
    r"^(exported1|imported1/tokenizer/source)/": {"flip", "digit", "swap"},
    # files whose absence means something
    r"/(test\.tsv|seed-\d\.json)$": {"deleted"},
    # optional splits of a task
    r"/test\.tsv$": {"a folder"},
    # a configuration with another value means that value; what is written for people is read by no
    # command
    r"(?<!/config)\.yaml$|(^|/)(\.|report\.html)|\.py$": {*DAMAGES},
}
"""Damages that give what may be meant so, by a pattern of the file."""
_MEANT_BY_LINE = re.compile(
    r"^(new|rm) .* crawl/\S+ (deleted|a folder)$"
    r"|^(evaluate|train) .*/metrics\.jsonl"
)
"""Of the line, its file and the damage. The publisher's files hold no hashes: copied as they are,
and read by `export-model`. A start with nothing written before takes the files that there are.
A log holds no hashes: a training adds to what is there, and without losses, an evaluation does not
tell what is wrong with a run."""


class Case(NamedTuple):
    """A line of the bench, and the damage of one file that it reads."""

    line: str
    file: str
    damage: str


class Result(NamedTuple):
    """Outcome of a line: its answer, the files that it changed, and its words if they are a result
    (no times)."""

    answer: Answer
    files: Mapping[str, object]
    words: str = ""


def _folder(file):
    """Return the folder of a file; of one directly in the bench the file itself."""
    return file.rpartition("/")[0] or file


def judge(result, good, file):
    """Return what is wrong with the result of a line on a damaged file.

    Nothing if it is detected or harmless.
    """
    answer = result.answer
    error = result.answer.error
    if "Traceback" in error or "please report" in error:
        return f"a traceback: {error[-400:]}"
    if answer.code in (0, 1):
        files = {
            other: content
            for other, content in result.files.items()
            if f"{other} is removed" not in error
        }
        if (answer.code, result.words, files) == (good.answer.code, good.words, good.files):
            return ""
        usual = {*good.answer.out.splitlines(), *good.answer.error.splitlines()}
        new = "\n".join(line for line in (answer.out + error).splitlines() if line not in usual)
        name = Path(file).name
        step = Path(file).parent.name
        told = [name, "none: no evaluation"]
        told += [step] if step.startswith("step-") else []
        told += ["removed input"] if file.startswith("crawl/") else []  # a pattern names them
        return (
            ""
            if any(words in new for words in told)
            else f"another result without a word: {new[-300:]}"
        )

    if answer.code not in REFUSALS:
        return f"exit code {answer.code}: {error[-300:]}"
    if file not in error and _folder(file) not in error:
        return f"the file is not named: {error[-300:]}"
    return "" if WAY_OUT.search(error.replace(file, "")) else f"no way out: {error[-300:]}"


def content_of(path):
    """Return the bytes of a file, or a word for what else is there."""
    if path.is_symlink():
        return b"a link"
    return path.read_bytes() if path.is_file() else b"a folder" if path.is_dir() else b"nothing"


def comparable(file, content):
    """Return by what a file is compared; nothing if it differs from one start to the next."""
    if _WRITTEN_FOR_PEOPLE.search(file) or content == b"a folder":
        return None
    is_measured = file.endswith("metrics.jsonl") or "/records/" in file
    return ([*map(_learned, content.splitlines())] if is_measured else content,)


def _learned(line):
    """Return a record without what is measured.

    A line that holds none as it is.
    """
    try:
        return {key: value for key, value in parse_json(line).items() if key not in _MEASURED}
    except (ValueError, AttributeError):
        return line


def kind_of(file):
    """Return the kind of a file: its name with N for numbers, below the folder that says what it
    is."""
    path = Path(re.sub(r"[0-9]+", "N", file))
    shown = {
        "records",
        "documents",
        "rejects",
        "clusters",
        "tokenizer",
        "heldout",
        "scores",
        "exportedN",
        "importedN",
    }

    return "/".join([*[part for part in path.parts[:-1] if part in shown][-1:], path.name])


def stamps(root):
    """Return mode, size and time of all files below a folder; of folders the mode alone."""
    status = {path.relative_to(root).as_posix(): path.lstat() for path in root.rglob("*")}
    return {
        name: (of.st_mode,)
        if stat.S_ISDIR(of.st_mode)
        else (of.st_mode, of.st_size, of.st_mtime_ns)
        for name, of in status.items()
    }


class Hunt:
    """Lines in a copy of the bench that is put back after each of them."""

    def __init__(self, whole, folder):
        self.whole = whole.folder
        self.bench = whole.copy(folder)
        self.folder = folder
        self._stamps = stamps(whole.folder)
        self._good = {}

    def changed(self):
        """Return the paths that differ from the whole bench, folders before what they hold."""
        now = stamps(self.folder)
        return sorted(
            name for name in {*now, *self._stamps} if now.get(name) != self._stamps.get(name)
        )

    def restore(self):
        """Make the copy like the whole bench, times included."""
        changed = self.changed()
        for path in (self.folder / name for name in changed):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

        for name in changed:
            if (self.whole / name).is_dir():
                (self.folder / name).mkdir()
            elif (self.whole / name).exists():
                shutil.copy2(self.whole / name, self.folder / name)

    def _start(self, line):
        for cache in _CACHES:
            cache.cache_clear()
        alone = " executor.workers=1" if "recipe.yaml" in line else ""
        answer, opened = self.bench.start(line + alone)
        pairs = {
            file: (content_of(self.folder / file), content_of(self.whole / file))
            for file in self.changed()
        }
        files = {
            file: seen
            for file, (new, old) in pairs.items()
            if (seen := comparable(file, new)) and seen != comparable(file, old)
        }

        speaks = "--dry-run" in line or not ("recipe.yaml" in line or line.startswith("train"))
        return Result(answer, files, _TIMES.sub("", answer.out) if speaks else ""), opened

    def good(self, line):
        """Return the result of a line with no file damaged, and the files that it reads."""
        if line not in self._good:
            try:
                result, opened = self._start(line)
            finally:
                self.restore()

            assert result.answer.code == 0, (line, result.answer)
            # libraries open some files where that is not seen
            folders = {_folder(file) for file in opened & self._stamps.keys()}
            near = {
                file
                for file in self._stamps
                if _folder(file) in folders and file.endswith(_OWN_FORM)
            }

            lost = line.rpartition("; ")[0].removeprefix("rm ")
            files = [file for file in sorted(opened | near) if not file.startswith(f"{lost}/")]
            self._good[line] = result, [file for file in files if (self.whole / file).is_file()]

        return self._good[line]

    def cases(self, lines):
        """Yield one damage of each kind for each kind of file that each line reads."""
        for line in lines:
            by_kind = defaultdict[str, list[str]](list)
            for file in self.good(line)[1]:
                by_kind[kind_of(file)].append(file)
            for files in by_kind.values():
                for damage in DAMAGES:
                    file = files[hash64(line, damage) % len(files)]
                    meant = any(
                        damage in damages and re.search(pattern, file)
                        for pattern, damages in MEANT.items()
                    )
                    if not meant and not _MEANT_BY_LINE.search(f"{line} {file} {damage}"):
                        yield Case(line, file, damage)

    def problem(self, case):
        """Damage a file and run the line; return what is wrong with the result."""
        good = self.good(case.line)[0]
        path = self.folder / case.file

        try:
            DAMAGES[case.damage](path, hash64(case.file, case.damage))
            damaged = content_of(path)
            result, _ = self._start(case.line)
            if content_of(path) == damaged:  # it was left as it was: neither run has a result there
                good, result = (
                    one._replace(files={**one.files, case.file: None}) for one in (good, result)
                )
        finally:
            self.restore()

        return judge(result, good, case.file)


BRIEF = (
    "train --config train.yaml output=encoder1 steps=4",
    "train --config start.yaml output=new model.init_from=imported1 --dry-run",
    "export-model encoder1 new",
    "finetune --compare scored1",
    "validate-shards task1/out/tasks/sst2/train",
    *(LINES[name] for name in ("fill-mask", "evaluate", "where-is")),
    *(AGAIN[name] for name in ("tasks", "encode")),
)
"""Lines of `make test`: together they read every kind of file."""


@pytest.fixture(scope="module")
def hunt(whole, tmp_path_factory):
    return Hunt(whole, tmp_path_factory.mktemp("hunt") / "copy")


def assert_told(hunt, cases):
    wrong = [(*case, problem) for case in cases if (problem := hunt.problem(case))]
    assert not wrong, "\n".join(" | ".join(words) for words in wrong)


@pytest.mark.slow
def test_some_damage_is_never_silent(hunt):
    """One damage of each kind of file, and of each kind of damage."""
    assert {*BRIEF} <= {*READERS, *AGAIN.values()}
    cases = sorted(hunt.cases(BRIEF), key=lambda case: hash64(*case))
    chosen = {key: case for case in cases for key in (kind_of(case.file), case.damage)}
    assert {*DAMAGES} <= chosen.keys()
    assert_told(hunt, dict.fromkeys(chosen.values()))


@pytest.mark.slow
@pytest.mark.parametrize("line", [*READERS, *AGAIN.values()])
def test_no_damage_is_silent(hunt, line):
    assert_told(hunt, hunt.cases([line]))
