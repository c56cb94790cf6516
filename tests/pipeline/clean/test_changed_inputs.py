"""A file that changes after the inputs were listed is refused by name,
however it changes."""

import json
import os
from pathlib import Path

import pytest

from clozeline.errors import PartialFailureError, StorageError
from clozeline.pipeline.clean.unit import CleanUnit
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.execution.unit_inputs import describe_file
from tests.pipeline.clean.cleaning import recipe_for, run_clean

TEXTS = [f"This is text number {number} of the file, with some words." for number in range(90)]
LINES = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()


EDITED = LINES.replace(b"number 7 ", b"number X ")


def cut_at_a_line_end(path, other):
    content = path.read_bytes()
    path.write_bytes(content[: content.rfind(b"\n", 0, -1) + 1])


def append_a_line(path, other):
    path.write_bytes(path.read_bytes() + LINES.splitlines(keepends=True)[0])


def replace_by_rename(path, other):
    before = path.stat()
    new = path.with_name("new")
    new.write_bytes(other)
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.rename(path)


def rename_over(path, other):
    new = path.with_name("new")
    new.write_bytes(other)
    new.rename(path)


def write_over(path, other):
    path.write_bytes(other)
    os.utime(path, ns=(1, 1))


def change_before(monkeypatch, owner, action):
    run = owner.run

    def change_and_run(self, inputs, output):
        action()
        return run(self, inputs, output)

    monkeypatch.setattr(owner, "run", change_and_run)


@pytest.mark.parametrize("change", [cut_at_a_line_end, rename_over, write_over])
def test_a_file_that_changes_between_plan_and_reading_fails_by_name(tmp_path, monkeypatch, change):
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    change_before(monkeypatch, CleanUnit, lambda: change(path, EDITED))

    with pytest.raises(
        PartialFailureError, match=r"a\.jsonl: the file changed after the inputs were listed"
    ) as failed:
        run_clean(str(path), tmp_path / "out")

    assert failed.value.exit_code == 74
    assert not list((tmp_path / "out" / "clean").glob("documents/*"))


def write_again(path, other):
    replace_by_rename(path, path.read_bytes())
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize(
    ("change", "found", "verified"),
    [
        (append_a_line, 1, 1),
        (cut_at_a_line_end, 1, 1),
        (write_over, 1, 1),
        (replace_by_rename, 0, 1),
        (write_again, 1, 0),
    ],
)
def test_the_next_start_reads_what_changed(tmp_path, change, found, verified):
    """If contents are compared, they decide, even of one range of a file."""
    paths = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    for path in paths:
        Path(path).write_bytes(LINES)
    keys = {"plan": {"unit_bytes": 4096}}
    assert len(run_clean(paths, tmp_path / "out", **keys).records) == 4

    change(tmp_path / "b.jsonl", EDITED)
    recipe = recipe_for(paths, tmp_path / "out", **keys)

    assert load_plan(recipe).changes == {"new": 0, "changed": found, "removed": 0}
    assert load_plan(recipe, verify=True).changes["changed"] == verified
    assert run_clean(paths, tmp_path / "out", verify=True, **keys).summary.skipped != verified
    assert run_clean(paths, tmp_path / "out", **keys).summary.skipped


def test_a_list_of_a_filter_is_known_by_its_state_then_by_its_content(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    terms = tmp_path / "domains.txt"
    terms.write_text("example.org\n")
    clean = {"language": None, "filters": [{"name": "url", "domains": [str(terms)]}]}
    record = run_clean(str(path), tmp_path / "out", clean).records[0]
    os.utime(terms, ns=(1, 1))

    assert run_clean(str(path), tmp_path / "out", clean).records == [record]

    seen = terms.stat()
    terms.write_text("example.net\n")
    os.utime(terms, ns=(seen.st_atime_ns, int(record.reads[f"file|{terms}"].split()[1])))

    assert run_clean(str(path), tmp_path / "out", clean).records == [record]

    describe_file.cache_clear()  # as in another process

    assert run_clean(str(path), tmp_path / "out", clean, verify=True).records != [record]


def test_a_list_that_changes_between_two_units_fails_by_name(tmp_path, monkeypatch):
    terms = tmp_path / "domains.txt"
    terms.write_text("example.org\n")
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(LINES)
    lists = iter(["example.org\n", "other.example\n"])
    change_before(monkeypatch, CleanUnit, lambda: terms.write_text(next(lists)))
    clean = {"language": None, "filters": [{"name": "url", "domains": [str(terms)]}]}

    with pytest.raises(StorageError, match=r"domains\.txt changed while clean read it"):
        run_clean(str(tmp_path / "*.jsonl"), tmp_path / "out", clean)

    monkeypatch.undo()
    both = run_clean(str(tmp_path / "*.jsonl"), tmp_path / "out", clean).records

    assert len({record.reads[f"file|{terms}"] for record in both}) == 1
