"""Bodies of responses as they were sent: encodings, streams, chunks and lengths, against
urllib3."""

import bz2
import gzip
import io
import random
import zlib
from http.client import HTTPException
from http.client import HTTPResponse as Message

import brotli
import pytest
import urllib3
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats.decompression import Damage
from clozeline.pipeline.ingest.formats.http_message import parse_response
from clozeline.pipeline.ingest.formats.limits import InputLimits

ZSTD = zstandard.ZstdCompressor(write_checksum=True).compress
PACK = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "x-gzip": lambda data: gzip.compress(data, mtime=0),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": ZSTD,
    "identity": bytes,
}
FIRST = b"<p>the first half of the page</p>" * 90
SECOND = b"<p>and the second half of it</p>" * 90
SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip"


def respond(body, *headers, status="200 OK"):
    message = "\r\n".join([f"HTTP/1.1 {status}", *headers]).encode() + b"\r\n\r\n" + body
    response = parse_response(message, InputLimits())
    return response.body, response.is_complete


def chunked(body, sizes=(7, 300), end=b"0\r\n\r\n"):
    pieces = []
    place = 0
    while place < len(body):
        size = sizes[len(pieces) % len(sizes)]
        piece = body[place : place + size]
        pieces.append(b"%x;name=value\r\n%b\r\n" % (len(piece), piece))
        place += size

    return b"".join(pieces) + end


@pytest.mark.parametrize("name", ["gzip", "x-gzip", "br", "zstd"])
def test_every_stream_of_a_body_is_read(name):
    """Members of gzip (RFC 1952, 2.2) and frames of zstandard (RFC 8878, 3) are one content."""
    pack = PACK[name]
    header = f"Content-Encoding: {name}"
    both = pack(FIRST) + pack(SECOND)

    assert respond(both, header) == (FIRST + SECOND, True)
    assert respond(both + pack(b"end"), header) == (FIRST + SECOND + b"end", True)
    assert (
        respond(both + b"\r\n\0junk behind the last stream", header) == (FIRST + SECOND, True)
        or name == "br"
    )
    assert respond(pack(FIRST) + b"\r\n\0junk behind the only stream", header) == (FIRST, True)


def test_skipped_frames_and_empty_members_are_no_end():
    assert respond(SKIPPED + ZSTD(FIRST) + SKIPPED + ZSTD(SECOND), "Content-Encoding: zstd") == (
        FIRST + SECOND,
        True,
    )

    members = gzip.compress(FIRST) + gzip.compress(b"") + gzip.compress(SECOND)

    assert respond(members, "Content-Encoding: gzip") == (FIRST + SECOND, True)


@pytest.mark.parametrize("name", ["gzip", "zstd"])
@pytest.mark.parametrize("missing", [1, 12, 40])
def test_a_cut_further_stream_is_kept_and_flagged(name, missing):
    content = random.Random(1).randbytes(3000)
    body, is_complete = respond(
        (PACK[name](FIRST) + PACK[name](content))[:-missing], f"Content-Encoding: {name}"
    )

    assert (FIRST + content).startswith(body)
    assert (len(body) >= len(FIRST), is_complete) == (True, False)


def test_a_broken_further_member_costs_itself_alone():
    broken = bytearray(gzip.compress(random.Random(2).randbytes(5000)))
    broken[3000:3100] = bytes(100)
    body, is_complete = respond(gzip.compress(FIRST) + bytes(broken), "Content-Encoding: gzip")
    assert (body[: len(FIRST)], is_complete) == (FIRST, False)


@pytest.mark.parametrize(
    ("body", "complete"),
    [
        (chunked(FIRST), True),
        (chunked(FIRST, end=b"0\r\nA: trailer\r\n\r\n"), True),
        (chunked(FIRST, end=b"000\r\n"), True),
        (chunked(FIRST, end=b"0;last\r\n\r\n"), True),
        (chunked(FIRST).replace(b"7;", b"00000000000007;"), True),
        (chunked(FIRST, end=b""), False),
        (chunked(FIRST, end=b"0"), False),
        (chunked(FIRST, end=b"ff\r\n"), False),
        (chunked(FIRST, end=b"not a size\r\n"), False),
        (FIRST, True),
    ],
)
def test_chunks_are_joined_and_a_missing_end_is_known(body, complete):
    """Without its last chunk a body is incomplete (RFC 9112, 8).

    Some archives keep the header of a joined body.
    """
    assert respond(body, "Transfer-Encoding: chunked") == (FIRST, complete)
    assert respond(body, "Transfer-Encoding: Chunked", "Content-Length: 9999") == (FIRST, complete)


def test_a_chunk_without_its_line_end_is_kept_and_ends_a_body():
    assert respond(b"3\r\nabc\r\n3\r\ndefxyz", "Transfer-Encoding: chunked") == (b"abcdef", False)
    assert respond(b"3\r\nabc\r\n3\r\ndef0\r\n\r\n", "Transfer-Encoding: chunked") == (
        b"abcdef",
        True,
    )


def test_bytes_behind_a_brotli_stream_count_only_if_all_of_them_decode():
    """Its streams have no first bytes that tell them from other bytes."""
    rest = brotli.compress(random.Random(3).randbytes(4000).hex().encode())
    assert respond(brotli.compress(FIRST) + rest[:-5], "Content-Encoding: br") == (FIRST, True)


