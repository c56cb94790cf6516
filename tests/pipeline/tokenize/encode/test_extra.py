"""Columns of records that a recipe declares travel to the document table and the view of a row."""

import json

from pyarrow import feather

from clozeline.pipeline.execution.recipe_command import main
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

    del rows[0]["license"], rows[1]["score"], rows[2]["license"], rows[2]["score"]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = ["--config", str(write_recipe(folder, RECIPE)), f"input={folder / 'rows.jsonl'}"]

    assert main([*recipe, f"output={folder / name}", *words]) == 0

    return folder / name, rows


def test_declared_columns_are_in_the_document_table_and_in_the_view_of_a_row(tmp_path, capsys):
    output, rows = run(tmp_path, "out", "encode.extra=[license, score, grade]")

    assert "no document has grade (encode.extra)" in " ".join(capsys.readouterr().out.split())

    stored = [
        json.loads(content or "{}")
        for table in (output / "encode").glob("documents-*.arrow")
        for content in feather.read_table(table)["extra"].to_pylist()
    ]
    declared = [{key: row[key] for key in ("license", "score") if key in row} for row in rows]
    assert sorted(map(str, stored)) == sorted(map(str, declared))

    shown = str(view_of(output / "corrupt/causal_lm/train/manifest.json", 2))

    assert any(name in shown for name in LICENSES)
    assert "score" in shown
    assert "secret" not in shown

    # the shards never change; the document table only where a key is declared
    plain, _ = run(tmp_path, "plain")
    shards = sorted(path.name for path in (plain / "encode").glob("shard-*.arrow"))

    assert len(shards) > 1

    for name in shards:
        assert (plain / "encode" / name).read_bytes() == (output / "encode" / name).read_bytes()

    assert "extra" not in (plain / "encode" / "manifest.json").read_text()
