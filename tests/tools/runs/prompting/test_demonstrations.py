"""Demonstrations: never the row itself, as many of each label, the same whatever the order of files."""

from __future__ import annotations

from collections import Counter

import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.runs.prompting.rows import Demonstrations, PromptRow, Selection


def rows(count: int, first: int = 0) -> list[PromptRow]:
    """Rows with three labels, of which one is rare."""
    names = ["a", "b", "a", "b", "a", "c"]
    return [
        PromptRow(1000 + number, {"text": str(number)}, names[number % 6]) for number in range(first, first + count)
    ]


@pytest.mark.parametrize("selection", ["random", "balanced", "fixed"])
def test_they_do_not_depend_on_the_order_and_never_hold_the_row(selection: Selection) -> None:
    pool = rows(24)
    one, other = (Demonstrations(part, 5, selection, 3) for part in (pool, pool[::-1]))
    seen = set()
    for row in rows(30):
        found = one.of(row)
        assert found == other.of(row)
        assert len({shown.uid for shown in found}) == 5
        assert row.uid not in {shown.uid for shown in found}
        seen.add(tuple(shown.uid for shown in found))
    own = {shown.uid for shown in one.of(PromptRow(1, {}, None))}
    assert len(seen) == (1 + sum(row.uid in own for row in pool) if selection == "fixed" else 30)
    assert [Demonstrations(pool, 5, selection, 4).of(row) for row in pool] != [one.of(row) for row in pool]


@pytest.mark.parametrize("selection", ["balanced", "fixed"])
@pytest.mark.parametrize("shots", [3, 4, 6, 12])
def test_each_label_has_as_many_or_one_more(selection: Selection, shots: int) -> None:
    """As long as the rarest has so many."""
    found = Demonstrations(rows(60), shots, selection, 0)
    firsts = Counter[str]()
    for row in rows(40, first=100):
        counts = Counter(str(shown.label) for shown in found.of(row))
        assert max(counts.values()) - min(counts[label] for label in "abc") <= 1
        firsts[str(found.of(row)[0].label)] += 1
    if selection == "balanced":
        assert len(firsts) == 3, "the order in the prompt is drawn, too"


def test_random_ones_are_drawn_evenly() -> None:
    """Each of 12 rows in a third of 1,500 draws of 4, within five standard deviations."""
    found = Demonstrations(rows(12), 4, "random", 0)
    counts = Counter(shown.uid for row in rows(1500, first=5000) for shown in found.of(row))
    assert len(counts) == 12
    assert all(abs(count - 500) < 5 * (1500 * 2 / 9) ** 0.5 for count in counts.values())


def test_equal_rows_are_one_and_too_few_are_refused() -> None:
    twice = [PromptRow(7, {"text": "x"}, "b"), PromptRow(7, {"text": "x"}, "a"), *rows(2)]
    assert {shown.label for shown in Demonstrations(twice, 2, "random", 0).of(rows(1)[0])} == {"a", "b"}
    with pytest.raises(ConfigurationError, match="shots=3: expected a file train=FILE with more labeled rows"):
        Demonstrations(twice, 3, "random", 0)
    assert Demonstrations([], 0, "random", 0).of(rows(1)[0]) == []
