"""A run that leaves documents out equals, byte for byte, one whose inputs never had them."""

import json
from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_all_documents, read_rejects
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import text, write_recipe
from tests.pipeline.run_counts import check_run

RECIPE = """
corpus: excluding
seed: 7
heldout: {fraction: 0.1}
plan: {unit_bytes: 8192, shard_bytes: 20000}
clean: {language: null, filters: [{name: gopher_quality, words: [10, 100000]}], keep_text: 1}
dedup: {}
"""
HOSTS = ("one.example", "bücher.example", "two.example", "shop.three.example")
WEB = [
    {"text": text(seed, 6 + seed % 9) if seed != 20 else "only seven words are here, my friend",
     "url": f"http://{HOSTS[seed % 4]}/{seed}"}
    for seed in range(36)
]  # fmt: skip
UID, URL, HOST, PARENT = {6}, {8}, set(range(1, 36, 4)), set(range(3, 36, 4))
REJECTED = {20}
WITHOUT = UID | URL | HOST | PARENT | REJECTED


def write_inputs(folder: Path, *, without: bool = False) -> str:
    """Write a crawl and three other files; what is left out is blank lines of the same length, so that offsets stay."""
    folder.mkdir()
    lines = [json.dumps(each) for each in WEB]
    lines = [" " * len(line) if without and number in WITHOUT else line for number, line in enumerate(lines)]
    files = {"web/crawl.jsonl": lines}
    # the first crawl.jsonl holds a copy of document 8, which nobody names
    for number, name in enumerate(("books/a.jsonl", "files/b.jsonl", "files/kept.jsonl")):
        more = [json.dumps({"text": text(100 + 50 * number + seed, 8)}) for seed in range(9)]
        more += [json.dumps({"text": WEB[8]["text"]})] * (name == "files/kept.jsonl")
        files[name] = [" " * len(line) for line in more] if without and "kept" not in name else more
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("\n".join(content) + "\n", encoding="utf-8")
    entries = [f"{{path: {folder}/{name}, source: {name}}}" for name in ("web", "books", "files")]
    return f"input=[{', '.join(entries)}]"


def words_of(folder: Path, inputs: str, *more: str) -> list[str]:
    recipe = write_recipe(folder, RECIPE)
    return ["--config", str(recipe), inputs, f"output={folder / 'out'}", *more]


def data(output: Path) -> dict[str, bytes]:
    """Documents, rejections and clusters: all files but those that say how they were made."""
    told = ("records", "logs", "tmp", "report.json", "config.yaml", "plan.json")
    return {name: content for name, content in tree(output).items() if not {*Path(name).parts} & {*told}
            and not name.endswith("report.html")}  # fmt: skip


@pytest.fixture(scope="module")
def never_there(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("never")
    assert main(words_of(folder, write_inputs(folder / "in", without=True))) == 0
    return data(folder / "out")


@pytest.fixture
def started(tmp_path: Path) -> tuple[list[str], Path]:
    """A complete run that has all documents, and the file that names those to leave out."""
    words = words_of(tmp_path, write_inputs(tmp_path / "in"))
    assert main(words) == 0
    clean = tmp_path / "out/clean"
    documents = {document.url: document for document in read_all_documents(clean / "documents")}
    rejected = [row for path in (clean / "rejects").iterdir() for row in read_rejects(path)]
    path = tmp_path / "exclude.txt"
    path.write_text(
        "\ufeff# taken down\n\n"
        f"{documents[WEB[6]['url']].uid.hex().upper()}\n{WEB[8]['url']}\r\n"
        f"xn--bcher-kva.example\nThree.Example.\n{rejected[0].uid.hex()}\n"
        f"books\n{tmp_path}/in/files/b.jsonl\n",
        encoding="utf-8",
    )
    return [*words, f"clean.exclude={path}"], tmp_path


def test_the_files_are_those_of_a_run_that_never_had_the_documents(started, never_there, capsys):
    words, folder = started
    with_them = data(folder / "out")
    capsys.readouterr()
    assert main([*words, "executor.tasks=2"]) == 0
    said = capsys.readouterr().out
    mine = data(folder / "out")
    assert with_them.keys() >= never_there.keys()
    assert [name for name in {*mine, *never_there} if mine.get(name) != never_there.get(name)] == []
    assert "match nothing" not in said
    counts = json.loads((folder / "out/clean/report.json").read_text())["counts"]
    assert counts["ignored"]["excluded"] == len(WITHOUT)
    assert counts["notes"]["excluded_file"] == 2
    assert check_run(folder / "out")
    assert main([*words, "executor.tasks=2"]) == 0
    assert "clean: already complete" in capsys.readouterr().err


def test_lines_that_match_nothing_are_counted_and_named(tmp_path, capsys):
    """A source is no host: the source `web` has no dot, and `example` alone names no domain."""
    path = tmp_path / "exclude.txt"
    path.write_text(f"{'0' * 32}\nhttp://one.example/nowhere\nexample\none.example\nweb.example\nfiles/b.jsonl\n")
    words = words_of(tmp_path, write_inputs(tmp_path / "in"), f"clean.exclude={path}")
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.replace("\n", " ").split())
    assert "4 lines of exclude, which match nothing" in said
    assert all(each in said for each in ("0" * 32, "http://one.example/nowhere", "1 example,", "web.example"))
    counts = json.loads((tmp_path / "out/clean/report.json").read_text())["counts"]
    assert counts["ignored"]["excluded"] == 9, "the documents of one.example"
    assert counts["excluded_by"] == {"4": 9, "6": 1}


def test_the_content_of_the_file_decides_and_mistakes_are_told_before_the_work(tmp_path, capsys):
    path = tmp_path / "exclude.txt"
    words = words_of(tmp_path, write_inputs(tmp_path / "in"), f"clean.exclude={path}")
    assert main(words) == 64
    assert f"{path}: cannot be read" in capsys.readouterr().err
    path.write_bytes(b"\xff\xfe\n")
    assert main(words) == 64
    assert "expected UTF-8" in capsys.readouterr().err
    assert not (tmp_path / "out/clean/documents").exists()
    for content, again in (("books\n", True), ("books\n", False), ("files\n", True)):
        path.write_text(content)
        assert main(words) == 0
        assert ("clean: already complete" not in capsys.readouterr().err) == again
