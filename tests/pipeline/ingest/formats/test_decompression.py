import bz2
import gzip
import lzma
import random
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from clozeline.pipeline.ingest.formats import decompression
from clozeline.pipeline.ingest.formats.decompression import (
    CODECS,
    DECODER_ERRORS,
    Damage,
    decode_with,
    decompress_file,
    detect_codec,
)
from clozeline.pipeline.ingest.formats.limits import InputLimits

PACK = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lz4": lambda data: lz4.frame.compress(data, content_checksum=True),
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}
DATA = random.Random(1).randbytes(200_000) + b"abc" * 1_000_000


def decompress(packed, limits=None):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(packed)
        yield from decompress_file(path, limits or InputLimits())


def unpack(packed, limits=None):
    """Everything that came, and the reason of the first damage."""
    pieces = list(decompress(packed, limits))
    reasons = [piece.reason for piece in pieces if isinstance(piece, Damage)]
    return b"".join(piece for piece in pieces if isinstance(piece, bytes)), reasons[
        0
    ] if reasons else None


@pytest.mark.parametrize("codec", PACK)
def test_members_are_read_one_after_another(codec):
    packed = PACK[codec](DATA) + PACK[codec](b"") + PACK[codec](b"second")

    assert detect_codec(packed) == codec
    assert unpack(packed) == (DATA + b"second", None)
    assert unpack(packed + b"junk after") == (DATA + b"second", "trailing_junk")
    assert unpack(packed + bytes(64)) == (DATA + b"second", None)
    assert unpack(b"plain") == (b"plain", None)


def deflated(draw):
    """A gzip member of any block type, level, window and flush."""
    size = int(10 ** draw.uniform(0, 4.2))
    text = draw.choice(
        [
            draw.randbytes(size),
            b"lorem ipsum %d " % size * (size // 8),
            bytes(size),
            b"",
        ]
    )
    strategy = draw.choice([zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED])
    packer = zlib.compressobj(
        draw.choice([0, 1, 6, 9]), zlib.DEFLATED, 31, draw.choice([1, 8, 9]), strategy
    )
    half = packer.compress(text[: size // 2]) + packer.flush(
        draw.choice([zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH])
    )
    return half + packer.compress(text[size // 2 :]) + packer.flush()


@pytest.mark.parametrize("seed", range(4))
def test_members_of_any_form_give_what_gzip_gives(monkeypatch, seed):
    for name, size in (("_FIRST_READ_BYTES", 200), ("_READ_BYTES", 700)):
        monkeypatch.setattr(decompression, name, size)
    monkeypatch.setitem(CODECS, "gzip", replace(CODECS["gzip"], step=90))
    draw = random.Random(seed)
    for _ in range(25):
        packed = b"".join(deflated(draw) for _ in range(draw.randrange(1, 5)))
        assert unpack(packed) == (gzip.decompress(packed), None)


def test_false_members_that_overlap_end_as_a_bomb():
    """Each of these headers announces 128 KiB of raw content, which holds the next headers."""
    header = b"\x28\xb5\x2f\xfd\x00\x58" + (1 << 17 << 3).to_bytes(3, "little")
    pieces = list(decompress(header * 20_000))
    assert sum(len(piece) for piece in pieces if isinstance(piece, bytes)) <= 600 << 20
    assert "bomb" in {piece.reason for piece in pieces if isinstance(piece, Damage)}


@pytest.mark.parametrize("codec", PACK)
def test_bombs_are_stopped(codec):
    limits = InputLimits(decompressed_bytes=10 << 20)
    packed = PACK[codec](bytes(60 << 20))
    found, reason = unpack(packed, limits)

    assert reason == "bomb"
    assert len(found) <= 43 << 20

    pieces = list(decompress(packed))

    assert max(map(len, pieces)) <= 33 << 20
    assert sum(map(len, pieces)) == 60 << 20, "short repetitive data is no bomb"


@pytest.mark.parametrize("codec", PACK)
def test_all_that_decodes_before_damage_comes_once(codec):
    """The oracle feeds single bytes to the library until it fails."""
    content = b"".join(b"%d " % number + bytes(number * 40) for number in range(400)) + bytes(
        9 << 20
    )
    packed = PACK[codec](content)
    for cut in (
        len(packed) // 3,
        len(packed) // 2,
        len(packed) - 30,
    ):
        broken = packed[:cut] + b"\xff\xfe\x03" * 30
        decoder = CODECS[codec].decoder()
        wanted = []

        try:
            for byte in broken:
                wanted += decode_with(decoder, bytes([byte]))
        except DECODER_ERRORS:
            pass

        assert unpack(broken)[0] == b"".join(wanted)
