"""How many copies of a document training reads, against a law written with other numbers."""

import hashlib
import json
import struct
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from clozeline.extensions.curation.balance.copies import (
    BalancedCopies,
    iterate_languages,
    read_factors,
)
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.recorded_file import RecordedFile

UIDS = [hashlib.md5(bytes([number])).digest() for number in range(200)]
factors = st.fractions(0, 255, max_denominator=10**12)


@given(factor=factors, seed=st.integers(0, 2**63 - 1), uid=st.sampled_from(UIDS))
def test_copies_are_drawn_by_a_word_of_the_uid(factor, seed, uid):
    word = xxhash.xxh3_64_intdigest(uid + b"balance" + struct.pack("<Q", seed))
    whole = factor.numerator // factor.denominator
    drawn = Fraction(word, 2**64) < factor - whole
    assert BalancedCopies(seed).draw(uid, factor) == whole + drawn


def rows(languages, targets, sources):
    uids = np.frombuffer(b"".join(UIDS[: len(languages)]), np.uint8).reshape(-1, 16)
    fixed = {
        "document_uid": uids,
        "language": np.array(languages, np.uint8),
        "source_group": np.array(sources, np.uint16),
    }

    columns = {} if targets is None else {"target_language": Ragged.from_lists(targets, np.uint8)}
    return RowBatch(fixed, columns)


def test_each_document_has_the_factor_of_its_language_and_source(tmp_path):
    path = tmp_path / "factors.json"
    factors = {"de": {"web": "1"}, "sw": {"web": "2", "books": "5"}, "de-sw": {"web": "7"}}
    path.write_text(json.dumps({"factors": factors}))
    inputs = SimpleNamespace(file=lambda *_: RecordedFile(path))
    tokens = SimpleNamespace(languages=["de", "sw"], source_groups=["books", "web"])
    documents = rows([0, 1, 1, 0], [[], [], [], [1]], [1, 1, 0, 1])
    alone = rows([1, 0], None, [0, 1])

    assert list(iterate_languages(documents, ["de", "sw"])) == ["de", "sw", "sw", "de-sw"]
    assert BalancedCopies(1).count(documents, tokens, inputs).tolist() == [1, 2, 5, 7]
    assert BalancedCopies(1).count(alone, tokens, inputs).tolist() == [5, 1]


def test_factors_are_read_as_exact_numbers(tmp_path):
    path = tmp_path / "factors.json"
    path.write_text(json.dumps({"factors": {"en": {"web": "1/3", "books": "2"}}}))
    exact = {"web": Fraction(1, 3), "books": Fraction(2)}
    assert read_factors(RecordedFile(path)) == {"en": exact}
