"""A picture of trainings: what it shows, in which order, and the same bytes for equal figures."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from clozeline.tools.experiments.multirun.runs_picture import Panels, runs_picture


def _panels(figures: dict[str, list[float]], title: str = "masked") -> Panels:
    curves = {name: [(1.0, 9.5), (2.0, losses[0])] for name, losses in figures.items()}
    return Panels(title, "10¹² FLOPs", curves, 6.0, 6.3, ("at the end", figures))


def test_trainings_go_from_high_to_low_with_their_means() -> None:
    losses = {"middle": [4.0, 4.2], "worst": [5.0, 5.0], "best": [3.0, 3.5]}
    drawn = runs_picture("a <study>", [_panels(losses), _panels({"best": [2.0]}, "causal")])
    ET.fromstring(drawn)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    first = texts[: texts.index("causal")]
    assert [text for text in first if text in losses] == ["worst", "middle", "best"]
    assert {"4.1", "5", "3.25", "2", "10¹² FLOPs", "at the end"} <= set(texts)
    assert "a &lt;study&gt;" in drawn
    assert "masked" in first
    (told,) = re.findall("<title>(.*?)</title>", drawn)
    assert told == ("a &lt;study&gt;; masked, at the end: best 3.25, middle 4.1, worst 5; causal, at the end: best 2")


def test_each_training_keeps_its_colour_and_equal_figures_give_equal_bytes() -> None:
    names = [f"variant {number}" for number in range(16)]
    rows = [_panels({name: [4.0 + number] for number, name in enumerate(names)})]
    drawn = runs_picture("many", rows)
    assert drawn == runs_picture("many", rows)
    colours = [re.search(rf"fill:(#\w+)[^>]*>{name}</text>", drawn) for name in names]
    assert len({found[1] for found in colours if found}) == len(names)


def test_a_training_without_figures_has_a_curve() -> None:
    rows = [Panels("loss", "seconds", {"a": [(1.0, 4.0)], "b": [(1.0, 5.0)]}, 3.5, 6.0, ("seconds", {"a": [9.0]}))]
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", runs_picture("race", rows))
    assert ("a" in texts, "b" in texts) == (True, False)
