"""Draw the flow of the data: `python tools/draw_flow.py [--output FILE]`.

The stages, their order, what each does and where its algorithms are come from the folders: the picture shows what the
code holds. `make docs` writes docs/pictures/flow.svg.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from pipeline.execution.order import all_stages
from pipeline.html_page import write_page
from tools.lib.command import Arguments, run_tool

__all__ = ["draw", "main"]

_ROOT: Final = Path(__file__).parents[1]
_COLUMNS, _WIDTH, _GAP, _MARGIN = 3, 260, 30, 30
_LINE: Final = 17
_CHARACTERS: Final = 33
"""Characters of a line in a box; the font is monospaced."""
_STYLE: Final = """
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1b2330}
.name{font-weight:700;font-size:14px}.title{text-anchor:end}.muted{fill:#566070}.frame{fill:#f6f8fa;stroke:#d9dfe7}
.paper{fill:#fff}.box{fill:#fff;stroke:#2a66c8;stroke-width:1.5}.arrow{fill:none;stroke:#2a66c8;stroke-width:2}
.head{fill:#2a66c8}
@media (prefers-color-scheme:dark){text{fill:#e6eaf0}.muted{fill:#9aa6b6}.frame{fill:#181e26;stroke:#323b48}
.paper{fill:#11151b}.box{fill:#11151b;stroke:#7eaefc}.arrow{stroke:#7eaefc}.head{fill:#7eaefc}}"""


@dataclass(frozen=True)
class _Box:
    """A step of the flow: its name, a clause about it, and the folders whose algorithms it can take."""

    name: str
    does: str
    registries: Sequence[str] = ()

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Class and text of each line."""
        folders = "".join(f"{registry}/ " for registry in self.registries)
        texts = {"": self.does, "muted": folders}
        return [(kind, line) for kind, text in texts.items() for line in textwrap.wrap(text, _CHARACTERS)]


class _Row(NamedTuple):
    """A row of boxes: its upper and lower edge, and the number of boxes."""

    top: int
    bottom: int
    boxes: int


def draw() -> str:
    """Return the picture as SVG."""
    frames = [("python -m pipeline --config RECIPE", _stages()), ("deepspeed train/main.py --config FILE", _training())]
    parts, top, rows = [], _MARGIN // 2, []
    for title, boxes in frames:
        drawn, placed, height = _frame(title, boxes, top)
        parts += drawn
        rows += placed
        top += height + _MARGIN // 2
    for row, following in itertools.pairwise(rows):
        parts += _next_row(row, following.top)
    width = _COLUMNS * (_WIDTH + _GAP) - _GAP + 2 * _MARGIN
    size = f'viewBox="0 0 {width} {top}" width="{width}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    about = "<title>Flow of the data: stages of the pipeline, then training</title>"
    paper = f'<rect class="paper" width="{width}" height="{top}" rx="8"/>'
    return "\n".join([head, about, f"<style>{_STYLE}</style>", paper, *parts, "</svg>"]) + "\n"


def _stages() -> list[_Box]:
    """Return a box for each stage: the first clause of its docstring, and the registries that it chooses from.

    A registry belongs to the first stage whose `stage.py` names it, else to the last stage that names it at all.
    """
    folders = [_ROOT / "pipeline" / name for name in all_stages()]
    owners: dict[str, str] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.py")):
            owners |= dict.fromkeys(_registries(file), folder.name)
    for folder in reversed(folders):
        owners |= dict.fromkeys(_registries(folder / "stage.py"), folder.name)
    return [
        _Box(
            folder.name,
            _clause(folder / "stage.py"),
            [registry for registry in sorted(owners) if owners[registry] == folder.name],
        )
        for folder in folders
    ]


def _training() -> list[_Box]:
    train, model = _ROOT / "train", _ROOT / "model"
    return [
        _Box("stream", _clause(train / "stream" / "stream.py")),
        _Box("model", _clause(model / "build.py"), _registries_in(model)),
        _Box("loop", _clause(train / "loop.py"), _registries_in(train)),
    ]


def _clause(path: Path) -> str:
    """Return what a docstring says up to its first pause, without the name in front."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    sentence = re.sub(r"^[\w ]+: ", "", text.partition("\n\n")[0].replace("\n", " "))
    return re.split(r"[;.]( |$)", sentence)[0].replace("`", "")


def _registries(file: Path) -> set[str]:
    """Return the registries of the pipeline that a file names."""
    folders = set(re.findall(r"pipeline\.(\w+)", file.read_text(encoding="utf-8")))
    return folders & set(_registries_in(_ROOT / "pipeline"))


def _registries_in(package: Path) -> list[str]:
    """Return the folders of algorithms to choose from: only these hold `_private.py` bases."""
    return sorted({base.parent.name for base in package.glob("*/_[!_]*.py")})


def _frame(title: str, boxes: Sequence[_Box], top: int) -> tuple[list[str], list[_Row], int]:
    """Return a command with its boxes in rows, the rows, and the height."""
    right = _MARGIN + _COLUMNS * (_WIDTH + _GAP) - _GAP
    parts, placed, y = [_text(right, top + 22, "name title", title)], [], top + 38
    for first in range(0, len(boxes), _COLUMNS):
        row = boxes[first : first + _COLUMNS]
        height = 34 + _LINE * max(len(box.lines) for box in row)
        for column, box in enumerate(row):
            x, middle = _MARGIN + column * (_WIDTH + _GAP), y + height // 2
            parts += _box(box, x, y, height)
            if column:
                parts += _arrow(f"M{x - _GAP} {middle}h{_GAP - 8}", x, middle, 0)
        placed.append(_Row(y, y + height, len(row)))
        y += height + _GAP
    height = y - _GAP + 14 - top
    frame = (
        f'<rect class="frame" x="{_MARGIN - 14}" y="{top}" width="{right - _MARGIN + 28}" height="{height}" rx="8"/>'
    )
    return [frame, *parts], placed, height


def _next_row(row: _Row, top: int) -> list[str]:
    """Return the arrow from the last box of a row to the first one of the next."""
    last, first = _MARGIN + (row.boxes - 1) * (_WIDTH + _GAP) + _WIDTH // 2, _MARGIN + _WIDTH // 2
    return _arrow(f"M{last} {row.bottom}v{_GAP // 2}H{first}V{top - 8}", first, top, 90)


def _box(box: _Box, x: int, y: int, height: int) -> list[str]:
    lines = [("name", box.name), *box.lines]
    texts = [_text(x + 10, y + 21 + _LINE * place, kind, line) for place, (kind, line) in enumerate(lines)]
    return [f'<rect class="box" x="{x}" y="{y}" width="{_WIDTH}" height="{height}" rx="6"/>', *texts]


def _arrow(path: str, x: int, y: int, degrees: int) -> list[str]:
    """Return a line and the head at its end, which points to (x, y)."""
    head = f'<path class="head" transform="translate({x} {y}) rotate({degrees})" d="M0 0l-9 -5v10z"/>'
    return [f'<path class="arrow" d="{path}"/>', head]


def _text(x: int, y: int, kind: str, text: str) -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{style}>{escape(text)}</text>'


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", default=Path("flow.svg"), help="picture to write (%(default)s)"
    )
    return run_tool(parser, arguments, _write)


def _write(options: argparse.Namespace) -> int:
    write_page(options.output, draw())
    print(options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
