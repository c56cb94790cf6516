from __future__ import annotations

import json
from pathlib import Path

import fsspec
import pytest

from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.tools.shards.validation.run_counts import check_run
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.killed_run import killed
from tests.pipeline.miniature import text, write_recipe

RECIPE = """
corpus: growing
seed: 7
heldout: {fraction: 0.1}
plan: {unit_bytes: 8192, shard_bytes: 20000}
clean: {language: null, filters: []}
dedup: {}
train_tokenizer: {name: byte_bpe, size: 450}
encode: {}
balance: {alpha: 0.3, sources: {default: 1.5}}
group: {}
corrupt: [{name: causal_lm, max_length: 64}]
"""
STAGES = ("clean", "dedup", "train_tokenizer", "encode", "balance", "group", "corrupt")


def write_crawl(path: Path, seeds: range, more: list[str] = ()) -> Path:
    """Documents as lines of JSON; `more` are further texts."""
    texts = [text(seed, 6 + seed % 9) for seed in seeds] + list(more)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": each}) + "\n" for each in texts), encoding="utf-8")
    return path


def run(folder: Path, inputs: str, output: Path, *more: str) -> int:
    recipe = folder / "recipe.yaml"
    return main(["--config", str(recipe if recipe.exists() else write_recipe(folder, RECIPE)),
                 f"input={inputs}", f"output={output}", *more])  # fmt: skip


def data_of(output: Path) -> dict[str, bytes]:
    """Data files without records, whose keys say how they were made."""
    return {name: data for name, data in whole_tree(output).items() if "/records/" not in name}


def whole_tree(output: Path) -> dict[str, bytes]:
    return {f"{stage}/{name}": data for stage in STAGES for name, data in tree(output / stage).items()}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory) -> Path:
    """An older and a newer crawl: the newer repeats documents, also longer and nearly."""
    folder = tmp_path_factory.mktemp("crawls")
    write_crawl(folder / "old/m.jsonl", range(40), [text(3, 9), text(50, 30)])
    longer = text(50, 30) + " And one more sentence is here at the end of it all."
    write_crawl(
        folder / "new/a.jsonl", range(100, 125), [*(text(seed, 6 + seed % 9) for seed in range(4, 14)), longer, longer]
    )
    return folder


@pytest.fixture(scope="module")
def grown(crawls, tmp_path_factory) -> Path:
    """One run that got both crawls in this order, in a new output."""
    output = tmp_path_factory.mktemp("grown") / "out"
    assert run(crawls, f"[{crawls}/old, {crawls}/new]", output, "extend=true") == 0
    return output


@pytest.mark.parametrize("tasks", [3, *(pytest.param(tasks, marks=pytest.mark.slow) for tasks in (1, 2, 7))])
def test_a_run_that_grows_equals_one_that_got_both_in_this_order(crawls, grown, tmp_path, tasks):
    output, more = tmp_path / "out", [f"executor.tasks={tasks}", "executor.workers=1"]
    assert run(crawls, f"{crawls}/old", output, *more) == 0
    before = {path: path.stat() for path in sorted((output / "clean/documents").iterdir())}
    old, tokenizer = data_of(output), tree(output / "train_tokenizer/tokenizer")
    factors = json.loads((output / "balance/factors.json").read_text())["factors"]
    assert run(crawls, f"[{crawls}/old, {crawls}/new]", output, "extend=true", *more) == 0
    mine, theirs = whole_tree(output), whole_tree(grown)
    assert sorted(mine) == sorted(theirs)
    assert [name for name in mine if mine[name] != theirs[name]] == []
    # nothing of the old units is written again, and no old document left
    assert len(before) > 1
    assert all((after := path.stat()).st_ino == stat.st_ino and after.st_mtime_ns == stat.st_mtime_ns
               for path, stat in before.items())  # fmt: skip
    units = [name for name in old if name.startswith(("clean/documents", "dedup/documents"))]
    assert all(mine[name] == old[name] for name in units)
    assert tree(output / "train_tokenizer/tokenizer") == tokenizer
    assert json.loads((output / "balance/factors.json").read_text())["factors"] == factors


def test_a_run_grows_in_a_store_as_on_a_disk(crawls, grown, tmp_path, capsys):
    """Old files of a store are compared with those of the first run, and new ones join."""
    system = fsspec.filesystem("memory")
    for path in sorted(crawls.glob("*/*.jsonl")):
        system.pipe_file(f"/crawls/{path.parent.name}/{path.name}", path.read_bytes())
    output, inputs = tmp_path / "out", "[memory://crawls/old/*, memory://crawls/new/*]"
    try:
        assert run(crawls, "memory://crawls/old/*", output) == 0
        assert run(crawls, inputs, output) == 64, "more inputs need `extend`"
        assert run(crawls, inputs, output, "extend=true") == 0
        mine, theirs = data_of(output), data_of(grown)
        assert sorted(mine) == sorted(theirs)
        assert [name for name in mine if mine[name] != theirs[name] and name.endswith((".arrow", ".npy"))] == []
        system.pipe_file("/crawls/old/m.jsonl", system.cat_file("/crawls/old/m.jsonl") + b'{"text": "one more"}\n')
        capsys.readouterr()
        assert run(crawls, inputs, output, "extend=true") == 64
        assert "m.jsonl" in capsys.readouterr().err
    finally:
        system.rm("/crawls", recursive=True)


