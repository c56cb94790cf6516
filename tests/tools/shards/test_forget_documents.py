from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.ingest.documents.files import read_documents, read_rejects
from clozeline.tools.shards.forget_documents import ForgetOptions, Request, main
from clozeline.tools.shards.validation.run_counts import check_run
from tests.distributed import run_ranks
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.killed_run import die_at
from tests.pipeline.miniature import text, write_recipe

RECIPE = """
corpus: forgetting
seed: 7
heldout: {{fraction: 0.1}}
plan: {{unit_bytes: 8192, shard_bytes: 20000}}
clean: {{language: null, filters: [{{name: gopher_quality, words: [10, 100000]}}], keep_text: 1}}
dedup: {{}}
tokenizer: {{path: {tokenizer}}}
encode: {{}}
group: {{}}
corrupt: [{{name: causal_lm, max_length: 64}}]
"""
STAGES = ("dedup", "tokenizer", "encode", "group", "corrupt")
SHORT = "only seven words are here, my friend"


def lines_of(*, without: tuple[int, ...] = ()) -> list[str]:
    """Lines of JSON; those left out are blank lines of the same length, so that offsets stay."""
    texts = [text(seed, 6 + seed % 9) for seed in range(36)] + [text(3, 9), SHORT]
    hosts = ["host0.example", "bücher.example", "host2.example", "host3.example",
             "host0.example", "xn--bcher-kva.example", "host2.example", "host3.example",
             "host0.example", "www.BÜCHER.example.", "host2.example", "host3.example"]  # fmt: skip
    urls = [f"http://{hosts[number % 12]}/{number}" for number in range(len(texts))]
    lines = [json.dumps({"text": each, "url": url}) for each, url in zip(texts, urls, strict=True)]
    return [" " * len(line) if number in without else line for number, line in enumerate(lines)]


def write(folder: Path, *, without: tuple[int, ...] = ()) -> Path:
    folder.mkdir()
    (folder / "crawl.jsonl").write_text("\n".join(lines_of(without=without)) + "\n", encoding="utf-8")
    return folder / "crawl.jsonl"


