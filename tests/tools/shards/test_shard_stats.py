"""Counts and tables of a set and of a run, computed a second time.

The documents nearest to a threshold.
"""

import json
import re
from collections import Counter

import numpy as np
import pytest

from clozeline.configuration.config import load_config
from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.filter_report import collect_reasons
from clozeline.tools.shards.filter_report import main as filter_report
from clozeline.tools.shards.provenance.document_table import vocabulary_of_manifest
from clozeline.tools.shards.provenance.set_statistics import tables, tally
from clozeline.tools.shards.shard_stats import main as shard_stats
from tests.matrices import mark_slow_after
from tests.pipeline.clean.cleaning import run_clean
from tests.pipeline.run_counts import check_run
from tests.pipeline.task_files import (
    make_question_sets,
    make_sets,
    make_tagged_sets,
    make_text_sets,
)
from tests.shard_sets import IDS, list_column, write_set
from tests.shard_sets import rows as rows_of
from tests.tools.small_run import example_sets, plain_text


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_token_and_sample_sets_have_figures_too(shard_sets, capsys):
    for manifest in (shard_sets / "encode", example_sets(shard_sets)["bart"][1]):
        assert shard_stats([str(manifest)]) == 0
    shown = plain_text(capsys.readouterr().out)

    assert "sentence_starts" in shown

    (count,) = open_shards(shard_sets / "encode").manifest.totals.tokens_by_source.values()

    assert f"default {count:,} 100.00" in shown


def id_pieces(shards):
    return TokenRenderer(vocabulary_of_manifest(shards.manifest.tokenizer))


SIZES = (3, 9, 8, 12, 10, 25, 11, 40)


def run(tmp_path, *filters):
    path = tmp_path / "texts.jsonl"
    lines = [
        json.dumps({"text": f"grade{chr(97 + size % 26)} " + "the and words " * size})
        for size in SIZES
    ]
    path.write_text("\n".join(lines) + "\n")
    run_clean(
        str(path),
        tmp_path / "out",
        {
            "language": None,
            "filters": list(filters),
            "keep_text": 1.0,
        },
    )
    return tmp_path / "out"


def test_the_nearest_documents_of_each_side(tmp_path):
    """A text has three words a unit of its size, and one."""
    out = run(tmp_path, {"name": "gopher_quality", "words": [30, 100], "stop_words": 0})
    reasons, measured = collect_reasons(
        out, load_config(Recipe, out / "clean" / "config.yaml"), 2, 100
    )
    short = reasons["gopher_short_doc"]
    long = reasons["gopher_long_doc"]

    assert (measured, short.rejected, long.rejected) == (4, 3, 1)
    assert [each.shown for each in sorted(short.below)] == ["25 words < 30", "28 words < 30"]
    assert [each.shown for each in sorted(short.above)] == ["34 words >= 30", "31 words >= 30"]
    assert [each.shown for each in long.below] == ["121 words > 100"]
    assert [each.shown for each in sorted(long.above)] == ["37 words <= 100", "76 words <= 100"]

    offset = (tmp_path / "texts.jsonl").read_text().index('{"text": "gradeo')

    assert long.below[0].origin == f"default/texts.jsonl at {offset:,}"
    assert long.below[0].text.startswith("gradeo the and words")


def test_tables_and_page(tmp_path, capsys):
    out = run(
        tmp_path, {"name": "gopher_quality", "words": [30, 100], "stop_words": 0}, "c4_quality"
    )

    assert filter_report([str(out), "--html", str(tmp_path / "page.html")]) == 0

    shown = capsys.readouterr().out

    assert "8 documents and records rejected, 0 kept documents measured" in shown
    assert re.search(r"reason +. number +. decided by", shown)
    assert "gopher_quality.words: gopher_short_doc" in shown

    page = (tmp_path / "page.html").read_text()

    assert "28 words &lt; 30" in page
    assert "Legend" not in page

    (record,) = (out / "clean" / "records" / "main").glob("*.json")
    record.unlink()

    assert filter_report([str(out)]) == 65
    assert f"{record}: the record of a unit is missing or damaged; run `" in capsys.readouterr().err


@pytest.mark.parametrize(
    "letters", [(0, "threshold"), (80, "threshold and long_threshold"), (400, "long_threshold")]
)
def test_the_key_that_decided_on_the_language_is_named(tmp_path, capsys, letters):
    """Lowering it to what the report shows keeps the document: of long texts, `threshold` alone
    decides nothing."""
    size, key = letters
    text = "It rained all day in the valley, and nobody came to the door until the evening. " * (
        1 + size // 80
    )
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"text": text.strip()}) + "\n" + json.dumps({"text": "Все люди " * 9})
    )
    language = {"name": "py3langid", "keep": ["en"], "threshold": 0.999999, "long_threshold": 1.0}

    def cleaned(name, **lower):
        clean = {"language": {**language, **lower}, "filters": [], "keep_text": 1.0}
        return run_clean(str(tmp_path / "a.jsonl"), tmp_path / name, clean)

    assert cleaned("out").nonzero("rejected") == {"language": 1, "language_score": 1}
    assert filter_report([str(tmp_path / "out")]) == 0

    shown = " ".join(capsys.readouterr().out.split())

    assert f" by {key}" in shown
    assert "language.keep" in shown
    assert "no filter" not in shown

    lower = {
        "threshold": {"threshold": 0.1},
        "long_threshold": {"long_threshold": 0.1, "threshold": 0.1},
    }
    kept = cleaned("again", **lower.get(key, {"threshold": 0.1, "long_threshold": 0.1}))

    assert len(kept.documents) == 1


