"""The drawing of what was made from what."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from clozeline.report.graph import Node, _choose_lanes, graph
from clozeline.report.html_page import page
from tests.pages import HOSTILE, checked


def test_every_node_names_its_parents_and_each_known_one_has_a_line() -> None:
    nodes = [
        Node("a", "1 MB"), Node("b", "", ("a",)), Node("c", "x", ("a", "b", "a")), Node("d", "", ("later", "c")),
        Node("later", "", ("nothing",)),
    ]  # fmt: skip
    drawn = graph("From inputs to sets", nodes)
    (told,) = checked(page("x", [drawn])).pictures
    assert told == (
        "From inputs to sets: a from outside; b from a; c from a, b, a; d from later, c; later from nothing"
    )
    lines = re.findall(r'<path d="M [^"]*?L[^"]*"[^>]*stroke-width:1.2', drawn)
    assert len(lines) == 4, "a-b, a-c, b-c, c-d; none to a node below or outside"


def test_hostile_names_stay_text_and_no_node_draws_nothing() -> None:
    shown = checked(page("x", [graph("t", [Node(HOSTILE, HOSTILE), Node("b", "", (HOSTILE,))])]))
    assert any("onload=x" in text for text in shown.pictures)
    assert graph("t", []) == ""


@given(st.lists(st.lists(st.integers(0, 7), max_size=3), min_size=1, max_size=8))
def test_lines_that_meet_have_different_lanes(parents: list[list[int]]) -> None:
    ends: dict[int, int] = {}
    for row, above in enumerate(parents):
        ends |= {parent: row for parent in above if parent < row}
    lanes = _choose_lanes(ends)
    for first, last in ends.items():
        for other, end in ends.items():
            meet = any(row + 0.5 > other and row + 0.5 < end for row in range(first, last))
            assert other == first or not meet or lanes[first] != lanes[other]
