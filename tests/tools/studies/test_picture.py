"""The picture of a study: what it shows, in which order, and the same bytes for equal losses."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tools.studies.picture import Measured, picture


def _measured(last: dict[str, list[float]]) -> Measured:
    curves = {name: [(1e12, 9.5), (2e12, losses[0])] for name, losses in last.items()}
    return Measured(last, curves, unigram=6.0)


def test_variants_go_from_high_to_low_with_their_means() -> None:
    losses = {"middle": [4.0, 4.2], "worst": [5.0, 5.0], "best": [3.0, 3.5]}
    drawn = picture("a <study>", {"masked": _measured(losses), "causal": _measured({"best": [2.0]})})
    ET.fromstring(drawn)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    first = texts[: texts.index("causal: nats; dashed: unigram 6.00")]
    assert [text for text in first if text in losses] == ["worst", "middle", "best"]
    assert {"4.100", "5.000", "3.250", "2.000"} <= set(texts)
    assert "a &lt;study&gt;" in drawn
    assert "masked: nats; dashed: unigram 6.00" in first


def test_each_variant_keeps_its_colour_and_equal_losses_give_equal_bytes() -> None:
    names = [f"variant {number}" for number in range(16)]
    measures = {"one": _measured({name: [4.0 + number] for number, name in enumerate(names)})}
    drawn = picture("many", measures)
    assert drawn == picture("many", measures)
    colours = [re.search(rf"fill: (#\w+)[^>]*>{name}</text>", drawn) for name in names]
    assert len({found[1] for found in colours if found}) == len(names)
