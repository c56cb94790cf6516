"""Damage to the files of a finished run, and what the next stage makes of it."""

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path

from clozeline.pipeline.execution.recipe_command import run_stage
from clozeline.seeding import hash64
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import STAGES

KINDS = ("flip", "truncate", "swap", "delete")
CLEAR = (64, 65, 69, 74)
"""Exit codes that come with a message."""


@dataclass(frozen=True)
class Damage:
    """Change of a file; `draw` chooses the byte, the length or the other file."""

    kind: str
    relative: str
    draw: int = 0

    def apply(self, root: Path) -> None:
        path = root / self.relative
        content = path.read_bytes()
        if self.kind == "delete":
            path.unlink()
        elif self.kind == "truncate":
            path.write_bytes(content[: self.draw % max(1, len(content))])
        elif self.kind == "flip" and content:
            place = self.draw % (8 * len(content))
            changed = bytearray(content)
            changed[place // 8] ^= 1 << place % 8
            path.write_bytes(changed)
        elif self.kind == "swap":
            others = sorted(other for other in path.parent.iterdir() if other.is_file() and other != path)
            if others:
                other = others[self.draw % len(others)]
                path.write_bytes(other.read_bytes())
                other.write_bytes(content)


def files_before(output: Path, stage: str) -> list[str]:
    """Files that the stages before one wrote, without those made for people."""
    paths = [path for name in STAGES[: STAGES.index(stage)] for path in sorted((output / name).rglob("*"))]
    shown = ("report.html", "config.yaml")
    files = [path for path in paths if path.is_file() and not path.name.startswith(shown)]
    return [path.relative_to(output).as_posix() for path in files]


def damages(relative: str, count: int) -> Iterator[Damage]:
    """`count` flips, and one of each other kind."""
    for number in range(count):
        yield Damage("flip", relative, hash64(relative, number))
    for kind in KINDS[1:]:
        yield Damage(kind, relative, hash64(relative, kind))


@contextmanager
def copied_before(output: Path, stage: str, folder: Path) -> Iterator[Path]:
    """A copy of a run in which a stage and all later ones have not run, by links."""
    copy = folder / "copy"
    for name in STAGES[: STAGES.index(stage)]:
        shutil.copytree(output / name, copy / name, copy_function=os.link)
    try:
        yield copy
    finally:
        shutil.rmtree(copy)


def outcome(damage: Damage, output: Path, stage: str, arguments: list[str], folder: Path) -> str:
    """`refused` by a message that names the file, `harmless` (the files are those of the undamaged run), or a fault."""
    with copied_before(output, stage, folder) as copy:
        path = copy / damage.relative
        for linked in path.parent.iterdir():  # a link would damage the original
            if linked.is_file():
                content = linked.read_bytes()
                linked.unlink()
                linked.write_bytes(content)
        damage.apply(copy)
        with redirect_stderr(io.StringIO()) as said:
            code = run_stage(stage, [*arguments, f"output={copy}"])
        if code in CLEAR:
            named = str(path.parent) if damage.kind == "swap" else str(path)
            return "refused" if named in said.getvalue() else f"unnamed: {said.getvalue()}"
        return "harmless" if code == 0 and tree(copy / stage) == tree(output / stage) else f"silent, exit {code}"
