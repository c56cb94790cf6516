"""How many copies of a document training reads: the factor in the mean, and its tokens in total."""

import hashlib
import json
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clozeline.extensions.curation.balance.copies import BalancedCopies, read_factors
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.recorded_file import RecordedFile

UIDS = np.frombuffer(
    b"".join(hashlib.md5(bytes([number])).digest() for number in range(200)), np.uint8
).reshape(-1, 16)
LENGTHS = np.array([3 + (number * number * 37) % 1000 for number in range(200)])


@given(factor=st.fractions(0, 255, max_denominator=10**12), seed=st.integers(0, 2**63 - 1))
def test_tokens_differ_by_less_than_the_longest_document(factor, seed):
    copies = BalancedCopies(seed).draw(UIDS, LENGTHS, factor)
    assert {*copies.tolist()} <= {int(factor), int(factor) + 1}
    assert abs(copies @ LENGTHS - factor * LENGTHS.sum()) < LENGTHS.max() + 1


def test_tokens_are_exact_and_documents_of_every_length_have_the_same_mean():
    drawn = [BalancedCopies(seed).draw(UIDS, LENGTHS, Fraction(9, 4)) for seed in range(400)]
    assert np.abs(drawn @ LENGTHS / LENGTHS.sum() - 2.25).mean() < 1e-3
    means = np.mean(drawn, axis=0)[np.argsort(LENGTHS)]
    assert np.abs(means.reshape(4, 50).mean(axis=1) - 2.25).max() < 0.02
    assert np.abs(means - 2.25).max() < 0.1


def rows(languages, targets, sources):
    fixed = {
        "document_uid": UIDS[: len(languages)],
        "language": np.array(languages, np.uint8),
        "source_group": np.array(sources, np.uint16),
    }
    columns = {"token_ids": Ragged.from_lists([[1, 2]] * len(languages), np.uint16)}
    if targets is not None:
        columns["target_language"] = Ragged.from_lists(targets, np.uint8)
    return RowBatch(fixed, columns)


def test_each_document_has_the_factor_of_its_language_and_source(tmp_path):
    path = tmp_path / "factors.json"
    factors = {"de web": "1", "sw web": "2", "sw old books": "5", "de-sw web": "7"}
    path.write_text(json.dumps({"factors": factors}))
    inputs = SimpleNamespace(file=lambda *_: RecordedFile(path))
    tokens = SimpleNamespace(languages=["de", "sw"], source_groups=["old books", "web"])
    documents = rows([0, 1, 1, 0], [[], [], [], [1]], [1, 1, 0, 1])
    alone = rows([1, 0], None, [0, 1])

    assert BalancedCopies(1).count(documents, tokens, inputs).tolist() == [1, 2, 5, 7]
    assert BalancedCopies(1).count(alone, tokens, inputs).tolist() == [5, 1]


def test_factors_are_read_as_exact_numbers(tmp_path):
    path = tmp_path / "factors.json"
    path.write_text(json.dumps({"factors": {"en web": "1/3"}}))
    assert read_factors(RecordedFile(path)) == {"en web": Fraction(1, 3)}
