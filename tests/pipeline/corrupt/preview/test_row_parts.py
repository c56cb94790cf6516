"""Views of rows of two texts, against the columns of the row."""

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.preview.row_view import Pieces, row_parts
from clozeline.pipeline.corrupt.preview.view import Passage
from clozeline.pipeline.rows import Role, Row, Rows
from tests.pipeline.corruption_cases import vocabulary
from tests.pipeline.pair_cases import unmasked, window
from tests.shard_sets import roles_of

WORDS = vocabulary(1000)
ONE, TWO, OTHER = [200, 201, 202], [203, 204], [300, 301]


SHOW = Pieces(WORDS, 100)


def parts_of(row):
    return row_parts(SHOW, row, roles_of(row.columns) | {"sentence_starts": Role("start", "ids")})


def shown(parts, title):
    found = next(part for part in parts if part.title.startswith(title))
    assert isinstance(found, Passage)
    return found.text.plain.strip()


def spaced(ids):
    return " ".join(str(int(token)) for token in ids)


def examples(name, **options):
    rows = window([ONE, TWO], WORDS, 20, partner=OTHER, target=OTHER)
    found, _ = build_objective({"name": name, **options}, WORDS).corrupt(rows, np.arange(20, dtype=np.uint16), 1)
    return found


@pytest.mark.parametrize("name", ["next_sentence_prediction", "sentence_order_prediction", "translation_lm"])
def test_segments_are_parted(name):
    for row in examples(name):
        parts = parts_of(row)
        second = int(row["segment_starts"][1])
        original = unmasked(row)
        wanted = f"‖{spaced(original[:second])} ‖{spaced(original[second:])}"
        assert shown(parts, "original") == wanted


def test_windows_and_aligned_texts_of_sample_sets():
    rows = window([ONE, TWO], WORDS, partner=OTHER)
    row = Rows(rows.fixed, {name: rows.columns[name] for name in ("ids", "sentence_starts", "partner_ids")}).row(0)
    parts = parts_of(row)
    assert shown(parts, "ids") == f"|{spaced(ONE)} |{spaced(TWO)}"
    assert shown(parts, "partner_ids") == spaced(OTHER)
    rows = window([ONE, TWO], WORDS, target=OTHER)
    names = ("ids", "sentence_starts", "target_ids", "target_language")
    parts = parts_of(Rows(rows.fixed, {name: rows.columns[name] for name in names}).row(0))
    assert (shown(parts, "ids"), shown(parts, "target_ids")) == (f"|{spaced(ONE)} |{spaced(TWO)}", spaced(OTHER))


def test_compared_texts_and_tasks():
    parts = parts_of(examples("sentence_comparison").row(0))
    assert shown(parts, "input_ids (") == spaced([1, *ONE, 2])
    assert shown(parts, "input_ids_b (") == spaced([1, *TWO, 2])
    parts = parts_of(examples("text_to_text").row(0))
    assert shown(parts, "input_ids") == spaced([*ONE, *TWO, 5])
    assert shown(parts, "target_ids") == spaced([*OTHER, 5])


def test_signs_stand_where_the_parts_of_their_own_text_start():
    lists = {"input_ids": [200, 201, 202], "target_ids": [203, 204], "document_starts": [0, 2],
             "target_document_starts": [0, 1]}  # fmt: skip
    parts = parts_of(Row({}, {name: np.array(values) for name, values in lists.items()}))
    assert (shown(parts, "input_ids"), shown(parts, "target_ids")) == ("▌200 201 ▌202", "203 204")
