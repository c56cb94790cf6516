from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from clozeline.pipeline.execution.stage_order import all_stages
from clozeline.tools.website import draw_flow

PICTURE = Path(__file__).parents[3] / "docs" / "pictures" / "flow.svg"
SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_is_current():
    assert PICTURE.read_text(encoding="utf-8") == draw_flow.draw(), "run `make docs`"


def test_it_shows_every_stage_in_order_and_every_registry_once():
    texts = [element.text for element in ET.fromstring(draw_flow.draw()).iter(f"{SVG}text")]
    assert [text for text in texts if text in all_stages()] == all_stages()
    registries = [word for text in texts if "/ " in text or text.endswith("/") for word in text.split()]
    expected = {"ingest/readers", "tasks/readers", "clean/filters", "tokenize/tokenizers", "text/sentences", "families"}
    assert {f"{name}/" for name in expected} < set(registries)
    assert len(set(registries)) == len(registries)


def test_no_text_leaves_its_box():
    root = ET.fromstring(draw_flow.draw())
    boxes = [{key: int(element.get(key)) for key in ("x", "y", "width", "height")}
             for element in root.iter(f"{SVG}rect") if element.get("class") == "box"]  # fmt: skip
    for element in root.iter(f"{SVG}text"):
        x, y, width = int(element.get("x")), int(element.get("y")), 7.3 * len(element.text)
        inside = [
            box for box in boxes if box["x"] < x < box["x"] + box["width"] and box["y"] < y < box["y"] + box["height"]
        ]
        if "title" not in element.get("class", ""):
            assert len(inside) == 1
            assert x + width <= inside[0]["x"] + inside[0]["width"] + 1
