"""Draw the data flow: `clozeline draw-flow [--output FILE]`.

Reads the stages, their order, what each does and which algorithms it offers from the code. `make docs` writes
docs/pictures/flow.svg.
"""

import argparse
import ast
import re
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from clozeline.files import publish_text
from clozeline.pipeline import stage_module
from clozeline.pipeline.execution.stage_order import all_stages
from clozeline.tools.command import Arguments, run_tool

_ROOT: Final = Path(__file__).parents[2]
_WIDTH, _INDENT, _GAP, _MARGIN = 840, 150, 20, 30
_LINE: Final = 17
_CHARACTERS: Final = 92
"""Characters per line in a box; the font is monospaced."""
_STYLE: Final = """
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1b2330}
.name{font-weight:700;font-size:14px}.title{text-anchor:end}.muted{fill:#566070}.frame{fill:#f6f8fa;stroke:#d9dfe7}
.paper{fill:#fff}.box{fill:#fff;stroke:#2a66c8;stroke-width:1.5}.arrow{fill:none;stroke:#2a66c8;stroke-width:2}
.head{fill:#2a66c8}
@media (prefers-color-scheme:dark){text{fill:#e6eaf0}.muted{fill:#9aa6b6}.frame{fill:#181e26;stroke:#323b48}
.paper{fill:#11151b}.box{fill:#11151b;stroke:#7eaefc}.arrow{stroke:#7eaefc}.head{fill:#7eaefc}}"""


class Box(NamedTuple):
    """A step of the flow: its name, a short description, and the folders of its algorithms."""

    name: str
    does: str
    registries: Sequence[str] = ()

    def lines(self) -> list[tuple[str, str]]:
        """Return CSS class and text of each line."""
        texts = {"": self.does, "muted": "".join(f"{registry}/ " for registry in self.registries)}
        return [(kind, line) for kind, text in texts.items() for line in textwrap.wrap(text, _CHARACTERS)]


def draw() -> str:
    """Return the picture as SVG: a frame per command, its steps from top to bottom."""
    train, model = _ROOT / "train", _ROOT / "model"
    frames = {
        "python -m pipeline --config RECIPE": _stage_boxes(),
        "deepspeed train/main.py --config FILE": [
            Box("stream", _first_clause(train / "data" / "stream" / "stream.py")),
            Box("model", _first_clause(model / "build.py"), _registries_in(model)),
            Box("loop", _first_clause(train / "loop.py"), _registries_in(train)),
        ],
    }
    parts: list[str] = []
    top, arrow_from = _MARGIN // 2, 0
    # a frame per command, with a box per step and arrows between them
    for title, boxes in frames.items():
        y = top + 38
        steps: list[str] = []
        for box in boxes:
            if arrow_from:
                x = _MARGIN + 40
                steps.append(f'<path class="arrow" d="M{x} {arrow_from}V{y - 8}"/>')
                steps.append(f'<path class="head" d="M{x} {y}l-5 -9h10z"/>')
            arrow_from = y + 16 + _LINE * max(1, len(box.lines()))
            frame = f'x="{_MARGIN}" y="{y}" width="{_WIDTH}" height="{arrow_from - y}" rx="6"'
            steps += [f'<rect class="box" {frame}/>', _draw_text(_MARGIN + 10, y + 21, "name", box.name)]
            for number, (kind, line) in enumerate(box.lines()):
                steps.append(_draw_text(_MARGIN + _INDENT, y + 21 + _LINE * number, kind, line))
            y = arrow_from + _GAP
        height = arrow_from + 14 - top
        frame = f'x="{_MARGIN - 14}" y="{top}" width="{_WIDTH + 28}" height="{height}" rx="8"'
        parts += [f'<rect class="frame" {frame}/>', _draw_text(_MARGIN + _WIDTH, top + 22, "name title", title), *steps]
        top += height + _MARGIN // 2
    # the arrow between the commands crosses the border of a frame: frames are drawn first
    parts.sort(key=lambda part: "frame" not in part)
    width = _WIDTH + 2 * _MARGIN
    size = f'viewBox="0 0 {width} {top}" width="{width}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    about = "<title>Flow of the data: stages of the pipeline, then training</title>"
    paper = f'<rect class="paper" width="{width}" height="{top}" rx="8"/>'
    return "\n".join([head, about, f"<style>{_STYLE}</style>", paper, *parts, "</svg>"]) + "\n"


def _draw_text(x: int, y: int, kind: str, text: str) -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{style}>{escape(text)}</text>'


def _stage_boxes() -> list[Box]:
    """Return a box per stage: the first clause of its docstring, and its registries.

    A registry belongs to the stage whose room holds it, else to the first one whose `stage.py` or `config.py` names it,
    else to the last one that names it at all.
    """
    files = {name: _ROOT.joinpath(*stage_module(name).split(".")[1:]).with_suffix(".py") for name in all_stages()}
    owners: dict[str, str] = {}
    for name, stage in files.items():
        for file in sorted(stage.parent.glob("*.py")):
            owners |= dict.fromkeys(_find_registries(file), name)
    for name, stage in reversed(files.items()):
        owners |= dict.fromkeys(_find_registries(stage) | _find_registries(stage.with_name("config.py")), name)
    owners |= {registry: room for registry in owners if (room := registry.partition("/")[0]) in files}
    return [
        Box(name, _first_clause(stage), [registry for registry in sorted(owners) if owners[registry] == name])
        for name, stage in files.items()
    ]


def _first_clause(path: Path) -> str:
    """Return the first clause of a docstring, without the name in front."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    sentence = re.sub(r"^[\w ]+: ", "", text.partition("\n\n")[0].replace("\n", " "))
    return re.split(r"[;.]( |$)", sentence)[0].replace("`", "")


def _find_registries(file: Path) -> set[str]:
    packages = re.findall(r"clozeline\.pipeline\.([\w.]+)", file.read_text(encoding="utf-8"))
    return set(_registries_in(_ROOT / "pipeline")) & {package.replace(".", "/") for package in packages}


def _registries_in(package: Path) -> list[str]:
    """Return the folders of algorithms in a package: only these have `_private.py` base modules."""
    return sorted({str(base.parent.relative_to(package)) for base in package.rglob("_[!_]*.py")})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    picture = Path("flow.svg")
    parser.add_argument("--output", type=Path, metavar="FILE", default=picture, help="picture to write (%(default)s)")

    def action(options: argparse.Namespace) -> None:
        publish_text(options.output, draw())
        print(options.output)

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