def test_older_documents_win_against_longer_ones(crawls, grown):
    texts = [document.text for document in read_all_documents(grown / "dedup/documents")]
    new = [document.text for document in read_all_documents(grown / "clean/documents")]
    assert texts.count(text(50, 30)) == 1
    assert not [each for each in texts if each.startswith(text(50, 30)) and each != text(50, 30)]
    assert len(new) - len(texts) == 1 + 12  # one copy within the old crawl, twelve in the new one
    assert run(crawls, f"[{crawls}/old, {crawls}/new]", grown) == 0  # complete, without `extend` too
    assert check_run(grown)


def test_without_shared_documents_it_equals_one_plain_run(tmp_path):
    """Old names sort before new ones, and the tokenizer is a file: who came first decides nothing."""
    write_crawl(tmp_path / "in/a.jsonl", range(30))
    write_crawl(tmp_path / "in/b.jsonl", range(200, 230))
    recipe = RECIPE.replace("balance: {alpha: 0.3, sources: {default: 1.5}}\n", "")
    write_recipe(tmp_path, recipe)
    first, plain = tmp_path / "first", tmp_path / "plain"
    assert run(tmp_path, f"{tmp_path}/in/a.jsonl", first) == 0
    write_recipe(tmp_path, recipe.replace("train_tokenizer: {name: byte_bpe, size: 450}",
                                          f"tokenizer: {{path: {first}/train_tokenizer/tokenizer}}"))  # fmt: skip
    assert run(tmp_path, f"{tmp_path}/in/*.jsonl", plain) == 0
    assert run(tmp_path, f"{tmp_path}/in/a.jsonl", tmp_path / "out") == 0
    entries = f"[{tmp_path}/in/a.jsonl, {tmp_path}/in/b.jsonl]"
    assert run(tmp_path, entries, tmp_path / "out", "extend=true") == 0
    mine, theirs = data_of(tmp_path / "out"), data_of(plain)
    different = [name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name)]
    assert different == ["clean/plan.json"]


@pytest.mark.slow
def test_a_third_crawl_joins_and_rebalance_learns_from_all(crawls, grown, tmp_path):
    third = write_crawl(tmp_path / "third.jsonl", range(300, 315))
    output, both = tmp_path / "out", f"{crawls}/old, {crawls}/new"
    assert run(crawls, f"[{both}]", output, "extend=true") == 0
    assert run(crawls, f"[{both}, {third}]", output, "extend=true") == 0
    plan = json.loads((output / "clean/plan.json").read_text())
    assert [each["inputs"] for each in plan["generations"]] == [1, 2, 3]
    assert tree(output / "train_tokenizer/tokenizer") == tree(grown / "train_tokenizer/tokenizer")
    assert run(crawls, f"[{both}, {third}]", output, "rebalance=true") == 0
    assert tree(output / "train_tokenizer/tokenizer") != tree(grown / "train_tokenizer/tokenizer")


@pytest.mark.parametrize(
    ("when", "name"),
    [
        ("after", "clean/plan.json"),
        pytest.param("before", "clean/documents/000003.arrow", marks=pytest.mark.slow),
        pytest.param("after", "kept.json", marks=pytest.mark.slow),
        pytest.param("before", "dedup/documents/000000.arrow", marks=pytest.mark.slow),
        pytest.param("after", "encode/manifest.json", marks=pytest.mark.slow),
        pytest.param("before", "balance/factors.json", marks=pytest.mark.slow),
        pytest.param("before", "corrupt/causal_lm/train/manifest.json", marks=pytest.mark.slow),
    ],
)
def test_killed_while_it_grows_and_started_again(crawls, grown, tmp_path, when, name):
    output, entries = tmp_path / "out", f"[{crawls}/old, {crawls}/new]"
    assert run(crawls, f"{crawls}/old", output) == 0
    words = ["--config", str(crawls / "recipe.yaml"), f"input={entries}", f"output={output}", "extend=true"]
    killed(when, name, words, tmp_path)
    assert main(words) == 0
    assert whole_tree(output) == whole_tree(grown)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["dedup.near.ngram=4"], "in dedup.near.ngram: expected 5, got 4"),
        (["limit=3"], "leave limit out"),
        (["input={crawls}/new"], "restore them, or use another output"),
        (["input={crawls}/old"], "add new files to input"),
    ],
)
def test_what_cannot_join_is_refused_with_a_way_out(crawls, tmp_path_factory, capsys, change, message):
    output = tmp_path_factory.getbasetemp() / "refusals"
    if not output.exists():
        assert run(crawls, f"{crawls}/old", output) == 0
    before = whole_tree(output)
    words = [each.format(crawls=crawls) for each in change]
    assert run(crawls, f"[{crawls}/old, {crawls}/new]", output, "extend=true", *words) == 64
    assert message in capsys.readouterr().err
    assert whole_tree(output) == before


def test_one_stage_alone_does_not_grow(crawls, tmp_path, capsys):
    words = ["--config", str(write_recipe(tmp_path, RECIPE)), f"input={crawls}/old", f"output={tmp_path / 'out'}"]
    assert run_stage("clean", [*words, "extend=true"]) == 64
    assert "use `clozeline pipeline`" in capsys.readouterr().err
