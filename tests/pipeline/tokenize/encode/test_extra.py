"""Columns of records that a recipe declares travel to the view of a row and to the totals of the
manifest."""

import json
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.shards.set_table import set_table
from clozeline.pipeline.tokenize.encode.extra_totals import count_extra, merge_totals, select_extra
from clozeline.tools.shards.inspect_shard import view_of
from tests.pipeline.miniature import text, write_recipe

RECIPE = """
corpus: columns
seed: 3
heldout: {fraction: 0.1}
clean: {language: null, filters: []}
train_tokenizer: {name: byte_bpe, size: 500}
encode: {}
group: {}
corrupt: [{name: causal_lm, max_length: 64}]
plan: {unit_bytes: 4096, shard_bytes: 4096}
"""
LICENSES = ("cc0", "cc-by", "mit")


def run(folder, name, *words):
    rows = [
        {
            "text": text(number, 6 + number % 5),
            "license": LICENSES[number % 3],
            "score": number / 8,
            "secret": "x",
        }
        for number in range(40)
    ]

    del rows[0]["license"], rows[1]["score"]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = ["--config", str(write_recipe(folder, RECIPE)), f"input={folder / 'rows.jsonl'}"]

    assert main([*recipe, f"output={folder / name}", *words]) == 0

    return folder / name, rows


def test_declared_columns_are_in_the_view_of_a_row_and_in_the_manifest(tmp_path, capsys):
    output, rows = run(tmp_path, "out", "encode.extra=[license, score, grade]")

    assert "no document has grade (encode.extra)" in " ".join(capsys.readouterr().out.split())

    totals = Manifest.load(output / "encode" / "manifest.json").config["extra_totals"]
    licenses = Counter(row["license"] for row in rows if "license" in row)

    assert {
        name: amounts["documents"] for name, amounts in totals["license"]["values"].items()
    } == licenses

    scores = [row["score"] for row in rows if "score" in row]
    numbers = {
        "count": len(scores),
        "sum": math.fsum(scores),
        "min": min(scores),
        "max": max(scores),
    }

    assert totals["score"]["numbers"] == numbers
    assert totals["grade"]["documents"] == 0
    assert "secret" not in totals

    shown = str(view_of(output / "corrupt/causal_lm/train/manifest.json", 2))

    assert any(name in shown for name in LICENSES)
    assert "score" in shown
    assert "secret" not in shown

    sheet = set_table(Manifest.load(output / "encode" / "manifest.json"))
    shown = {str(name): str(value) for name, value in sheet.rows}

    assert "cc-by: 13 documents" in shown["license"]
    assert "from 0 to 4.875" in shown["score"]
    assert shown["grade"] == "no document has it"

    # the shards never change; the document table and the manifest only where a key is declared
    plain, _ = run(tmp_path, "plain")
    shards = sorted(path.name for path in (plain / "encode").glob("shard-*.arrow"))

    assert len(shards) > 1

    for name in shards:
        assert (plain / "encode" / name).read_bytes() == (output / "encode" / name).read_bytes()

    assert "extra" not in (plain / "encode" / "manifest.json").read_text()


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text("ab", max_size=2)
    | st.lists(st.integers(0, 3))
)


@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES), st.integers(0, 9)),
        max_size=30,
    )
)
def test_totals_of_parts_add_up_to_those_of_all(rows):
    keys = ("a", "b")
    chosen = [(select_extra(extra, keys), tokens) for extra, tokens in rows]
    parts = [count_extra(chosen[start::3], keys) for start in range(3)]

    assert merge_totals(parts, keys) == count_extra(chosen, keys)

    for key in keys:
        having = [(extra[key], tokens) for extra, tokens in rows if extra.get(key) is not None]
        total = count_extra(chosen, keys)[key]

        assert total["documents"] == len(having)

        numbers = [
            value for value, _ in having if isinstance(value, int) and not isinstance(value, bool)
        ]

        assert total["numbers"].get("count", 0) == len(numbers)

        others = sum(amounts["documents"] for amounts in total["values"].values())

        assert others + len(numbers) == len(having)


@pytest.mark.parametrize("count", [256, 257, 1000])
def test_values_beyond_a_bound_are_counted_together(count):
    rows = [(json.dumps({"a": f"v{number:04d}"}), 2) for number in range(count)]
    total = count_extra([*rows, rows[-1]], ["a"])["a"]
    assert len(total["values"]) == min(count, 256)
    assert total["others"] == {
        "documents": max(0, count - 256),
        "tokens": 2 * max(0, count - 256),
    }
    assert total["values"][f"v{count - 1:04d}"] == {"documents": 2, "tokens": 4}
