from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.ingest.documents.files import read_documents
from tests.pages import checked
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.killed_run import killed
from tests.pipeline.miniature import STAGES, text, write_corpus, write_recipe


def run(recipe: Path, source: Path, output: Path, *more: str) -> int:
    return main(["--config", str(recipe), f"input={source}", f"output={output}", *more])


def whole_tree(output: Path) -> dict[str, bytes]:
    return {f"{stage}/{name}": data for stage in STAGES for name, data in tree(output / stage).items()}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("corpus")
    return write_recipe(folder), write_corpus(folder / "crawl")


@pytest.fixture(scope="module")
def reference(corpus, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("reference") / "out"
    assert run(*corpus, output) == 0
    return output


@pytest.mark.slow
def test_three_tasks_on_two_workers_give_the_same_bytes(corpus, reference, tmp_path):
    assert run(*corpus, tmp_path / "out", "executor.tasks=3", "executor.workers=2") == 0
    mine, theirs = whole_tree(tmp_path / "out"), whole_tree(reference)
    assert sorted(mine) == sorted(theirs)
    assert [name for name in mine if mine[name] != theirs[name]] == []


@pytest.mark.slow
def test_killed_in_every_stage_and_restarted_gives_the_same_bytes(corpus, reference, tmp_path):
    """One output, killed again and again: at a data file, between it and its record, and after the record."""
    recipe, source = corpus
    output = tmp_path / "out"
    for number, (when, name) in enumerate(_points(reference)):
        arguments = ["--config", str(recipe), f"input={source}", f"output={output}", f"executor.tasks={1 + number % 3}"]
        killed(when, name, [*arguments, "executor.workers=1"], tmp_path)
    assert run(recipe, source, output) == 0
    mine, theirs = whole_tree(output), whole_tree(reference)
    assert sorted(mine) == sorted(theirs)
    assert [name for name in mine if mine[name] != theirs[name]] == []


def _points(reference: Path) -> list[tuple[str, str]]:
    """Per stage: a data file or its record, and the last record."""
    points: list[tuple[str, str]] = []
    for position, stage in enumerate(STAGES):
        records = sorted((reference / stage / "records").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        first, last = records[0], records[-1]
        outputs = list(json.loads(first.read_text())["outputs"])
        data = f"{stage}/{outputs[0]}" if outputs else f"{stage}/records/{first.name}"
        points += [("before", data), ("before", f"{stage}/records/{first.name}")][position % 2 :][:1]
        points.append(("after", f"{stage}/records/{last.name}"))
    return points


def test_rerun_skips_everything_and_a_changed_key_redoes_what_follows(corpus, reference, tmp_path, capsys):
    recipe, source = corpus
    output = tmp_path / "out"
    assert run(recipe, source, output) == 0
    capsys.readouterr()
    assert run(recipe, source, output) == 0
    assert capsys.readouterr().err.count("already complete") == len(STAGES)
    assert run(recipe, source, output, "corrupt.0.mask_rate=0.3") == 0
    assert capsys.readouterr().err.count("already complete") == len(STAGES) - 1


def test_stage_by_stage_equals_all_at_once(corpus, reference, tmp_path):
    recipe, source = corpus
    for stage in STAGES:
        assert run_stage(stage, ["--config", str(recipe), f"input={source}", f"output={tmp_path / 'out'}"]) == 0
    mine, theirs = whole_tree(tmp_path / "out"), whole_tree(reference)
    assert [name for name in theirs if mine.get(name) != theirs[name]] == []


def test_a_stage_whose_input_is_incomplete_names_the_command(corpus, tmp_path, capsys):
    recipe, source = corpus
    assert run_stage("encode", ["--config", str(recipe), f"input={source}", f"output={tmp_path}"]) == 64
    assert "clozeline clean" in capsys.readouterr().err


def test_reports_account_for_every_record(reference):
    report = json.loads((reference / "report.json").read_text())
    counts = report["stages"]["clean"]["counts"]
    dropped = sum(counts["ignored"].values()) + sum(counts["malformed"].values())
    assert counts["records_in"] == counts["documents_in"] + dropped
    assert counts["documents_in"] == counts["documents_out"] + sum(counts["rejected"].values())
    assert report["stages"]["dedup"]["counts"]["rejected"]["exact_duplicate"] == 1
    checked((reference / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["input=nothing/*.warc.gz"], 64, "no such file"),
        (["clean.fliters=[url]"], 64, "clean.filters"),
        (["seed=x"], 64, "expected a valid integer"),
        (["group=null"], 64, "'corrupt' needs the key 'group' too"),
        (["clean.sources={novles: {filters: []}}"], 64, "no input has this `source` label"),
        (["corrupt.0.name=maskd_lm"], 64, "did you mean 'masked_lm'"),
    ],
)
def test_mistakes_end_in_one_message(corpus, tmp_path, capsys, arguments, code, message):
    recipe, source = corpus
    assert run(recipe, source, tmp_path / "out", *arguments) == code
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("name", "content", "reason", "message"),
    [
        ("empty.warc.gz", b"", "1 empty_file", "no document was found in the input"),
        ("noise.warc.gz", bytes(range(256)) * 64, "(records): 1 damaged", "no document was found in the input"),
        ("bad.jsonl", b'{"text": "a \xff b"}\n', "(records): 1 bad_utf8", "no document was found in the input"),
        ("long.txt", b"x" * 20_000_001, "(documents): 1 too_long", "every document was rejected"),
    ],
)
def test_input_without_a_document_ends_with_its_reasons(corpus, tmp_path, capsys, name, content, reason, message):
    (tmp_path / name).write_bytes(content)
    assert run(corpus[0], tmp_path / name, tmp_path / "out") == 69
    shown = capsys.readouterr()
    assert reason in shown.out
    assert message in shown.err
    assert "Traceback" not in shown.err


