"""Every command on a full disk, and without its input: one message, nothing torn.

Commands are listed by their folders: a new one fails until it has a line in command_lines.txt.
"""

import io
import json
import re
import shlex
import sys
from errno import ENOSPC
from pathlib import Path

import pytest

from clozeline.checksummed_json import verify_checksum
from tests.clozeline.bench import COMMANDS, LINES, READERS, STARTERS

NAMES = sorted(COMMANDS)
WITHOUT_INPUT = ("check", "demo", "doctor", "lab")
"""Those read the network, the machine, or only what comes with Clozeline."""
SECONDS = ("train", "finetune", "forgetting", "self-train", "study")
"""Those take seconds: they are started fewer times."""

FIRST_WRITES = {"study": "study study --output=new", "finetune": "finetune --compare scored1"}
"""Instead of lines that start the pipeline, of which no process starts where no temporary file can
be made."""

UNSTABLE = (".lock", ".holder", "rank0.out", "rank0.err", "port", "status.json", "metrics.prom")

_PROGRESS = re.compile(
    r"^(?:\d+ inputs?, .*\n(?:.*\n)*?─+\n(?:[\w· -]+ {2,}.*\n)*(?:[\w-]+: first run\n)*"
    r"|[\w ·-]+: (?:\d+(?:/\d+)? units?|done in [\d.]+ s|already complete)\n)",
    re.MULTILINE,
)
"""The table of a pipeline's plan, and lines of its stages."""


@pytest.fixture
def bench(whole, tmp_path):
    return whole.copy(tmp_path / "copy")


def line_of(name):
    assert name in LINES, f"add a line of `clozeline {name}` to tests/clozeline/command_lines.txt"
    return LINES[name]


def tree(folder):
    """Return every published file below a folder; locks, status and the log of starts are none."""
    kept = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in kept
        if path.name not in UNSTABLE
    }


def one_message(answer, *codes):
    """Return the message of a command that failed, without its progress."""
    message = _PROGRESS.sub("", answer.error)
    assert "Traceback" not in message
    assert answer.code in codes, answer
    assert message.count("\n") <= 4, message
    return message


@pytest.mark.parametrize(
    "limit",
    [
        0,
        *(pytest.param(size, marks=pytest.mark.slow) for size in (300, 3000, 30_000)),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk(bench, name, limit):
    """One message that names the file.

    What was there is as it was, and no torn file has a final name.
    """
    line = FIRST_WRITES.get(name) or line_of(name)
    if limit and (line_of(name) in STARTERS):
        return  # starters go on to the network or a training where the disk takes their first bytes
    bench.undo(line)
    before = tree(bench.folder)
    answer = bench.answer(line, limit)
    writes = "output=" in line or " new" in line or "=new" in line
    if writes and (limit == 0 or answer.code == 74):
        said = one_message(answer, 74)
        if "as it says above" not in said:  # of a step
            assert "File too large" in said
            assert re.search(r"\b(\w+1|new)\b|/tmp/", said), "the name of a folder"
    else:
        assert answer.code in (0, 1), answer

    after = tree(bench.folder)
    # those of a run speak of its last start: a stage that ran alone removes a page that does not
    reports = {
        path
        for path in before
        if path.endswith(("/report.json", "/report.html")) and limit and writes
    }

    kept = {*before} - reports

    assert {path: after.get(path) for path in kept} == {path: before[path] for path in kept}

    for path in reports & {*after}:
        if path.endswith(".json"):
            verify_checksum(json.loads(after[path]), path)
        else:
            assert after[path].endswith(b"</html>\n")

    assert answer.code == 74 or writes or after == before

    new = [path for path in after if path not in before and not path.endswith(".partial")]

    assert not [path for path in new if path.endswith(".tmp") or limit == 0]


_WRITTEN = re.compile(r"(?<=output=)\S+|(?<=[ =])new\b\S*")


@pytest.mark.parametrize("line", [*filter(_WRITTEN.search, [*READERS, *STARTERS])])
def test_a_url_where_a_command_writes(whole, line):
    """It is refused before anything is made, and the password in it is not shown."""
    answer = whole.answer(_WRITTEN.sub("http://me:PASSWORD@host.example/new", line))
    assert (answer.code, [*whole.folder.glob("http*")]) == (64, [])
    assert "got a URL (http:" in answer.error
    assert "PASSWORD" not in answer.error


class FullDevice(io.StringIO):
    errors = "backslashreplace"

    def write(self, text):
        raise OSError(ENOSPC, "No space left on device")


def test_a_result_that_cannot_be_printed_is_an_error(bench, monkeypatch):
    """Of each command that writes no file here; a study is more than what is printed of it."""
    printing = [name for name in NAMES if not re.search("output=| new", LINES[name])]
    for name in sorted({*printing} - {"finetune"}):
        monkeypatch.setattr(sys, "__stdout__", full := FullDevice())
        assert (name, bench.answer(LINES[name], out=full).code) == (name, 74)


@pytest.mark.parametrize("name", sorted({*NAMES} - {*WITHOUT_INPUT}))
def test_an_input_that_vanished(bench, name):
    """Each file or folder that the line names, the recipe and the configuration too."""
    line = line_of(name)
    words = [word.strip("[]") for word in shlex.split(line)[1:] if "output=" not in word]
    patterns = [pattern for word in words for pattern in word.rpartition("=")[2].split(",")]
    inputs = [
        pattern for pattern in patterns if "/" not in pattern[:1] and [*bench.folder.glob(pattern)]
    ]

    assert inputs

    bench.undo(line)

    for pattern in inputs[:1] if name in SECONDS else inputs:
        files = [*bench.folder.glob(pattern)]
        for path in files:
            path.rename(path.with_name(f"{path.name}.gone"))
        said = one_message(bench.answer(line), 64, 65, 74)

        assert Path(pattern).name.strip("*.") in said, said

        for path in files:
            path.with_name(f"{path.name}.gone").rename(path)
