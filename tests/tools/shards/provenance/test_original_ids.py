"""A document is found by the id of its record after the documents between stages are gone."""

import json
import shutil

import pytest
from tokenizers import Tokenizer

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.inspect_shard import view_of
from clozeline.tools.shards.where_is import main as where_is
from tests.pipeline.miniature import text, write_recipe

RECIPE = """
corpus: named
seed: 3
heldout: {fraction: 0}
clean: {language: null, filters: [{name: gopher_quality, words: [5, 100000]}]}
train_tokenizer: {name: byte_bpe, size: 500}
encode: {extra: [license]}
group: {}
corrupt: [{name: causal_lm, max_length: 64}]
plan: {unit_bytes: 4096, shard_bytes: 4096}
"""
ROWS = 24


def identity(number):
    """What record NUMBER calls itself: a text, a number, or nothing."""
    return (f"page-{number:02d}", 100 + number, None)[number % 3]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    rows = [
        {
            "text": "Too short." if number == 6 else f"Marker{number:03d}q. {text(number, 6)}",
            "url": f"http://site.example/{number}",
            "id": identity(number),
            "license": f"cc-{number}",
        }
        for number in range(ROWS)
    ]
    lines = (json.dumps({key: row[key] for key in row if row[key] is not None}) for row in rows)
    (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    words = [f"input={folder / 'rows.jsonl'}", f"output={folder / 'out'}"]

    assert main(["--config", str(write_recipe(folder, RECIPE)), *words]) == 0

    for documents in (folder / "out").glob("*/documents"):
        shutil.rmtree(documents)
    return folder / "out"


def texts_of_rows(output):
    """Each row of the set as text, by shard, block and row."""
    tokenizer = Tokenizer.from_file(str(output / "train_tokenizer/tokenizer/tokenizer.json"))
    shards = open_shards(output / "corrupt/causal_lm/train")
    found = {}
    for block, (shard, inner) in enumerate(
        zip(shards.index.shard.tolist(), shards.index.block.tolist(), strict=True)
    ):
        rows = shards.read_block(block)
        for number in range(len(rows)):
            ids = rows.row(number).columns["input_ids"].tolist()
            place = (shards.manifest.shards[shard].path, inner, number)
            found[place] = tokenizer.decode(ids)
    return found


def test_rows_of_an_id_are_those_with_the_text_of_its_record(output, capsys):
    texts = texts_of_rows(output)
    capsys.readouterr()
    named = [number for number in range(ROWS) if identity(number) is not None and number != 6]

    for number in named:
        words = [str(output / "corrupt/causal_lm/train"), f"id={identity(number)}"]

        assert where_is([*words, "json=true"]) == 0

        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        places = {(one["shard"], one["block"], one["row"]) for one in found}

        assert {
            place for place, shown in texts.items() if f"Marker{number:03d}q" in shown
        } <= places
        # rows are full of many documents, or of a part of one: these have all parts of this record
        whole = f"Marker{number:03d}q. {text(number, 6)}"
        parts = [
            max(len(part) for part in texts[place].split("</s>") if part in whole)
            for place in places
        ]

        assert min(parts) > 0
        assert sum(parts) == len(whole)
        assert where_is(words) == 0
        assert f", id {identity(number)}, license cc-{number}\n" in capsys.readouterr().out

    assert len(named) == 15


def test_many_ids_are_found_by_their_beginning(output, capsys):
    assert where_is([str(output / "corrupt/causal_lm/train"), "id=page-0*"]) == 0

    said = capsys.readouterr().out

    assert {number for number in range(ROWS) if f"id page-{number:02d}," in said} == {0, 3, 9}


def test_the_reason_is_told_for_the_id_of_a_dropped_record(output, capsys):
    assert where_is([str(output / "corrupt/causal_lm/train"), "id=page-06"]) == 64
    assert "id=page-06: clean dropped it: " in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("folder", ["encode", "group/*/train", "corrupt/causal_lm/train"])
def test_a_row_is_shown_with_the_id_and_the_metadata_of_its_record(output, folder):
    (path,) = output.glob(folder)
    for number in range(len(open_shards(path))):
        (sheet,) = (
            part
            for part in view_of(path, number).parts
            if getattr(part, "title", "") == "where it comes from"
        )
        document = dict(sheet.rows)["document"]
        _, record = document.split("license cc-")
        named = "" if identity(int(record)) is None else f", id {identity(int(record))}"

        assert document.endswith(f", http://site.example/{record}{named}, license cc-{record}")
