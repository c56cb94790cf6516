"""Pairs from packed rows whose documents are kept apart: each token of both texts is of the document that is said."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from clozeline.pipeline.rows import Example, Ragged, Row, Rows
from tests.pipeline.corrupt.objectives.runner import corrupt, wide
from tests.pipeline.corruption_cases import EOS, FIRST_CONTENT, fixed_columns, vocabulary

WIDE = vocabulary(20_000)
STEP = 200
"""Ids of a document: its tokens are no other document's."""
SIZES = [[30], [1, 1, 1, 1], [1, 40, 2, 17], [60, 1, 60], [3, 4, 5, 6, 7, 8, 9], [90, 90, 2], [2] * 40]

SPANS: dict[str, Any] = {
    "name": "span_corruption",
    "input_length": 400,
    "noise_density": 0.5,
    "mean_noise_span_length": 4.0,
}
CASES: dict[str, dict[str, Any]] = {
    "span_corruption": SPANS,
    "span_corruption, mode": {**SPANS, "final_sentinel": True, "mode": "R"},
    "causal_lm": {"name": "causal_lm", "architecture": "encoder_decoder", "separator": "none"},
}  # fmt: skip
each = pytest.mark.parametrize("case", CASES)


def packed_rows() -> Rows:
    """Rows of documents of these sizes; each has sentences of three tokens."""
    ids = [np.concatenate([FIRST_CONTENT + STEP * i + np.arange(n) for i, n in enumerate(sizes)]) for sizes in SIZES]
    starts = [np.cumsum([0, *sizes[:-1]]) for sizes in SIZES]
    sentences = [
        [start + place for start, size in zip(first, sizes, strict=True) for place in range(0, size, 3)]
        for first, sizes in zip(starts, SIZES, strict=True)
    ]
    columns = {
        "ids": Ragged.from_lists(ids, WIDE.id_dtype),
        "sentence_starts": Ragged.from_lists(sentences, np.uint16),
        "document_starts": Ragged.from_lists(starts, np.uint16),
    }
    return Rows(fixed_columns(np.arange(7, 7 + len(SIZES), dtype=np.uint64)), columns)


def examples_of(case: str) -> list[tuple[Row, Example, Any]]:
    """Samples, their examples under ten variants, and the objective."""
    entry = {"grouping": "packed", "cross_documents": False, **CASES[case]}
    objective = wide(entry.pop("name"), WIDE, **entry)
    rows, found = packed_rows(), []
    for variant in range(10):
        examples, skips = objective.corrupt(rows, np.full(len(rows), variant, np.uint16), seed=1)
        kept = np.flatnonzero(skips == 0).tolist()
        assert len(kept) >= 6
        found += [(rows.row(row), examples.row(row), objective) for row in kept]
    return found


def parts(example: Example, column: str, starts: str) -> list[list[int]]:
    """The tokens of each document."""
    return [example[column][a:b].tolist() for a, b in pairwise([*example[starts].tolist(), len(example[column])])]


def of_text(ids: list[int]) -> list[int]:
    return [one for one in ids if one >= FIRST_CONTENT]


@each
def test_every_token_is_of_its_document(case: str) -> None:
    for sample, example, objective in examples_of(case):
        number = len(sample["document_starts"])
        texts = parts(sample, "ids", "document_starts")
        sides = [parts(example, "input_ids", "document_starts")]
        sides.append(parts(example, "target_ids", "target_document_starts"))
        for side in sides:
            assert len(side) == number
            for document, ids in enumerate(side):
                assert set(of_text(ids)) <= set(texts[document])
        assert all(sides[0]), "each document has a place that its targets can read"
        np.testing.assert_array_equal(objective.uncorrupt(example), objective.original(sample, example))


@each
def test_the_starts_are_features_only_where_documents_are_kept_apart(case: str) -> None:
    entry = {"grouping": "packed", **CASES[case]}
    apart, across = (wide(entry["name"], WIDE, **{key: entry[key] for key in entry if key != "name"}, cross_documents=c)
                     for c in (False, True))  # fmt: skip
    names = [[feature.name for feature in objective.features] for objective in (apart, across)]
    assert names[0] == [*names[1], "document_starts", "target_document_starts"]
    assert list(corrupt_any(apart).columns) == names[0]
    assert apart.grouping == across.grouping


def corrupt_any(objective: Any) -> Rows:
    rows = packed_rows()
    return objective.corrupt(rows, np.zeros(len(rows), np.uint16), 1)[0]  # type: ignore[no-any-return]


def alone(row: Row, document: int) -> list[int]:
    return parts(row, "ids", "document_starts")[document]


def test_spans_of_a_document_fill_its_sentinels() -> None:
    """Each document's input and target give back its text by themselves, and a span is cut nowhere but at documents."""
    sentinels, shorter = set(WIDE.sentinels), 0
    for sample, example, objective in examples_of("span_corruption"):
        inputs = parts(example, "input_ids", "document_starts")
        targets = parts(example, "target_ids", "target_document_starts")
        for document, (given, wanted) in enumerate(zip(inputs, targets, strict=True)):
            spans: dict[int, list[int]] = {}
            for one in wanted:
                if one in sentinels:
                    spans[one] = []
                elif one != EOS:
                    spans[list(spans)[-1]].append(one)
            restored = [token for one in given if one != EOS for token in spans.get(one, [one])]
            assert restored == alone(sample, document)
            assert all(spans.values())
        n = len(sample["ids"])
        noise, marks = (int(one[0]) for one in objective.plan(np.array([n])))
        found = sum(one in sentinels for one in example["target_ids"].tolist())
        assert found == marks
        assert len(of_text(example["target_ids"].tolist())) <= noise
        shorter += len(of_text(example["target_ids"].tolist())) < noise
    assert shorter


def test_rows_of_one_document_are_as_without_isolation() -> None:
    options = {key: value for key, value in SPANS.items() if key != "name"}
    rows = packed_rows().take(np.array([0]))
    apart, across = (
        corrupt(wide("span_corruption", WIDE, **options, cross_documents=cross), rows) for cross in (False, True)
    )
    for column, lists in across.columns.items():
        np.testing.assert_array_equal(apart.columns[column].values, lists.values)
