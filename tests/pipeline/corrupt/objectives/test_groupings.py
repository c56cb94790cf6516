"""An objective reads any grouping whose rows have what it needs."""

from itertools import accumulate

import numpy as np
import pytest

from clozeline import plugins
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.group.groupings import Context, build_grouping
from clozeline.pipeline.group.groupings.packed import PackedGrouping
from tests.pipeline.corruption_cases import EOS, FIRST_CONTENT, SEP, WORDS
from tests.pipeline.token_rows import documents
from tests.refusals import refused

NAME = f"{__name__}:BestFit"
A = FIRST_CONTENT
ROWS = [[A, A + 1, A + 2, A + 3], [A, A + 1], [A], [A, A + 1, A + 2]]
"""Documents, with separators 5, 3, 2 and 4 tokens long."""


class BestFit(PackedGrouping):
    """The longest document first, each into the fullest row that has room (arXiv 2404.10830)."""

    cuts_at_length = False

    def group(self, documents, minimum, context):
        sizes = documents.columns["token_ids"].lengths + 1
        rows = []
        for document in np.argsort(-sizes, kind="stable").tolist():
            room = [row for row in rows if sizes[[*row, document]].sum() <= self.options.length]
            row = max(room, key=lambda row: sizes[row].sum(), default=[])
            row.append(document)
            rows += [row] if len(row) == 1 else []
        self._bounds = [0, *accumulate(int(sizes[row].sum()) for row in rows)]
        return super().group(
            documents.take(np.array([document for row in rows for document in row])),
            minimum,
            context,
        )

    def row_bounds(self, *_):
        return np.array(self._bounds)


@pytest.fixture(autouse=True)
def allowed():
    plugins.allow(NAME)


def examples_of(name, **options):
    objective = build_objective(
        {"name": name, "grouping": NAME, "cross_documents": False, "max_length": 8, **options},
        WORDS,
    )
    spec = objective.grouping
    rows = documents(ROWS, [[0]] * 4, [[9]] * 4)
    grouped = build_grouping(spec, WORDS).group(rows, objective.minimum, Context(spec.label))
    return objective.corrupt(grouped.rows, np.zeros(len(grouped.rows), np.uint16), 1)[0]


def test_best_fit_packing_of_a_user_is_read_with_its_documents():
    found = examples_of("causal_lm")

    assert [row["input_ids"].tolist() for row in found] == [
        [A, A + 1, A + 2, A + 3, EOS, A, A + 1, EOS],
        [A, A + 1, A + 2, EOS, A, EOS],
    ]
    assert [row["document_starts"].tolist() for row in found] == [[0, 5], [0, 4]]
    rows = examples_of("masked_lm", max_length=10, grouping=NAME)

    assert [row["document_starts"].tolist() for row in rows] == [[0, 6], [0, 5]]
    assert [row["input_ids"].tolist().count(SEP) for row in rows] == [3, 3]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("causal_lm", {"add_bos": True}, "add_bos needs grouping: document"),
        ("mass", {"grouping": "parallel"}, "rows of parallel are pairs of texts"),
        ("causal_lm", {"grouping": "document", "separator": "sep"}, "such as packed"),
    ],
)
def test_what_its_rows_lack_is_refused(name, options, message):
    with refused(message):
        build_objective({"name": name, "grouping": NAME, **options}, WORDS)
