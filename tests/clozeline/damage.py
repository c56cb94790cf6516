"""Damage to any file of a run, and the judgement of what a command makes of it.

A command that meets a damaged file either does what it does with the whole one, or ends with an exit code of the table
and a message that names the file and a way out. Anything else is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.clozeline.bench import Answer

CODES = (64, 65, 69, 74)
"""Exit codes of files that cannot be taken."""
WAY_OUT = re.compile(
    r"\b(copy|run|extract|import|train|start|resume|remove|delete|choose|take|give|set|repair|restore|ask|wait|correct|see)\b"
)
"""A verb of what to do, in the imperative."""


@dataclass(frozen=True)
class Damage:
    """One change of one file; `draw` chooses its place."""

    kind: str
    path: Path
    draw: int

    def apply(self) -> None:
        """Change the file."""
        KINDS[self.kind](self.path, self.draw)


def _flip(path: Path, draw: int) -> None:
    content = bytearray(path.read_bytes())
    if content:
        place = draw % (8 * len(content))
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)


def _digit(path: Path, draw: int) -> None:
    """Change one digit: the damage that a text most likely survives."""
    content = path.read_bytes()
    places = [place for place, byte in enumerate(content) if 48 <= byte <= 57] or [0]
    place = places[draw % len(places)]
    path.write_bytes(content[:place] + b"%d" % ((content[place] - 47 + draw % 8) % 10) + content[place + 1 :])


def _another(path: Path, draw: int) -> None:
    """Put in the bytes of a neighbour."""
    others = sorted(one for one in path.parent.iterdir() if one.is_file() and one != path)
    path.write_bytes(others[draw % len(others)].read_bytes() if others else b"another file")


def _link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


KINDS: dict[str, Callable[[Path, int], object]] = {
    "flip": _flip,
    "digit": _digit,
    "cut": lambda path, draw: path.write_bytes(path.read_bytes()[: draw % max(1, path.stat().st_size)]),
    "empty": lambda path, draw: path.write_bytes(b""),
    "longer": lambda path, draw: path.write_bytes(path.read_bytes() + b"\0x"),
    "not UTF-8": lambda path, draw: path.write_bytes(b"\xff\xfe" + path.read_bytes()[2:]),
    "another type": lambda path, draw: path.write_bytes((b"[]\n", b"null\n", b"{}\n", b"7\n", b"[" * 9999)[draw % 5]),
    "swap": _another,
    "deleted": lambda path, draw: path.unlink(),
    "a folder": lambda path, draw: (path.unlink(), path.mkdir()),
    "a link to nothing": lambda path, draw: _link(path, "nowhere"),
    "a link to itself": lambda path, draw: _link(path, path.name),
    "a link to a device": lambda path, draw: _link(path, "/dev/null"),
}


def fault(answer: Answer, whole: Answer, path: Path, *, same: bool) -> str:
    """Return what is wrong with the answer of a command that has met a damaged file; empty if nothing is.

    Args:
        answer: of the command.
        whole: its answer with no file damaged.
        path: the damaged file.
        same: whether its result is that with no file damaged.
    """
    if "Traceback" in answer.error or "please report" in answer.error:
        return f"a traceback: {answer.error[-400:]}"
    if answer.code in (0, 1):
        usual = {*whole.out.splitlines(), *whole.error.splitlines()}
        new = "\n".join(line for line in (answer.out + answer.error).splitlines() if line not in usual)
        told = (
            path.name in new
            or "none: no evaluation" in new
            or (path.parent.name.startswith("step-") and f"{path.parent.name} is passed over" in new)
        )
        return "" if same or told else f"another result without a word: {new[-300:]}"
    if answer.code not in CODES:
        return f"exit code {answer.code}: {answer.error[-300:]}"
    if str(path) not in answer.error and str(path.parent) not in answer.error:
        return f"the file is not named: {answer.error[-300:]}"
    if not WAY_OUT.search(answer.error.replace(str(path), "")):
        return f"no way out: {answer.error[-300:]}"
    return ""
