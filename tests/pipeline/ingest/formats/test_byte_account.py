"""The account of a file adds up to its size, whatever is damaged."""

from __future__ import annotations

import gzip
import io
import random

import pytest
import zstandard

from clozeline.pipeline.ingest.formats.byte_account import Account
from clozeline.pipeline.ingest.formats.decompression import decompress, detect_codec
from clozeline.pipeline.ingest.formats.limits import Limits

PACK = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor(write_checksum=True).compress}


def test_only_bytes_are_passed_over() -> None:
    account = Account()
    for reason, count in (("a", 3), ("b", 0), ("a", 4), ("c", -1)):
        account.pass_over(reason, count)
    assert account.undecoded == {"a": 7}


@pytest.mark.parametrize("codec", PACK)
def test_decoded_and_passed_over_bytes_make_up_the_file(codec: str) -> None:
    draw = random.Random(3)
    packed = b"".join(PACK[codec](draw.randbytes(3000)) for _ in range(4))
    for _ in range(60):
        broken = bytearray(packed[: draw.choice((len(packed), draw.randrange(20, len(packed))))])
        for _ in range(draw.randrange(3)):
            broken[draw.randrange(20, len(broken))] ^= 1 << draw.randrange(8)
        account, resume = Account(), draw.random() < 0.5
        file, codec = io.BytesIO(broken), detect_codec(bytes(broken[:16]))
        pieces = list(decompress(file, codec, Limits(), account, resume=resume))
        assert account.content == sum(len(piece) for piece in pieces if isinstance(piece, bytes))
        assert account.decoded + sum(account.undecoded.values()) == len(broken)
        assert (account.decoded == len(broken)) == (not account.undecoded)
