"""Inputs with `role: compare` win, whatever the rule; only documents of other inputs are dropped,
and only these are written. What changes ends as a fresh run."""

import json

import pytest

from clozeline.pipeline.execution import shuffle
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_documents, read_rejects
from tests.pipeline.dedup.dedup_documents import edited, prose
from tests.pipeline.run_counts import check_run

RECIPE = """
corpus: growing
plan: {unit_bytes: 8192, shard_bytes: 8192}
clean: {language: null, filters: []}
"""
OLD = [prose(seed) for seed in range(24)]
LONGER = [f"{edited(prose(100 + n), 70)} longer" for n in range(3)]
OTHERS = [prose(103 + n) for n in range(5)]
TEXTS = {
    "new": [
        *OLD[:6],
        *(f"{edited(OLD[n], 60, 61)} and a longer end" for n in range(6, 12)),
        *(prose(100 + n) for n in range(3)),
        *LONGER,
        *OTHERS,
        *(f"{edited(prose(200 + n), 70)} longer" for n in range(5)),
    ],
    "old": [*OLD, *OLD[:2]],
    "older": [*OLD[20:], *(prose(200 + n) for n in range(8))],
}


def run(folder, texts, *compared, output="out", options="dedup: {}"):
    """Run a recipe over a file for each name; some are only compared. Return the exit code."""
    (folder / "r.yaml").write_text(RECIPE + options)
    inputs = []
    for name, lines in texts.items():
        path = folder / f"{name}.jsonl"
        if not path.exists():
            path.write_text("".join(json.dumps({"text": text}) + "\n" for text in lines))
        role = {"role": "compare"} if name in compared else {}
        inputs.append({"path": str(path), **role})
    words = [f"input={json.dumps(inputs)}", f"output={folder / output}"]
    return main(["--quiet", "--config", str(folder / "r.yaml"), *words])


def read(output, name, reader):
    return [row for path in sorted((output / "dedup" / name).glob("*")) for row in reader(path)]


def left(output):
    return sorted(row.text for row in read(output, "documents", read_documents))


def test_copies_of_compared_documents_are_dropped_even_if_longer(tmp_path):
    assert run(tmp_path, TEXTS, "old", "older") == 0
    assert check_run(tmp_path / "out")

    reasons = sorted(row.reason for row in read(tmp_path / "out", "rejects", read_rejects))
    counts = json.loads((tmp_path / "out/dedup/report.json").read_text())["counts"]

    assert left(tmp_path / "out") == sorted([*LONGER, *OTHERS])
    assert reasons == ["exact_duplicate"] * 6 + ["near_duplicate"] * 14
    assert counts["for_comparison"] == 26 + 12


def test_an_addition_takes_the_units_of_the_earlier_run(tmp_path):
    """The old output stays as it is, and no old text is cleaned again."""
    old = {"old": TEXTS["old"], "older": TEXTS["older"]}
    assert run(tmp_path, old, output="web") == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "web").rglob("*.arrow")}
    options = f"dedup: {{}}\nreuse: [{tmp_path / 'web'}]"

    assert run(tmp_path, TEXTS, "old", "older", output="added", options=options) == 0
    assert run(tmp_path, TEXTS, "old", "older", output="fresh") == 0
    assert left(tmp_path / "added") == left(tmp_path / "fresh") == sorted([*LONGER, *OTHERS])
    assert {path: path.stat().st_mtime_ns for path in before} == before
    made = [
        {path.name: json.loads(path.read_text())["made"] for path in folder.iterdir()}
        for output in ("web", "added")
        for folder in [tmp_path / output / "clean/records/main"]
    ]
    assert made[0].items() < made[1].items(), "a record that is taken keeps its time"


def test_lines_of_compared_documents_are_neither_counted_nor_removed(tmp_path):
    menu = "Home and contact and imprint"
    texts = {"old": [f"{menu}\n{prose(n)}" for n in range(4)], "new": [f"{menu}\n{prose(10)}"]}
    assert run(tmp_path, texts, "old", options="dedup: {lines: {}}") == 0
    assert left(tmp_path / "out") == texts["new"]


def files(count, copies=0, seed=0):
    """A text for each file: near copies, a copy of the first of them, and others."""
    near = [edited(prose(seed + n), 9) for n in range(copies)]
    found = near + near[:1] + [prose(seed + n) for n in range(count)]
    return {f"{n:03}-{seed}": [text] for n, text in enumerate(found)}


@pytest.mark.parametrize(
    ("before", "after", "dedup"),
    [
        ([TEXTS], [TEXTS, "old"], "{}"),
        ([TEXTS], [TEXTS], "{near: null}"),
        ([files(14)], [files(40)], "{}"),  # 2 shards, then 8
        ([files(5)], [files(6)], "{}"),  # one more in the last bundle
        ([files(14)], [files(4)], "{}"),  # 1 shard
        ([files(3, 1, 18)], [files(10, 1, 18)], "{}"),  # 1 shard, then 2
    ],
)
def test_what_changes_ends_with_the_files_and_counts_of_a_fresh_run(
    tmp_path, monkeypatch, before, after, dedup
):
    """Of the same texts, none is cleaned or hashed again. The files of shuffles are bundled."""
    monkeypatch.setattr(shuffle, "_BUNDLE_FILES", 2)
    monkeypatch.setattr(shuffle, "_BUNDLED_OPENS", 4)

    def read_all(given, output, dedup):
        assert run(tmp_path, *given, output=output, options=f"dedup: {dedup}") == 0
        stage = tmp_path / output / "dedup"
        kept = {
            path: path.stat().st_mtime_ns
            for name in ("clean/records/main", "dedup/records/exact-hashes")
            for path in (tmp_path / output / name).iterdir()
        }
        found = {path.relative_to(stage): path.read_bytes() for path in stage.rglob("*/*.arrow")}
        return kept, found, json.loads((stage / "report.json").read_text())["counts"]

    earlier, *_ = read_all(before, "out", "{}")
    kept, *found = read_all(after, "out", dedup)

    assert found == [*read_all(after, "fresh", dedup)[1:]]
    assert before[0] != after[0] or kept == earlier


@pytest.mark.parametrize(
    ("options", "message"),
    [("dedup: {exact: null, near: null, lines: {}}", "both are null"), ("", "add `dedup: {}`")],
)
def test_a_role_that_no_stage_reads_is_refused(tmp_path, capsys, options, message):
    assert run(tmp_path, {"old": OLD}, "old", options=options) == 64
    assert message in capsys.readouterr().err
