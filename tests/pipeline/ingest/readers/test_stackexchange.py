"""Posts of Stack Exchange: questions and answers, row by row."""

import gzip
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.ingest.readers import detect_reader
from tests.pipeline.captures import counted, read, texts
from tests.pipeline.clean.cleaning import run_clean

HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<posts>\n'
TAIL = "</posts>\n"


def row(number, body, kind="1", **more):
    fields = {
        "Id": str(number),
        "PostTypeId": kind,
        "CreationDate": "2020-01-02T00:00:00.000",
        "Body": body,
        **more,
    }

    return (
        "  <row "
        + " ".join(
            f"{name}={quoteattr(value, {chr(10): '&#xA;'})}" for name, value in fields.items()
        )
        + " />\n"
    )


ROWS = [
    row(
        1,
        "<p>Why does it rain, if x &lt; 3?</p>\n<pre><code>a > b</code></pre>",
        Score="-2",
        Title="Rain & sun",
        Tags="<weather><c++>",
        ContentLicense="CC BY-SA 4.0",
    ),
    row(
        2, "<p>Because of clouds.</p>", "2", ParentId="1", Score="7", ContentLicense="CC BY-SA 3.0"
    ),
    row(3, "<p>About the tag.</p>", "5"),
    row(4, "<p>Who knows \U0001f600?</p>", "2", Score="x", Tags="|one|two|"),
]
FILE = (HEAD + "".join(ROWS) + TAIL).encode()


@pytest.mark.parametrize(
    "pack",
    [
        bytes,
        gzip.compress,
        lambda content: content.replace(b"\n", b""),
        lambda content: content.replace(b" />", b"></row>"),
        lambda content: content.replace(b'" ', b'"\n   '),
        lambda content: content.decode().encode("utf-16"),
    ],
)
def test_questions_and_answers_with_their_fields(read_as, pack):
    items = read_as(pack(FILE))
    first, second, third = (item for item in items if not hasattr(item, "reason"))

    assert first.is_markup
    assert "<h1>Rain &amp; sun</h1><p>Why does it rain, if x &lt; 3?</p>" in first.text
    assert first.extra == {
        "id": "1",
        "type": "question",
        "score": -2,
        "title": "Rain & sun",
        "tags": ["weather", "c++"],
        "license": "CC BY-SA 4.0",
    }
    assert second.extra == {
        "id": "2",
        "type": "answer",
        "parent": "1",
        "score": 7,
        "license": "CC BY-SA 3.0",
        "tags": [],
    }
    assert third.extra == {"id": "4", "type": "answer", "tags": ["one", "two"]}
    assert first.date == 1577923200
    assert counted(items) == {"post_type_5": 1}


def test_a_named_file_is_known_by_its_content_and_its_pages_are_extracted(write, tmp_path):
    path = write(FILE, "stats.xml")

    assert detect_reader(path) == ("stackexchange", False)

    done = run_clean(str(path), tmp_path / "out")

    assert done.documents[0].text.startswith("Rain & sun\n\nWhy does it rain, if x < 3?")
    assert "a > b" in done.documents[0].text
    assert done.documents[1].text == "Because of clouds."


@settings(max_examples=80)
@given(st.data())
def test_damage_costs_only_the_rows_that_it_hits(tmp_path_factory, data):
    content = bytearray(
        (HEAD + "".join(row(n, f"<p>Text {n}.</p>") for n in range(8)) + TAIL).encode()
    )
    at = data.draw(st.integers(0, len(content) - 1))
    content[at : at + data.draw(st.integers(1, 5))] = data.draw(st.binary(max_size=6))
    path = tmp_path_factory.mktemp("hurt") / "Posts.xml"
    path.write_bytes(content)
    found = texts(read(path, name="stackexchange"))

    assert sum(f"<p>Text {n}.</p>" in " ".join(found) for n in range(8)) >= 6


def test_entities_are_not_resolved_and_control_characters_do_not_cost_a_row(read_as):
    bomb = '<!DOCTYPE posts [<!ENTITY a "BOMB"><!ENTITY b SYSTEM "file:///etc/passwd">]>\n'
    rows = (
        '<row Id="1" PostTypeId="1" Body="x &a; &b;" />\n<row Id="2" PostTypeId="1" Body="a&#x1;b '
        '&#31;c&#10;d" />\n'
    )
    items = read_as(f"{HEAD[:40]}{bomb}<posts>{rows}{TAIL}")

    assert counted(items) == {"bad_xml": 1}
    assert "ab c\nd" in texts(items)[0]


def test_a_dump_without_posts_has_no_records_and_other_files_are_counted(read_as):
    assert counted(read_as(HEAD + TAIL)) == {"no_records": 1}
    assert counted(read_as(b"<comments></comments>")) == {"bad_xml": 1}
