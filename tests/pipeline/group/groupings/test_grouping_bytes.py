"""Rows of a sample set change only with the VERSION of its grouping, and with nothing else that a
recipe says."""

import hashlib
import json
from pathlib import Path

import pytest

from clozeline.pipeline.group.groupings import Context, GroupingSpec, MinimumRow, build_grouping
from clozeline.pipeline.registries import GROUPINGS
from tests.pipeline.corrupt.objectives.golden import write_golden
from tests.pipeline.corruption_cases import vocabulary
from tests.pipeline.token_rows import random_documents

GOLDEN = Path(__file__).parent / "golden.json"
WORDS = vocabulary(1000)
PARTS = [[20, 400_000], [64, 600_000]]
CASES = {
    "packed": {"name": "packed", "length": 64, "separator": "eos"},
    "packed_mixture": {"name": "packed", "length": 64, "parts": PARTS},
    "full_sentences": {"name": "full_sentences", "length": 64, "separator": "eos"},
    "full_sentences_mixture": {"name": "full_sentences", "length": 64, "parts": PARTS},
    "document": {"name": "document", "length": 64},
    "document_mixture": {"name": "document", "length": 64, "parts": PARTS},
    "sentence_pair": {"name": "sentence_pair", "length": 64, "short_rate": 0.1, "partner": True},
    "sentence_order": {"name": "sentence_pair", "length": 64, "short_rate": 0.1, "partner": False},
    "parallel": {"name": "parallel", "length": 64, "cut": "longer"},
    "text_to_text": {
        "name": "parallel",
        "length": 40,
        "cut": "source",
        "target_length": 60,
        "sources": [["b", 40, 1_000_000], ["a", 30, 500_000]],
    },
}
DESCRIBED = tuple(CASES)
CASES |= {
    name: {"name": name, "length": 64}
    for name in set(GROUPINGS.available()) - {case["name"] for case in CASES.values()}
}


def digest(case, seed=1):
    options = dict(CASES[case])
    spec = GroupingSpec.of(options.pop("name"), options)
    context = Context(spec.label, seed, ("a", "b", "c"))
    grouped = build_grouping(spec, WORDS).group(
        random_documents(60, 200, seed=1), MinimumRow(), context
    )
    found = hashlib.sha256(f"{spec.label} {json.dumps(grouped.counts, sort_keys=True)}".encode())
    return _add(found, grouped.rows)


def golden(case):
    return {
        "version": GROUPINGS.load_class(CASES[case]["name"]).VERSION,
        "sha256": digest(case),
    }


def _add(found, rows):
    for name, values in sorted(rows.fixed.items()):
        found.update(f"{name} {values.dtype.str}".encode() + values.tobytes())
    for name, column in sorted(rows.columns.items()):
        found.update(
            f"{name} {column.values.dtype.str}".encode()
            + column.values.tobytes()
            + column.offsets.tobytes()
        )

    return str(found.hexdigest())


@pytest.mark.parametrize("case", CASES)
def test_golden_bytes(case):
    """Bytes of a grouping change only with its VERSION; then this file changes with it."""
    assert json.loads(GOLDEN.read_text()).get(case) == golden(case), "run `make objectives`"


@pytest.mark.parametrize("case", DESCRIBED)
def test_only_what_is_drawn_depends_on_the_seed(case):
    draws = case in ("sentence_pair", "sentence_order", "text_to_text") or case.endswith("_mixture")
    assert (digest(case) != digest(case, seed=2)) == draws


if __name__ == "__main__":
    write_golden(GOLDEN, CASES, golden)
