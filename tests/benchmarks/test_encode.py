"""Both sides of the encoding benchmark give the same ids, and other ids end it."""

import numpy as np
import pytest

from benchmarks.encode import check_ids, load_ours, load_peer, train

_TEXTS = [
    "def mask(token):\n    return token  # the mask",
    "naïve Füße 12,345 ½ 遮蔽",
    "",
    "<mask> 's  \t x",
    "the mask " * 40,
]


def test_the_library_gives_our_ids(tmp_path):
    folder = train("byte_bpe", _TEXTS * 8, 600, tmp_path)
    rows = [load(folder)(_TEXTS) for load in (load_ours, load_peer)]
    assert [row.tolist() for row in rows[0]] == [row.tolist() for row in rows[1]]
    assert sum(map(len, rows[1])) < sum(len(text.encode()) for text in _TEXTS)  # pieces, not bytes


def test_other_ids_end_the_benchmark():
    def encode(texts):
        return [np.frombuffer(text.encode(), np.uint8) for text in texts]

    check_ids(encode, encode, _TEXTS)
    with pytest.raises(RuntimeError, match="2 texts differ, such as text 1"):
        check_ids(encode, lambda texts: encode([text.replace("1", "2").replace("<", "_") for text in texts]), _TEXTS)
