"""Headers of WARC and ARC records, against a parser that goes line by line."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats.warc_head import HEAD_BYTES, RecordHead, has_head, parse_arc_head, parse_head

NAMES = ["WARC-Type", "warc-TYPE", "WARC-Target-URI", "Content-Length", "content-length", "Content-Type", "X-Other",
         "WARC-Truncated", "WARC-Type-Not", "X-WARC-Type"]  # fmt: skip
VALUES = [
    "response",
    "Conversion",
    "request",
    "12",
    "007",
    "-3",
    "http://a/?é",
    "http://a/{end} b",
    "<http://b/>",
    "text/HTML; charset=x",
]
FOLDS = ["", " ", "\t ", "{end} ", "{end}\t\t"]  # what stands between the colon and the value


def read_fields(head: str) -> dict[str, str]:
    """Return the fields by lower-case name; the last one of a name wins."""
    unfolded: list[str] = []
    for line in head.replace("\r", "").split("\n"):
        if line[:1] in (" ", "\t") and unfolded:
            unfolded[-1] += " " + line.lstrip(" \t")
        else:
            unfolded.append(line)
    split = [line.partition(":") for line in unfolded[1:] if ":" in line]
    return {name.rstrip(" \t").lower(): value.strip() for name, _, value in split}


@given(
    lines=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["", " "]), st.sampled_from(FOLDS),
                             st.sampled_from(VALUES)), max_size=8),
    end=st.sampled_from(["\r\n", "\r\n", "\n", "\r\r\n"]),
    content=st.sampled_from([b"", b"content\r\n\r\n", b"\nwarc-type: late\r\n\r\n"]),
)  # fmt: skip
@example(
    lines=[("WARC-Type", "", " ", "response"), ("WARC-Target-URI", "", "", "http://a/{end} b")],
    end="\r\n",
    content=b"",
)
def test_fields_are_those_of_a_parser_by_line(lines, end, content):
    written = [f"{name}{blank}:{(fold + value).format(end=end)}" for name, blank, fold, value in lines]
    head = end.join(["WARC/1.0", *written]) + end + end
    fields = read_fields(head)
    for kind in (bytes, bytearray):
        found = parse_head(kind(head.encode() + content))
        if "warc-type" not in fields:
            assert found is None
            continue
        length = fields.get("content-length", "")
        assert found is not None
        assert (found.kind, found.size) == (fields["warc-type"].lower(), len(head.encode()))
        assert found.length == (int(length) if length.isdigit() else None)
        assert found.text_mode == (end == "\r\r\n")
        if found.kind in ("response", "conversion"):
            assert found.url == (fields.get("warc-target-uri", "").strip("<>") or None)
            assert found.truncated == ("warc-truncated" in fields)
            assert found.media == fields.get("content-type", "").split(";")[0].lower()


def test_a_header_without_an_end_is_none():
    head = b"WARC/1.0\r\nWARC-Type: request\r\n"
    assert (parse_head(head), has_head(head)) == (None, False)
    assert has_head(head + b"\r\n")
    long = head + b"X: %s\r\n\r\n" % (b"y" * HEAD_BYTES)
    assert (parse_head(long), has_head(long)) == (None, False)


@pytest.mark.parametrize(
    ("line", "head"),
    [
        (
            b"http://a/b c 127.0.0.1 20240506070809 Text/HTML 12\n",
            RecordHead("response", 51, 12, url="http://a/b c", date=1714979289, media="text/html"),
        ),
        (
            b"dns:a 127.0.0.1 20240506070809 no-type 12\r\n",
            RecordHead("other", 43, 12, url="dns:a", date=1714979289),
        ),
    ],
)
def test_arc_headers(line, head):
    assert parse_arc_head(line + b"content\n") == head
