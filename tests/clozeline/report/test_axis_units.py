"""Axes name their unit once; no number is written in the unit's full length."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.report.axis_units import duration, nice_ticks, power_ticks, short, size_text, unit_of
from clozeline.report.charts import Series, histogram, lines
from clozeline.report.html_page import page
from tests.pages import checked


@pytest.mark.parametrize(
    ("highest", "unit", "shown"),
    [
        (4096, None, "4,000"),
        (20_000, "in thousands", "20"),
        (2_500_000, "in millions", "2"),
        (4e9, "in billions", "4"),
        (3e15, "in 10¹⁵", "3"),
        (0.5, None, "0.4"),
        (5e-4, "in 10⁻⁴", "4"),
    ],
)
def test_an_axis_names_its_unit_once(highest: float, unit: str | None, shown: str) -> None:
    upright = checked(page("", [lines("", [Series("a", [(0, 0.0), (1, highest)])], "x")])).svg_texts
    flat = checked(page("", [lines("", [Series("a", [(0, 0.0), (highest, 1.0)])], "x")])).svg_texts if unit else []
    assert shown in upright
    assert [text for text in upright if text.startswith("in ")] == ([unit] if unit else [])
    if unit and highest > 1:
        assert f"x, {unit}" in flat


def test_durations_are_in_the_units_of_people() -> None:
    shown = {0.04: "0.0 s", 59.94: "59.9 s", 110: "1 min 50 s", 3599.4: "59 min 59 s", 7380: "2 h 3 min"}
    assert {seconds: duration(seconds) for seconds in shown} == shown


def test_given_names_of_ranges_stay() -> None:
    texts = checked(page("", [histogram("", [10_000, 20_000, 40_000], [1, 2], "length")])).svg_texts
    assert {"10k", "20k", "length"} <= set(texts)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.005, "0.005"),
        (1e-5, "1e-5"),
        (-0.000125, "-1.25e-4"),
        (4096, "4,096"),
        (20000, "20k"),
        (65536, "65.5k"),
        (-1.5e6, "-1.5M"),
        (5e-4, "5e-4"),
        (0.0009999999, "0.001"),
        (9.994e-4, "9.99e-4"),
        (9999.9, "10k"),
        (999_999, "1M"),
    ],
)
def test_numbers_of_axes_are_short(value: float, shown: str) -> None:
    assert short(value) == shown


@given(st.integers(-6, 14), st.floats(-50, 50), st.floats(0.01, 99))
def test_ticks_are_round_few_and_inside(power: int, low: float, span: float) -> None:
    scale = 10.0**power
    low, high = low * scale, (low + span) * scale
    found = nice_ticks(low, high)
    assert 3 <= len(found) <= 8
    assert low - span * scale * 1e-6 <= found[0] <= found[-1] <= high + span * scale * 1e-6
    step = found[1] - found[0]
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(mantissa - factor) for factor in (1, 2, 2.5, 5)) < 1e-3
    assert all(abs(tick / step - round(tick / step)) < 1e-6 for tick in found)
    texts = [short(tick / unit_of(low, high)[0]) for tick in found]
    far = max(abs(low), abs(high)) / step
    assert len(set(texts)) == len(texts) or far > 999, "numbers of four digits tell them apart"


@given(st.integers(-30, 10**7), st.integers(1, 10**7))
def test_ticks_of_counts_are_counts(low: int, span: int) -> None:
    found = nice_ticks(low, low + span, integers=True)
    assert found
    assert all(Fraction(tick).denominator == 1 for tick in found)
    assert len(found) <= 8


def test_powers_of_ten_are_thinned_and_a_short_range_has_others() -> None:
    assert power_ticks(1, 20_000) == [1, 10, 100, 1000, 10_000]
    assert power_ticks(0.5, 3e12) == [1, 1000, 1e6, 1e9, 1e12]
    assert power_ticks(200, 900) == [200, 300, 400, 500, 600, 700, 800, 900]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 KB"), (7_340_000_000, "7.3 GB"), (2.5e16, "25000.0 TB")],
)
def test_sizes_are_told_in_decimal_units(size: float, text: str) -> None:
    assert size_text(size) == text
