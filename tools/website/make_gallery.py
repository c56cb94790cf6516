"""Write docs/objectives.md: `clozeline make-gallery [--output FILE]`.

Covers every objective of the registry, with examples, features and options. Run it after changing an objective.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from clozeline.files import publish_text
from clozeline.tools.command import Arguments, run_tool

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_PAGE = (_DOCS if _DOCS.is_dir() else Path()) / "objectives.md"
"""The page in the repository, else a file in the working directory."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    parser.add_argument("--output", type=Path, default=_PAGE, metavar="FILE", help="page to write")

    def action(options: argparse.Namespace) -> None:
        from clozeline.tools.website.gallery.page import gallery

        publish_text(options.output, gallery())
        print(options.output)

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