def test_changed_inputs_are_refused(corpus, tmp_path, capsys):
    recipe, _ = corpus
    pattern = write_corpus(tmp_path / "crawl", documents=30)
    arguments = [recipe, pattern, tmp_path / "out"]
    assert run_stage("clean", ["--config", str(recipe), f"input={pattern}", f"output={tmp_path / 'out'}"]) == 0
    (tmp_path / "crawl/part0.jsonl").write_text('{"text": "other"}\n')
    assert run(*arguments) == 64
    assert "inputs are frozen" in capsys.readouterr().err


@pytest.mark.slow
def test_a_smaller_recipe_leaves_nothing_of_the_larger_one(corpus, tmp_path):
    """Fewer objectives and variants on the same output: the tree is that of a clean run."""
    recipe, source = corpus
    small = ["corrupt=[{name: masked_lm, max_length: 64}]", "heldout.fraction=0.2"]
    assert run(recipe, source, tmp_path / "out") == 0
    assert run(recipe, source, tmp_path / "out", *small) == 0
    assert run(recipe, source, tmp_path / "clean run", *small) == 0
    assert whole_tree(tmp_path / "out") == whole_tree(tmp_path / "clean run")


@pytest.mark.slow
def test_other_options_of_an_input_make_everything_again(corpus, tmp_path, capsys):
    (tmp_path / "two.jsonl").write_text(
        "".join(json.dumps({"a": text(i, 9), "b": text(1000 + i, 9)}) + "\n" for i in range(40)), encoding="utf-8"
    )
    for key in ("a", "b", "a"):
        entry = f"input=[{{path: {tmp_path / 'two.jsonl'}, text_key: {key}}}]"
        assert main(["--config", str(corpus[0]), entry, f"output={tmp_path / 'out'}"]) == 0
        assert "already complete" not in capsys.readouterr().err
        found = [document.text for document in read_documents(tmp_path / "out/clean/documents/000000.arrow")]
        assert found[0] == text(0 if key == "a" else 1000, 9)


@pytest.mark.slow
def test_two_runs_at_once_wait_for_each_other(corpus, reference, tmp_path):
    recipe, source = corpus
    words = ["--config", str(recipe), f"input={source}", f"output={tmp_path / 'out'}", "executor.workers=1"]
    runs = [subprocess.Popen([sys.executable, "-m", "pipeline", *words], stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [each.wait() for each in runs] == [0, 0]
    assert whole_tree(tmp_path / "out") == whole_tree(reference)


def test_dry_run_writes_nothing_and_says_what_is_left(corpus, tmp_path, capsys):
    recipe, source = corpus
    assert run(recipe, source, tmp_path / "out", "--dry-run") == 0
    assert not (tmp_path / "out").exists()
    assert "dedup" in capsys.readouterr().out
    assert run_stage("clean", [f"input={source}", "--config", str(recipe), f"output={tmp_path / 'out'}"]) == 0
    capsys.readouterr()
    assert run(recipe, source, tmp_path / "out", "--dry-run") == 0
    assert "clean: complete" in capsys.readouterr().out


def test_wrong_arguments_end_with_64(corpus, capsys):
    assert main(["--config", str(corpus[0]), "--bogus"]) == 64
    assert "--bogus" in capsys.readouterr().err
