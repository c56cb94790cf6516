"""Write docs/objectives.md: `python tools/make_gallery.py [--output FILE]`.

Every objective of the registry with examples, features and options. Run it after a change of an objective.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pipeline.html_page import write_page
from tools.gallery.page import gallery
from tools.lib.command import Arguments, run_tool

_DOCS = Path(__file__).parents[1] / "docs"
_PAGE = (_DOCS if _DOCS.is_dir() else Path()) / "objectives.md"
"""In the repository its page, else a file in the working directory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = Arguments(__doc__)
    parser.add_argument("--output", type=Path, default=_PAGE, metavar="FILE", help="page to write")
    return run_tool(parser, arguments, _write)


def _write(options: argparse.Namespace) -> int:
    write_page(options.output, gallery())
    print(options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
