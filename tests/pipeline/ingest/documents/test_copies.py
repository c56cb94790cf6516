"""Copies of documents against the law written down a second time, and against exact counts."""

from __future__ import annotations

import hashlib
import json
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.documents import copies as module
from clozeline.pipeline.ingest.documents.copies import CopyFactors, languages_of
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.recorded_file import RecordedFile

UIDS = [hashlib.md5(bytes([number])).digest() for number in range(200)]
factors = st.fractions(0, 255, max_denominator=10**12)


def one(factor: Fraction, seed: int = 1) -> CopyFactors:
    return CopyFactors({"en": {"web": factor}}, seed)


@given(factor=factors, seed=st.integers(0, 2**63 - 1), uid=st.sampled_from(UIDS))
def test_copies_are_drawn_by_a_word_of_the_uid(factor: Fraction, seed: int, uid: bytes) -> None:
    word = xxhash.xxh3_64_intdigest(uid + b"balance" + struct.pack("<Q", seed))
    whole = factor.numerator // factor.denominator
    drawn = Fraction(word, 2**64) < factor - whole
    assert one(factor, seed).copies(uid, "en", "web") == whole + drawn


@given(pair=st.lists(factors, min_size=2, max_size=2), uid=st.sampled_from(UIDS))
def test_a_larger_factor_only_adds_copies(pair: list[Fraction], uid: bytes) -> None:
    low, high = sorted(pair)
    assert one(low).copies(uid, "en", "web") <= one(high).copies(uid, "en", "web")


@pytest.mark.parametrize("factor", ["0", "1/3", "1", "6/5", "7/2", "254/255", "255"])
def test_evenly_spread_words_give_exactly_the_mean(factor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 510 words in the middles of 510 equal ranges, the share of the fraction draws one copy more."""
    documents = 510
    monkeypatch.setattr(module, "order_key", lambda uid, purpose, seed: (2 * int(uid) + 1) * 2**63 // documents)
    found = [one(Fraction(factor)).copies(str(place).encode(), "en", "web") for place in range(documents)]
    assert sum(found) == documents * Fraction(factor)
    assert max(found) - min(found) <= 1


def rows(languages: list[int], targets: list[list[int]] | None, sources: list[int]) -> Rows:
    uids = np.frombuffer(b"".join(UIDS[: len(languages)]), np.uint8).reshape(-1, 16)
    fixed = {
        "document_uid": uids,
        "language": np.array(languages, np.uint8),
        "source_group": np.array(sources, np.uint16),
    }
    columns = {} if targets is None else {"target_language": Ragged.from_lists(targets, np.uint8)}
    return Rows(fixed, columns)


def test_each_document_has_the_factor_of_its_language_and_source() -> None:
    found = CopyFactors(
        {"de": {"web": Fraction(1)}, "sw": {"web": Fraction(2), "books": Fraction(5)}, "de-sw": {"web": Fraction(7)}}, 1
    )
    documents = rows([0, 1, 1, 0], [[], [], [], [1]], [1, 1, 0, 1])
    assert list(languages_of(documents, ["de", "sw"])) == ["de", "sw", "sw", "de-sw"]
    assert found.of_rows(documents, ["de", "sw"], ["books", "web"]).tolist() == [1, 2, 5, 7]
    assert found.of_rows(rows([1, 0], None, [0, 1]), ["de", "sw"], ["books", "web"]).tolist() == [5, 1]


def test_factors_are_read_as_exact_numbers(tmp_path: Path) -> None:
    path = tmp_path / "factors.json"
    path.write_text(json.dumps({"factors": {"en": {"web": "1/3", "books": "2"}}}), encoding="utf-8")
    read = CopyFactors.read(RecordedFile(path), 4)
    assert read == CopyFactors({"en": {"web": Fraction(1, 3), "books": Fraction(2)}}, 4)
