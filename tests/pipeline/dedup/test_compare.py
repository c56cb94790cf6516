"""Inputs with `role: compare` win, whatever the rule; only documents of other inputs are dropped,
and only these are written."""

import json

import numpy as np
import pytest

from clozeline.pipeline.dedup.parts import COMPARED_PRIORITY
from clozeline.pipeline.dedup.representatives import choose_representatives
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_documents, read_rejects
from tests.pipeline.dedup.dedup_documents import edited, prose
from tests.pipeline.run_counts import check_run

RECIPE = """
corpus: NAME
plan: {unit_bytes: 9000, shard_bytes: 15000}
clean: {language: null, filters: []}
dedup: {OPTIONS}
"""
OLD = [prose(seed) for seed in range(24)]
NEW = [
    *OLD[:6],
    *(f"{edited(OLD[n], 60, 61)} and a longer end" for n in range(6, 12)),
    *(prose(100 + n) for n in range(8)),
    *(f"{edited(prose(100 + n), 70)} longer" for n in range(3)),
]
KEPT = [*(f"{edited(prose(100 + n), 70)} longer" for n in range(3)), *NEW[15:20]]


def run(folder, output, texts, *inputs, options="", corpus=None):
    """Run a recipe over texts in two files and other inputs; return the exit code."""
    corpus = corpus or output
    (folder / "r.yaml").write_text(RECIPE.replace("OPTIONS", options).replace("NAME", corpus))
    (folder / output).mkdir(parents=True, exist_ok=True)
    for part in range(2):
        lines = [json.dumps({"text": text}) for text in texts[part::2]]
        path = folder / output / f"{part}.jsonl"
        if not path.exists():
            path.write_text("\n".join(lines) + "\n")
    found = [{"path": f"{folder / output}/*.jsonl"}, *inputs]
    words = [f"input={json.dumps(found)}", f"output={folder / output / 'out'}"]
    return main(["--quiet", "--config", str(folder / "r.yaml"), *words])


def compared(folder, output, **keys):
    path = folder / output / "out/dedup/documents"
    return {"path": str(path), "exported": True, "source": output, "role": "compare", **keys}


def read(output, folder, reader):
    return [row for path in sorted((output / folder).glob("*")) for row in reader(path)]


def left(output):
    return sorted(row.text for row in read(output, "dedup/documents", read_documents))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two finished outputs, `old` and `again`, and `new`, which compares with both."""
    folder = tmp_path_factory.mktemp("compare")
    assert run(folder, "old", [*OLD, *OLD[:2]]) == 0
    assert run(folder, "again", [*OLD[20:], *(prose(200 + n) for n in range(8))]) == 0
    texts = [*NEW, *(f"{edited(prose(200 + n), 70)} longer" for n in range(5))]
    assert run(folder, "new", texts, *(compared(folder, name) for name in ("old", "again"))) == 0
    assert check_run(folder / "new/out")
    return folder


def test_copies_of_compared_documents_are_dropped_even_if_longer(folder):
    output = folder / "new/out"
    rejected = read(output, "dedup/rejects", read_rejects)
    kept = {
        row.uid.hex()
        for name in ("old", "again")
        for row in read(folder / name / "out", "dedup/documents", read_documents)
    }
    counts = json.loads((output / "dedup/report.json").read_text())["counts"]
    reasons = sorted(row.reason for row in rejected)

    assert left(output) == sorted(KEPT)
    assert reasons == ["exact_duplicate"] * 6 + ["near_duplicate"] * 14
    assert sum(row.detail in kept for row in rejected) == 17
    assert counts["for_comparison"] == 24 + 12
    assert counts["documents_in"] == counts["for_comparison"] + len(rejected) + len(KEPT)


def test_lines_of_compared_documents_are_neither_counted_nor_removed(tmp_path):
    menu = "Home and contact and imprint"
    old = [f"{menu}\n{prose(n)}" for n in range(4)]
    assert run(tmp_path, "old", old) == 0
    new = [f"{menu}\n{prose(10)}"]
    assert run(tmp_path, "new", new, compared(tmp_path, "old"), options="lines: {}") == 0
    assert left(tmp_path / "new/out") == new


def test_a_role_that_changes_makes_the_output_of_a_fresh_run(tmp_path):
    """Texts are not cleaned, hashed or signed again."""
    lines = [json.dumps({"text": text}) for text in OLD[:8]]
    (tmp_path / "old.jsonl").write_text("\n".join(lines) + "\n")

    def changed(output, role):
        extra = {"path": str(tmp_path / "old.jsonl"), "source": "old"} | role
        assert run(tmp_path, output, NEW, extra, corpus="new") == 0
        dedup = tmp_path / output / "out/dedup"
        records = [
            path.stat().st_mtime_ns
            for name in ("clean/records/main", "dedup/records/exact-hashes")
            for path in sorted((dedup.parent / name).iterdir())
        ]
        return records, {
            path.relative_to(dedup).as_posix(): path.read_bytes() for path in dedup.rglob("*.arrow")
        }

    before, _ = changed("new", {})
    after, found = changed("new", {"role": "compare"})
    assert found == changed("fresh", {"role": "compare"})[1]
    assert before == after


@pytest.mark.parametrize(
    ("options", "message"),
    [("exact: null, near: null, lines: {}", "both are null"), (None, "add `dedup: {}`")],
)
def test_a_role_that_no_stage_reads_is_refused(tmp_path, capsys, options, message):
    (tmp_path / "a.jsonl").write_text('{"text": "some words"}\n')
    recipe = RECIPE.replace("OPTIONS", options) if options else RECIPE.partition("dedup")[0]
    (tmp_path / "r.yaml").write_text(recipe)
    words = ["--config", str(tmp_path / "r.yaml"), f"output={tmp_path / 'out'}"]
    assert main([*words, f"input={{path: {tmp_path}/a.jsonl, role: compare}}"]) == 64
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("verify", [0.65, 0.0])
def test_documents_are_compared_with_each_of_the_others(verify):
    """Both compared documents stay, so the other one can go for the second."""
    uids = np.array([bytes([65 + n]) * 16 for n in range(3)], "S16")
    sketches = np.zeros((3, 10), np.uint16)
    # similarity .7 of 0 and 1, .8 of 1 and 2, .5 of 0 and 2
    sketches[1, :3] = 1
    sketches[2, :5] = 1
    merit = np.array([COMPARED_PRIORITY, COMPARED_PRIORITY, 5])
    kept, _ = choose_representatives(
        np.array([7, 7, 7], np.uint64), np.arange(3), uids, merit, sketches, verify
    )

    assert kept.tolist() == [0, 1, 1 if verify else 0]