def run(recipe: Path, source: Path, output: Path, *more: str) -> int:
    return run_pipeline(["--config", str(recipe), f"input={source}", f"output={output}", *more])


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    path = write_recipe(
        folder, RECIPE.format(tokenizer="").replace("tokenizer: {path: }", "train_tokenizer: {size: 450}")
    )
    assert run(path, write(folder / "crawl"), folder / "first") == 0
    path.write_text(RECIPE.format(tokenizer=folder / "first/train_tokenizer/tokenizer"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def never_there(recipe, tmp_path_factory) -> Path:
    """The output of a run whose input never had document 3, its copy 36, and the rejected 37."""
    folder = tmp_path_factory.mktemp("never")
    assert run(recipe, write(folder / "crawl", without=(3, 36, 37)), folder / "out") == 0
    return folder / "out"


@pytest.fixture
def output(recipe, tmp_path) -> Path:
    assert run(recipe, write(tmp_path / "crawl"), tmp_path / "out") == 0
    return tmp_path / "out"


def uids_of(output: Path, *texts: str) -> list[str]:
    uids = []
    for path in sorted((output / "clean/documents").iterdir()):
        uids += [document.uid.hex() for document in read_documents(path) if document.text in texts]
        uids += [
            row.uid.hex() for row in read_rejects(output / "clean/rejects" / path.name) if row.sample_text in texts
        ]
    return uids


def data(output: Path) -> dict[str, bytes]:
    """All files of later stages, records included, and the data of `clean`, whose records tell of ignored lines.

    The record of the kept tokenizer names the documents of its time.
    """
    kept = {f"{stage}/{name}": content for stage in STAGES for name, content in tree(output / stage).items()}
    kept.pop("tokenizer/records/000000.json", None)
    return kept | {f"clean/{kind}/{name}": content for kind in ("documents", "rejects")
                   for name, content in tree(output / "clean" / kind).items()}  # fmt: skip


def contents(output: Path) -> str:
    """Everything in all files, Arrow files read as tables."""
    parts = []
    for path in sorted(path for path in output.rglob("*") if path.is_file()):
        parts.append(path.read_bytes().decode("latin-1"))
        if path.suffix == ".arrow":
            table = pa.ipc.open_file(path).read_all()
            values = [value for column in table.columns for value in column.to_pylist()]
            parts += [value.hex() if isinstance(value, bytes) else str(value) for value in values]
    return "\n".join(parts)


@pytest.mark.parametrize("tasks", [1, *(pytest.param(tasks, marks=pytest.mark.slow) for tasks in (2, 3, 7))])
def test_it_is_as_if_they_had_never_been_there(output, never_there, tmp_path, capsys, tasks):
    uids = uids_of(output, text(3, 9), SHORT)
    assert len(uids) == 3
    before, old = contents(output), data(output)
    assert all(uid in before for uid in uids)
    listed = tmp_path / "listed.txt"
    listed.write_text(f"http://host3.example/3\n{uids[-1]}\n")
    capsys.readouterr()
    assert main([str(output), f"documents={listed}", f"executor.tasks={tasks}", "executor.workers=1"]) == 0
    said = capsys.readouterr().out
    assert "3 documents forgotten" in said
    mine, theirs = data(output), data(never_there)
    assert sorted(mine) == sorted(theirs)
    assert [name for name in mine if mine[name] != theirs[name]] == []
    # the listed files are those that changed
    files = {name for name in old if "/records/" not in name and old[name] != mine.get(name)}
    assert {line.strip() for line in said.splitlines() if line.startswith("  ")} == files
    after = contents(output)
    assert not [word for word in (*uids, text(3, 9)[:40], SHORT, json.dumps(text(3, 9))[1:40]) if word in after]
    assert check_run(output)
    # a later start of the pipeline changes nothing
    assert run(output / "corrupt/config.yaml", tmp_path / "crawl/crawl.jsonl", output) == 0
    assert data(output) == mine


def _forget_or_die(when: str, name: str, arguments: list[str]) -> int:
    with die_at(when, name):
        return main(arguments)


@pytest.mark.parametrize(
    ("when", "name"),
    [
        ("after", "forgotten.json"),
        *(
            pytest.param(when, name, marks=pytest.mark.slow)
            for when, name in (
                ("before", "forgotten.json"),
                ("before", "clean/documents/000000.arrow"),
                ("after", "dedup/records/000000.json"),
                ("before", "encode/manifest.json"),
                ("after", "corrupt/causal_lm/train/manifest.json"),
            )
        ),
    ],
)
def test_killed_while_it_forgets_and_started_again(output, never_there, tmp_path, capsys, when, name):
    listed = tmp_path / "listed.txt"
    listed.write_text("\n".join(["http://host3.example/3", *uids_of(output, SHORT)]))
    arguments = [str(output), f"documents={listed}"]
    done = run_ranks(1, _forget_or_die, when, name, arguments, folder=tmp_path)
    assert done.codes == [-9], done.errors
    assert main(arguments) == 0
    assert "3 documents forgotten" in capsys.readouterr().out
    assert data(output) == data(never_there)


def test_hosts_and_unknown_documents(output, tmp_path, capsys):
    listed = tmp_path / "listed.txt"
    listed.write_text("\n".join(f"{number:032x}" for number in range(7)))
    before = data(output)
    assert main([str(output), f"documents={listed}"]) == 64
    error = capsys.readouterr().err
    assert "7 unknown ones" in error
    assert f"{4:032x} and 2 more" in error
    assert main([str(output), "hosts=[example.org]"]) == 64
    assert main([str(output)]) == 64
    assert main([str(output), "hosts=[bücher.example]", "dedup.near.ngram=4"]) == 64
    assert data(output) == before
    assert main([str(output), "hosts=[Bücher.example.]", "duplicates=false"]) == 0
    hosts = {document.host for path in (output / "clean/documents").iterdir() for document in read_documents(path)}
    assert hosts == {"host0.example", "host2.example", "host3.example"}


def test_urls_and_hosts_are_compared_in_one_form(tmp_path):
    listed = tmp_path / "listed.txt"
    listed.write_text("http://xn--mller-kva.example/A\n", encoding="utf-8")
    request = Request(ForgetOptions(documents=listed, hosts=["xn--bcher-kva.example", "[::1]"]))
    for url, host in (("http://MÜLLER.example./A", None), ("http://a.bücher.example/", "a.bücher.example"),
                      ("http://[::1]:80/", "::1"), ("x", "a." * 200 + "xn--bcher-kva.example")):  # fmt: skip
        assert request.take(b"0" * 16, url, host)
    assert not request.take(b"0" * 16, "http://müller.example/a", "notbücher.example")
