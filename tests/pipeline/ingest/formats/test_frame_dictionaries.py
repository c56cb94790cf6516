"""Frames of zstandard that need the dictionary in the first frame of their file, as archives of web
pages have it."""

import random

import pytest
import zstandard

from clozeline.pipeline.ingest.formats.decompression import Damage, decompress_file
from clozeline.pipeline.ingest.formats.limits import InputLimits
from tests.pipeline.captures import counted, http, page, read, record, texts

PAGES = [
    page(number, f"<p>{random.Random(number).randbytes(300).hex()}</p>") for number in range(60)
]
RECORDS = [
    record(http(content), f"http://example.org/{number}") for number, content in enumerate(PAGES)
]
DICTIONARY = zstandard.train_dictionary(2048, RECORDS * 4)


def skipped(content):
    return b"\x5d\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


def frames():
    compressor = zstandard.ZstdCompressor(dict_data=DICTIONARY)
    return [compressor.compress(each) for each in RECORDS]


@pytest.mark.parametrize("pack", [bytes, zstandard.ZstdCompressor().compress])
def test_pages_are_read_by_the_dictionary_of_their_file(tmp_path, pack):
    path = tmp_path / "a.warc.zst"
    path.write_bytes(skipped(pack(DICTIONARY.as_bytes())) + b"".join(frames()))
    assert texts(read(path)) == [content.decode() for content in PAGES]


def test_damage_costs_records_of_its_frame_alone(tmp_path):
    made = frames()
    made[7] = made[7][:40] + bytes(len(made[7]) - 40)
    path = tmp_path / "a.warc.zst"
    path.write_bytes(skipped(DICTIONARY.as_bytes()) + b"".join(made))
    items = read(path)

    assert texts(items) == [content.decode() for number, content in enumerate(PAGES) if number != 7]
    assert counted(items).keys() <= {"damaged", "resync"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no dictionary",
        b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 7 + b"\x0f",
        b"\x28\xb5\x2f\xfd broken",
        b"\x37\xa4\x30\xec" + bytes(50),
    ],
)
def test_a_first_frame_without_a_dictionary_is_skipped(tmp_path, content):
    path = tmp_path / "a.zst"
    path.write_bytes(skipped(content) + zstandard.compress(b"text"))

    assert list(decompress_file(path, InputLimits())) == [b"text"]

    path.write_bytes(skipped(content) + frames()[0])

    assert [
        piece.reason for piece in decompress_file(path, InputLimits()) if isinstance(piece, Damage)
    ] == ["damaged"]
