import json
from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.ingest.documents.files import read_documents
from tests.pages import checked
from tests.pipeline.execution.toy_stage import tree
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
        (["group=null"], 64, "'corrupt' needs the key 'group' too"),
        (["clean.sources={novles: {filters: []}}"], 64, "no input has this `source` label"),
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
        ("noise.warc.gz", bytes(range(256)) * 64, "(records): 1 damaged", "no document was found in the input"),
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
def test_shards_do_not_depend_on_the_size_of_units(corpus, reference, tmp_path):
    """The files that training reads: small files share a unit, or not."""
    assert run(*corpus, tmp_path / "out", "plan.unit_bytes=4096") == 0
    mine, theirs = whole_tree(tmp_path / "out"), whole_tree(reference)
    read = [name for name in theirs if name.split("/")[0] in ("encode", "group", "corrupt")]
    shards = [name for name in read if name.endswith((".arrow", ".tar"))]
    assert {Path(name).suffix for name in shards} == {".arrow", ".tar"}
    assert [name for name in shards if mine.get(name) != theirs[name]] == []