def test_another_folder_is_refused(tmp_path, capsys):
    assert filter_report([str(tmp_path)]) == 64
    assert "expected the output folder of a pipeline run" in capsys.readouterr().err


@pytest.fixture(scope="module")
def made(shard_sets):
    shards = open_shards(example_sets(shard_sets)["unilm_mixture"][0])
    found = {
        one.title.partition(" (")[0]: one
        for one in tables(shards, tally(shards), id_pieces(shards))
    }
    return shards, [*shards], found


def test_lengths_are_those_of_the_rows(made):
    _, rows, found = made

    for name, smallest, mean, median, ninety, almost, largest, total in found["lengths"].rows:
        lengths = sorted(len(row[name]) for row in rows)
        assert (smallest, largest, total) == (lengths[0], lengths[-1], sum(lengths))
        assert mean == pytest.approx(sum(lengths) / len(rows))
        assert [median, ninety, almost] == [
            lengths[-(-len(rows) * per // 100) - 1] for per in (50, 90, 99)
        ]


def test_labels_and_coverage_are_those_of_the_rows(made):
    shards, rows, found = made
    tokens, labels = (sum(len(row[name]) for row in rows) for name in ("input_ids", "label_ids"))
    ((name, count, mean, share),) = found["labels"].rows

    assert (name, count, mean) == (
        "label_ids",
        labels,
        pytest.approx(labels / len(rows)),
    )
    assert share == pytest.approx(100 * labels / tokens)

    kinds = found["input at label positions"].rows

    assert sum(row[1] for row in kinds) == labels
    assert all(row[2] == pytest.approx(100 * row[1] / labels) for row in kinds)

    for name, used, share, half, ninety, almost, frequent in found["vocabulary coverage"].rows:
        counts = Counter(token for row in rows for token in row[name].tolist())

        assert used == len(counts)
        assert share == pytest.approx(100 * used / shards.manifest.tokenizer.vocab_size)

        ordered = np.cumsum(sorted(counts.values(), reverse=True))

        assert [half, ninety, almost] == [
            int(np.flatnonzero(100 * ordered >= per * ordered[-1])[0]) + 1 for per in (50, 90, 99)
        ]

        best = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:8]

        assert frequent == " ".join(str(token) for token, _ in best)


def test_sizes_are_those_of_the_rows(made):
    shards, rows, found = made
    facts = dict(found["set"].rows)
    sizes = [shard.rows for shard in shards.manifest.shards]
    size = sum(shards.shard_path(number).stat().st_size for number in range(len(sizes)))
    tokens = sum(len(row["input_ids"]) for row in rows)

    assert facts["rows"].startswith(f"{len(rows):,} with {tokens:,} tokens, ")
    assert facts["files"].startswith(
        f"{len(sizes)} shards of {min(sizes)} to {max(sizes)} rows, {len(shards.index)} blocks of "
    )
    assert f"{size:,} bytes" in facts["files"]
    assert facts["files"].endswith(f", {size / tokens:.2f} a token")


def test_columns_of_a_few_numbers_are_classes(tmp_path):
    content = rows_of([1, 2, 3, 4, 5])
    lists = {"kind": [[7], [7], [2], [7], [2]], "single": [[1]] * 5, "several": [[1, 2]] * 5}
    for name, values in lists.items():
        content.columns[name] = Ragged.from_lists(values, np.uint8)
    columns = (IDS, *(list_column(name, "uint8") for name in lists))
    shards = write_set(tmp_path, [content], columns=columns)
    found = {one.title: one.rows for one in tables(shards, tally(shards), id_pieces(shards))}

    assert found["rows by kind (kind)"] == (("2", 2, 40), ("7", 3, 60))
    assert [title for title in found if "rows by" in title] == ["rows by kind (kind)"]


def test_labels_and_classes_agree_with_a_loop_over_rows(shard_sets):
    shards = open_shards(example_sets(shard_sets)["unilm_mixture"][0])
    found = tally(shards)
    kinds = Counter()
    attention = Counter()

    for row in shards:
        attention.update(row["attention"].tolist())

        for place, label in zip(row["label_positions"], row["label_ids"], strict=True):
            there = row["input_ids"][place]
            kinds[
                0
                if there == shards.manifest.tokenizer.special_ids["mask"]
                else 1
                if there == label
                else 2
            ] += 1

    assert dict(enumerate(found.labels.tolist())) == kinds
    assert min(kinds.values()) > 0
    assert +Counter(dict(enumerate(found.values["attention"].tolist()))) == attention


STAGES = ["clean", "dedup", "train_tokenizer", "encode", "group", "corrupt"]


def test_a_run_agrees(whole):
    assert check_run(whole).keys() == {*STAGES}


@pytest.mark.parametrize(
    "make", mark_slow_after(1, [make_sets, make_tagged_sets, make_question_sets, make_text_sets])
)
def test_the_counts_of_a_task_agree(tmp_path, make):
    assert check_run(make(tmp_path).parents[1])