@pytest.mark.parametrize("start", [b"a1\n", b"abc\r\n", b"12\r\n"])
def test_a_joined_body_that_begins_like_a_chunk_stays_whole(start):
    body = start + FIRST
    assert respond(body, "Transfer-Encoding: chunked") == (body, True)


@pytest.mark.parametrize(
    ("body", "headers", "wanted"),
    [
        (FIRST, ["Content-Length: 5"], (FIRST, True)),
        (FIRST, ["Content-Length: five"], (FIRST, True)),
        (FIRST, ["Content-Length: -1"], (FIRST, True)),
        # an archive that stored the decoded body with the length of the encoded one
        (FIRST, ["Content-Encoding: gzip", "Content-Length: 9999"], (FIRST, True)),
        (b"", ["Content-Encoding: gzip", "Content-Length: 0"], (b"", True)),
        # one encoding, which two servers named
        (
            gzip.compress(FIRST, mtime=0),
            ["Content-Encoding: gzip", "Content-Encoding: gzip"],
            (FIRST, True),
        ),
        (gzip.compress(FIRST, mtime=0), ['Content-Encoding: "GZIP";q=1'], (FIRST, True)),
        (
            chunked(gzip.compress(FIRST, mtime=0)),
            ["Transfer-Encoding: gzip, chunked"],
            (FIRST, True),
        ),
        (
            zlib.compress(FIRST)[2:-4],
            ["Content-Encoding: deflate"],
            (FIRST, True),
        ),
        (
            chunked(gzip.compress(zlib.compress(FIRST)[2:-4], mtime=0)),
            ["Content-Encoding: deflate", "Transfer-Encoding: gzip, chunked"],
            (FIRST, True),
        ),
        (FIRST, ["Content-Encoding: identity, none, UTF-8"], (FIRST, True)),
    ],
)
def test_lengths_and_names_of_encodings(body, headers, wanted):
    assert respond(body, *headers) == wanted


@pytest.mark.parametrize(
    ("span", "is_page", "complete"),
    [
        ("bytes 0-2969/2970", True, True),
        ("bytes 0-2969/9999", True, False),
        ("bytes 0-2969/*", True, False),
        ("bytes 100-3069/9999", False, True),
        ("", False, True),
    ],
)
def test_the_first_part_of_a_page_is_a_page(span, is_page, complete):
    response = parse_response(
        b"HTTP/1.1 206 x\r\nContent-Range: %b\r\n\r\n" % span.encode() + FIRST, InputLimits()
    )
    assert (response.is_page, response.is_complete) == (is_page, complete)


def test_what_no_coding_decodes_is_damage():
    for body in (bz2.compress(FIRST), b"\x1f\x9d\x90" + bytes(99)):
        with pytest.raises(Damage, match="content_encoding"):
            respond(body, "Content-Encoding: gzip")


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_streams_of_a_body_are_bounded(name):
    """A decoder takes long to make: a body of nothing but ends of streams would hold a worker for
    minutes."""
    body, is_complete = respond(
        PACK[name](FIRST) + PACK[name](b"x") * 20_000, f"Content-Encoding: {name}"
    )
    assert (body[: len(FIRST)], is_complete) == (FIRST, False)
    assert len(body) < len(FIRST) + 17_000


class Socket:
    """What the standard library reads a response from."""

    def __init__(self, message):
        self._message = message

    def makefile(self, mode):
        return io.BytesIO(self._message)


def read_by_urllib3(message, size):
    """The body as urllib3 gives it in pieces, and whether it found it complete."""
    original = Message(Socket(message), method="GET")
    original.begin()
    response = urllib3.HTTPResponse(
        original,
        original.getheaders(),
        original.status,
        preload_content=False,
        original_response=original,
        enforce_content_length=True,
    )

    pieces = []

    try:
        pieces += response.stream(size, decode_content=True)
    except (urllib3.exceptions.HTTPError, HTTPException):
        return b"".join(pieces), False

    return b"".join(pieces), True


@settings(max_examples=300)
@given(st.data())
def test_bodies_are_those_of_urllib3(data):
    names = data.draw(st.lists(st.sampled_from(["gzip", "x-gzip", "deflate", "br"]), max_size=3))
    halves = data.draw(
        st.lists(
            st.binary(min_size=20, max_size=400),
            min_size=1,
            max_size=3,
        )
    )
    body = b"".join(halves)

    for name in names:
        can_join = name in ("gzip", "x-gzip")
        parts = halves if can_join and names[0] == name and body == b"".join(halves) else [body]
        body = b"".join(map(PACK[name], parts))

    headers = [f"Content-Encoding: {', '.join(names)}"] if names else []

    if data.draw(st.booleans()):
        body = chunked(body, data.draw(st.lists(st.integers(1, 99), min_size=1, max_size=3)))
        headers.append("Transfer-Encoding: chunked")
    else:
        headers.append(f"Content-Length: {len(body)}")

    cut = data.draw(st.sampled_from([0, 0, 1, 5, 17]))
    body = body[: len(body) - cut]
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * data.draw(st.integers(0, 2))
    message = interim + "\r\n".join(["HTTP/1.1 200 OK", *headers]).encode() + b"\r\n\r\n" + body
    # urllib3 2.8 loses the members behind one that ends where a piece ends
    wanted, is_complete = read_by_urllib3(message, 50 if cut else 1 << 20)

    try:
        found = parse_response(message, InputLimits())
    except Damage:
        assert not is_complete
        return

    assert found.is_complete == is_complete
    assert found.body.startswith(wanted) if not is_complete else found.body == wanted
