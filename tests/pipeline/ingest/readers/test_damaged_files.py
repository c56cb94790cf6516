"""Compressed files of every format with damage at any byte: the oracle is where each record was
written."""

import bz2
import csv
import io
import json
import lzma
import random
import tempfile
import zlib
from itertools import accumulate
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.captures import counted, http, read, record, texts
from tests.pipeline.ingest.formats.test_decompression import PACK

DECODERS = {
    "gzip": lambda: zlib.decompressobj(31),
    "zstd": lambda: zstandard.ZstdDecompressor().decompressobj(),
    "lz4": lz4.frame.LZ4FrameDecompressor,
    "bz2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
}


def row(*fields):
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow(fields)
    return out.getvalue().encode()


WRITE = {
    "warc": lambda text: record(http(text.encode())),
    "wet": lambda text: record(text.encode(), kind="conversion"),
    "jsonl": lambda text: json.dumps({"text": text}).encode() + b"\n",
    "json_array": lambda text: json.dumps({"text": text}).encode() + b",\n",
    "csv": lambda text: row("1", text),
    "tsv": lambda text: b"1\t%s\n" % text.encode(),
}
READ = {
    "wet": {"name": "warc"},
    "tsv": {"columns": ["id", "text"]},
    "csv": {"columns": ["id", "text"]},
}
LOSES_ONE_LINE = ("csv", "tsv")
"""What comes first after damage may be the rest of a record, and nothing tells."""
ENDS_AT_DAMAGE = ("json_array",)
"""What a byte means depends on all bytes before it."""


def written(form, codec, draw, sizes):
    """Texts of the records in each member, and the members; each size is a number of records."""
    words = [
        [f"<p>{draw.randbytes(draw.randrange(20, 400)).hex()}" for _ in range(size)]
        for size in sizes
    ]
    members = [b"".join(map(WRITE[form], some)) for some in words]
    if form == "json_array":
        members[0] = b"[" + members[0]
        members[-1] = members[-1].removesuffix(b",\n") + b"]"

    return words, [PACK[codec](content) for content in members]


def read_bytes(form, codec, content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{form}.{codec}"
        path.write_bytes(content)
        items = read(path, **{"name": form, **READ.get(form, {})})
    return texts(items), counted(items)


def decodable(codec, prefix):
    """Bytes that the library of a compression gives for the beginning of one member."""
    return len(DECODERS[codec]().decompress(prefix))


MEMBERS = st.lists(st.integers(2, 4), min_size=1, max_size=5)
EVERY = pytest.mark.parametrize(
    ("form", "codec"), [(form, codec) for form in WRITE for codec in PACK]
)


@EVERY
@settings(max_examples=12)
@given(
    sizes=MEMBERS, seed=st.integers(0, 999), junk=st.binary(min_size=1, max_size=40), data=st.data()
)
def test_junk_between_or_after_members_costs_no_record(form, codec, sizes, seed, junk, data):
    words, members = written(form, codec, random.Random(seed), sizes)
    behind = data.draw(st.integers(1, len(members)))
    if behind < len(members) and data.draw(st.booleans()):
        junk = junk[:5] + members[behind][:3]  # it ends as a member begins
    found, reasons = read_bytes(
        form,
        codec,
        b"".join(
            [
                *members[:behind],
                b"\x01" + junk,
                *members[behind:],
            ]
        ),
    )
    wanted = [text for some in words[: behind if form in ENDS_AT_DAMAGE else None] for text in some]
    if behind < len(members) and form in LOSES_ONE_LINE and len(found) < len(wanted):
        wanted.remove(words[behind][0])

    assert found == wanted
    assert {"trailing_junk", "resync"} & reasons.keys()


@EVERY
@settings(max_examples=12)
@given(
    sizes=MEMBERS,
    seed=st.integers(0, 999),
    place=st.floats(0, 1, exclude_max=True),
)
def test_a_cut_file_gives_every_record_before_the_cut(form, codec, sizes, seed, place):
    words, members = written(form, codec, random.Random(seed), sizes)
    starts = [0, *accumulate(map(len, members))]
    cut = max(20, int(place * starts[-1]))
    number = max(index for index, start in enumerate(starts[:-1]) if start < cut)
    content = decodable(codec, members[number][: cut - starts[number]])
    ends = list(
        accumulate(
            len(WRITE[form](text).rstrip(b"\r\n,")) + gap for text, gap in gaps(form, words[number])
        )
    )

    inside = sum(end <= content for end in ends)
    found, reasons = read_bytes(form, codec, b"".join(members)[:cut])
    before = [text for some in words[:number] for text in some]
    wanted = before + words[number][:inside]
    # nothing tells whether a line without its end is complete
    at_end = inside > 0 and ends[inside - 1] == content

    assert found == wanted or ((inside == 1 or at_end) and found == wanted[:-1])
    assert cut in starts or reasons


def gaps(form, words):
    """Texts of a member, each with the bytes between the record before and its own."""
    between = len(WRITE[form]("x")) - len(WRITE[form]("x").rstrip(b"\r\n,"))
    return [(text, between if number else 0) for number, text in enumerate(words)]


@EVERY
@settings(max_examples=12)
@given(sizes=MEMBERS, seed=st.integers(0, 999), data=st.data())
def test_a_flipped_bit_costs_records_of_its_member_alone(form, codec, sizes, seed, data):
    words, members = written(form, codec, random.Random(seed), sizes)
    hit = data.draw(st.integers(0, len(members) - 1))
    at = data.draw(st.integers(8 if hit == 0 else 0, len(members[hit]) - 1))
    broken = bytearray(members[hit])
    broken[at] ^= 1 << data.draw(st.integers(0, 7))
    found, _ = read_bytes(
        form,
        codec,
        b"".join(
            [
                *members[:hit],
                bytes(broken),
                *members[hit + 1 :],
            ]
        ),
    )
    read_on = words[: hit if form in ENDS_AT_DAMAGE else None]
    others = [text for number, some in enumerate(read_on) if number != hit for text in some]
    missing = [text for text in others if text not in found]
    following = words[hit + 1][:1] if hit + 1 < len(members) and form in LOSES_ONE_LINE else []

    assert missing in ([], following)
    assert len(set(found) - {text for some in words for text in some}) <= len(words[hit])
