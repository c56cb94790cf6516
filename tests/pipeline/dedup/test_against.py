"""Dedup against another output: its documents win, whatever the rule, and only own ones are
dropped."""

import json
import shutil

import numpy as np
import pytest

from clozeline.pipeline.dedup.parts import OTHER_PRIORITY
from clozeline.pipeline.dedup.representatives import choose_representatives
from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.ingest.documents.files import read_documents, read_rejects
from tests.pipeline.dedup.dedup_documents import edited, prose
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.run_counts import check_run

RECIPE = """
corpus: NAME
plan: {unit_bytes: 9000, shard_bytes: 15000}
clean: {language: null, filters: []}
dedup: {OPTIONS}
"""
OLD = [prose(seed) for seed in range(24)]
NEW = {
    **{f"copy of {n}": OLD[n] for n in range(6)},
    **{
        f"longer near copy of {n}": f"{edited(OLD[n], 60, 61)} and a longer end"
        for n in range(6, 12)
    },
    **{f"new {n}": prose(100 + n) for n in range(8)},
    **{f"longer copy of new {n}": f"{edited(prose(100 + n), 70)} longer" for n in range(3)},
}


def words(folder, name, texts, options=""):
    recipe = folder / f"{name}.yaml"
    recipe.write_text(RECIPE.replace("NAME", name).replace("OPTIONS", options))
    for part in range(2):
        lines = [json.dumps({"text": text}) for text in texts[part::2]]
        (folder / f"{name}-{part}.jsonl").write_text("\n".join(lines) + "\n")

    return ["--config", str(recipe), f"input={folder}/{name}-*.jsonl", f"output={folder / name}"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished output `old`, and `new` against it."""
    folder = tmp_path_factory.mktemp("against")

    assert main(words(folder, "old", [*OLD, *OLD[:2]])) == 0

    before = tree(folder / "old")

    assert main(words(folder, "new", [*NEW.values()], f"against: {folder / 'old'}")) == 0
    assert tree(folder / "old") == before
    assert check_run(folder / "new")

    return folder


def left(output):
    return [
        row.text
        for path in sorted((output / "dedup/documents").glob("*"))
        for row in read_documents(path)
    ]


def test_own_copies_of_the_other_output_are_dropped_even_if_longer(folder):
    expected = [NEW[f"longer copy of new {n}" if n < 3 else f"new {n}"] for n in range(8)]

    assert sorted(left(folder / "new")) == sorted(expected)

    paths = sorted((folder / "new/dedup/rejects").glob("*"))
    rejected = [row for path in paths for row in read_rejects(path)]

    assert (
        sorted(row.reason for row in rejected) == ["exact_duplicate"] * 6 + ["near_duplicate"] * 9
    )

    paths = sorted((folder / "old/dedup/documents").glob("*"))
    kept = {row.uid.hex() for path in paths for row in read_documents(path)}

    assert sum(row.detail in kept for row in rejected) == 12


def test_a_changed_other_output_is_seen(folder, tmp_path):
    shutil.copytree(folder / "old", tmp_path / "old")
    start = words(tmp_path, "new", [*NEW.values()], f"against: {tmp_path / 'old'}")

    assert main([*start, "executor.tasks=3", "executor.workers=1"]) == 0
    assert sorted(left(tmp_path / "new")) == sorted(left(folder / "new"))

    shutil.rmtree(tmp_path / "old")

    assert main(words(tmp_path, "old", OLD[1:])) == 0
    assert run_stage("dedup", start) == 0
    assert OLD[0] in left(tmp_path / "new")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "expected the output of a run with documents"),
        ("old", "finish that run first"),
        ("new", "this is the output of this recipe"),
    ],
)
def test_what_is_no_finished_other_output_is_refused(folder, tmp_path, capsys, name, message):
    shutil.copytree(folder / "old", tmp_path / name if name == "new" else tmp_path / "old")
    if name == "old":
        min((tmp_path / "old/dedup/records/main").glob("*.json")).unlink()
    assert main(words(tmp_path, "new", [*NEW.values()], f"against: {tmp_path / name}")) == 64
    assert message in capsys.readouterr().err


def read_counts(output):
    return json.loads((output / "dedup/report.json").read_text())["counts"]


def published(output):
    """Return the content of all that dedup publishes about documents."""
    folders = [output / "dedup" / name for name in ("documents", "rejects", "clusters")]
    return {
        str(path.relative_to(output)): path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_copies_in_any_of_several_outputs_are_dropped_and_nothing_is_hashed_twice(folder, tmp_path):
    """Whether a run has kept its signatures, or its options differ, changes no byte."""
    again = [*OLD[20:], *(prose(200 + n) for n in range(8))]
    assert main(words(tmp_path, "again", again, "lines: {max_documents: 3}")) == 0
    shutil.copytree(folder / "old", tmp_path / "old")
    texts = [*NEW.values(), *(f"{edited(prose(200 + n), 70)} longer" for n in range(5))]
    against = f"against: [{tmp_path / 'old'}, {tmp_path / 'again'}]"

    assert main(words(tmp_path, "new", texts, against)) == 0
    assert sorted(left(tmp_path / "new")) == sorted(left(folder / "new"))

    reused = read_counts(tmp_path / "new")["other"]
    count = len(left(tmp_path / "old")) + len(left(tmp_path / "again"))
    assert reused["hashed"] == reused["reused_hashes"] == count
    # four texts are in both outputs
    assert reused["signatures"] == reused["reused_signatures"] == count - 4

    expected = published(tmp_path / "new")
    shutil.rmtree(tmp_path / "new")
    shutil.rmtree(tmp_path / "old/dedup/tmp")

    assert main(words(tmp_path, "new", texts, against)) == 0
    assert published(tmp_path / "new") == expected

    reused = read_counts(tmp_path / "new")["other"]
    assert 0 < reused["reused_signatures"] < reused["signatures"]
    shutil.rmtree(tmp_path / "new")

    options = f"{against}, near: {{ngram: 4}}, exact: {{key: match}}"
    assert main(words(tmp_path, "new", texts, options)) == 0
    reused = read_counts(tmp_path / "new")["other"]
    assert reused["reused_hashes"] == reused["reused_signatures"] == 0


def test_an_edited_text_of_another_output_is_hashed_again(tmp_path):
    """Its signature, made before lines were removed, stands for another text."""
    menu = "Home and contact and imprint"
    texts = [f"{menu}\n{prose(n, 30)}" for n in range(6)] + [prose(n) for n in range(10, 16)]
    assert main(words(tmp_path, "old", texts, "lines: {}")) == 0
    assert menu not in "".join(left(tmp_path / "old"))

    new = [prose(n, 30) for n in range(6)]
    assert main(words(tmp_path, "new", new, f"against: {tmp_path / 'old'}")) != 0
    counts = read_counts(tmp_path / "new")
    assert counts["rejected"] == {"exact_duplicate": 6}
    assert counts["other"]["reused_hashes"] == 6
    assert counts["other"]["hashed"] == 12


def test_an_output_named_twice_is_refused(folder, tmp_path, capsys):
    both = f"against: [{folder / 'old'}, {folder / 'old'}/]"
    assert main(words(tmp_path, "new", [*NEW.values()], both)) == 64
    assert "named twice" in capsys.readouterr().err


@pytest.mark.parametrize("verify", [0.65, 0.0])
def test_own_documents_are_compared_with_each_of_the_others(verify):
    """Both documents of the other output stay, so the own one can go for the second."""
    uids = np.array([bytes([65 + n]) * 16 for n in range(3)], "S16")
    sketches = np.zeros((3, 10), np.uint16)
    # similarity .7 of 0 and 1, .8 of 1 and 2, .5 of 0 and 2
    sketches[1, :3] = 1
    sketches[2, :5] = 1
    merit = np.array([OTHER_PRIORITY, OTHER_PRIORITY, 5])
    kept, _ = choose_representatives(
        np.array([7, 7, 7], np.uint64), np.arange(3), uids, merit, sketches, verify
    )

    assert kept.tolist() == [0, 1, 1 if verify else 0]
