import json

import pytest

from tests.pipeline.captures import SENTENCES, http, members, page, record

GERMAN = "Der Fluss ist im Sommer breit und langsam, und die Leute gehen mit ihren Hunden an ihm entlang. " * 5


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    """A crawl with pages to keep and one to reject for each step, between records that are ignored."""
    folder = tmp_path_factory.mktemp("crawl")
    bodies = [
        page(0),
        page(1),
        page(2, GERMAN * 4).replace(b"This is the page", b"Seite"),
        page(3, "short"),
        b"<html></html>",
    ]
    bodies += [
        page(4) + b"\0",
        page(5, SENTENCES + "See { code }."),
        page(6, SENTENCES.replace(". ", ".</p><p>Menu</p><p>")),
    ]
    captures = [record(http(body), f"http://Host{number}.example:80/") for number, body in enumerate(bodies)]
    (folder / "a.warc.gz").write_bytes(
        members([record(b"x", kind="warcinfo"), *captures, record(b"y", kind="request")])
    )
    rows = [{"text": f"Row {number}. {SENTENCES}", "url": None, "id": number} for number in range(3)]
    (folder / "b.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n{broken\n")
    return folder
