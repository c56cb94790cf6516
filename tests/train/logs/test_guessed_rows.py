"""Guesses as text: what is right, what is wrong, and hostile pieces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from clozeline.pipeline.corrupt.preview.row_view import Pieces
from clozeline.report.html_page import page
from clozeline.train.logs import report
from clozeline.train.logs.report import draw_guesses
from tests.pages import HOSTILE, checked
from tests.pipeline.corruption_cases import vocabulary


@pytest.fixture(autouse=True)
def numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "load_tokenizer", lambda _: vocabulary(200))


def drawn(*rows: dict[str, Any]) -> str:
    return draw_guesses([{"event": "guesses", "step": 1234, "sets": {"heldout": list(rows)}}], Path("tokenizer"))


def plain(html: str) -> str:
    """Text with (right) and [wrong > label]."""
    html = re.sub(r"<ins title[^>]*>(.*?) </ins>", r"(\1)", html)
    html = re.sub(r"<del[^>]*>(.*?) </del><ins>(.*?) </ins>", r"[\1 > \2]", html)
    return re.sub(r"<[^>]*>", " ", html)


def test_a_masked_row_has_its_labels_in_their_positions() -> None:
    row = {"tokens": [101, 102, 7, 104, 7], "form": "masked", "labels": [[2, 133, 133, 0.75], [4, 155, 156, 0.5]]}
    html = drawn(row)
    shown = checked(page("", [html]))
    assert "101 102 (133)104 [156 > 155]" in plain(html)
    assert "held-out, row 1: 1 of 2 guesses are right" in shown.texts
    assert ("ins", {"title": "75.0%"}) in shown.tags
    assert "At step 1,234." in shown.texts


def test_a_decoder_row_goes_on_after_its_first_label_and_is_continued() -> None:
    row = {
        "tokens": [101, 102, 103, 104], "form": "continued", "labels": [[1, 103, 109, 0.1], [2, 104, 104, 0.2]],
        "prompt": 2, "continued": [111, 112],
    }  # fmt: skip
    shown = plain(drawn(row))
    assert "101 102 [109 > 103](104)" in shown
    assert re.search(r"Continued by the model: 101 102 +111 112", shown)


def test_a_target_is_a_text_of_its_own() -> None:
    row = {"tokens": [101, 102], "form": "target", "labels": [[0, 150, 150, 0.1], [1, 151, 152, 0.2]]}
    assert re.search(r"101 102 +\(150\)\[152 > 151\]", plain(drawn(row)))


def test_hostile_pieces_stay_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pieces, "text", lambda *_: HOSTILE)
    row = {"tokens": [1, 2], "form": "masked", "labels": [[0, 1, 2, 0.5], [1, 3, 3, 0.5]]}
    checked(page("", [drawn(row)]))


def test_the_latest_guesses_are_shown_and_none_gives_nothing() -> None:
    row = {"tokens": [1], "form": "masked", "labels": [[0, 1, 1, 0.5]]}
    events = [{"event": "guesses", "step": step, "sets": {"heldout": [row]}} for step in (5, 9)]
    assert "At step 9." in draw_guesses([*events, {"event": "save"}], Path("t"))
    assert draw_guesses([{"event": "save"}], Path("t")) == ""
    assert drawn() == ""
