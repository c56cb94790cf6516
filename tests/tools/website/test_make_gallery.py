"""The page of objectives is as it would be made now."""

from __future__ import annotations

from pathlib import Path

from clozeline.tools.website.gallery.page import gallery
from clozeline.tools.website.make_gallery import _PAGE, main

PAGE = Path(__file__).parents[3] / "docs" / "objectives.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == gallery(), "run `python tools/website/make_gallery.py`"


def test_the_command_writes_it(tmp_path: Path) -> None:
    assert main(["--output", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_bytes() == PAGE.read_bytes()


def test_the_default_page_is_the_one_in_docs() -> None:
    assert PAGE.resolve() == _PAGE
