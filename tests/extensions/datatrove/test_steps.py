"""Documents go into a pipeline of datatrove and come back; a datatrove pipeline ends in our run."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from datatrove.data import Document, Media

from clozeline.configuration.config import validate
from clozeline.extensions.datatrove.steps import ClozelineReader, ClozelineShards
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.runner import run_recipe
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.clean.cleaning import LENIENT, run_clean
from tests.refusals import refused

PAGE = Path(__file__).parents[3] / "extensions/datatrove/README.md"
PROGRAM = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)[1]
"""The program of the page, which reads `crawl/` with two tasks and writes `handed-over`."""


_BACK = """
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.filters import RegexFilter
from clozeline.extensions.datatrove.steps import ClozelineReader, ClozelineShards

if __name__ == "__main__":
    steps = [ClozelineReader("ours"), RegexFilter("bank"), ClozelineShards("back")]
    LocalPipelineExecutor(steps, tasks=2, logging_dir="logs/back").run()
"""


def run_program(folder: Path, program: str) -> None:
    """Run a pipeline of datatrove in a folder outside of the checkout."""
    script = folder / "program.py"
    script.write_text(program)
    subprocess.run([sys.executable, str(script)], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    """Twelve rows in four files: texts, ids, dates, scores and languages."""
    folder = tmp_path_factory.mktemp("crawl")
    rows = [
        {
            "text": f"Text {number} about the {'casino' if number % 4 == 3 else 'river bank'[: 5 + 5 * (number % 2)]}.",
            "id": f"row-{number}",
            "metadata": {
                "url": f"https://www.example.org/{number}",
                "date": "2024-05-06T07:08:09+00:00",
                "language": "en" if number % 2 else "a language",
                "language_score": 0.5,
                "score": {"edu": number},
            },
        }
        for number in range(12)
    ]
    for file in range(4):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows[file * 3 : file * 3 + 3])
        (folder / f"{file}.jsonl").write_text(lines)
    return folder, rows


def test_a_datatrove_pipeline_ends_in_our_documents(tmp_path, crawl):
    folder, rows = crawl
    shutil.copytree(folder, tmp_path / "crawl")
    run_program(tmp_path, PROGRAM)
    expected = {row["text"]: row for row in rows if "casino" not in row["text"]}

    # the recipe has no key `clean`
    keys = {
        "corpus": "web",
        "input": {"path": f"{tmp_path}/handed-over", "exported": True},
        "output": f"{tmp_path}/out",
        "dedup": {"near": None},
    }
    run_recipe(validate(Recipe, keys, "test"), None, Progress(), [])
    found = list(read_all_documents(tmp_path / "out/dedup/documents"))

    assert {document.text for document in found} == expected.keys()
    assert len({document.uid for document in found}) == len(expected) == 9
    for document in found:
        metadata = expected[document.text]["metadata"]
        is_known = metadata["language"] == "en"
        assert document.record_id == expected[document.text]["id"]
        assert (document.url, document.host) == (metadata["url"], "www.example.org")
        assert document.date == 1714979289
        assert document.language == ("en" if is_known else "und")
        assert document.extra["score"] == metadata["score"]
        assert is_known == ("language" not in document.extra)
        assert document.source_group == "datatrove"

    # another run gives the same bytes
    before = {file.name: file.read_bytes() for file in (tmp_path / "handed-over").iterdir()}
    shutil.rmtree(tmp_path / "handed-over")
    shutil.rmtree(tmp_path / "logs")
    run_program(tmp_path, PROGRAM)
    after = {file.name: file.read_bytes() for file in (tmp_path / "handed-over").iterdir()}
    assert after == before
    assert len(before) == 2


def test_our_documents_go_through_datatrove_with_their_uids(tmp_path, crawl):
    folder, _ = crawl
    options = {"url_key": "metadata.url", "date_key": "metadata.date", "id_key": "id"}
    source = {"path": str(folder), "language": "en", "source": "web", **options}
    before = {
        document.uid: document
        for document in run_clean(source, tmp_path / "ours").documents
        if "bank" not in document.text
    }

    run_program(tmp_path, _BACK)
    back = run_clean({"path": f"{tmp_path}/back", "exported": True}, tmp_path / "out").documents

    assert 0 < len(before) < 12
    assert {document.uid: document for document in back} == before


def write(step, documents, rank=0, world_size=1):
    return list(step.run(iter(documents), rank, world_size))


def test_a_task_that_fails_leaves_no_file(tmp_path):
    def fail():
        yield Document("a text", "1")
        raise RuntimeError("the reader died")

    step = ClozelineShards(tmp_path / "handed")
    with pytest.raises(RuntimeError):
        list(step.run(fail()))
    assert [path for path in (tmp_path / "handed").iterdir() if path.suffix == ".zst"] == []


def test_documents_of_two_numbers_of_tasks_are_refused(tmp_path):
    step = ClozelineShards(tmp_path)
    write(step, [Document("a text", "1")], 0, 2)
    write(step, [Document("a text", "1")], 1, 2)
    with refused("another number of tasks"):
        write(step, [Document("a text", "1")], 0, 4)


def test_a_store_is_refused():
    with refused("local or shared folder"):
        ClozelineShards("s3://bucket/folder")


def test_metadata_that_json_cannot_hold_and_media_do_not_end_a_task(tmp_path):
    metadata = {"number": 2**70, "bytes": b"\xff", "nan": float("nan"), "date": "soon", "url": 7}
    document = Document("a \ud800 text", "x", [Media("m", 0, "u")], metadata)
    step = ClozelineShards(tmp_path / "handed")
    assert write(step, [document, Document("", "empty"), document]) == [
        document,
        Document("", "empty"),
        document,
    ]

    (file,) = (tmp_path / "handed").glob("*.zst")
    with zstandard.open(file, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    assert [row["extra"]["id"] for row in rows] == ["x", "empty", "x"]
    assert rows[0]["extra"]["date"] == "soon"
    assert "date" not in rows[0]
    found = run_clean({"path": f"{tmp_path}/handed", "exported": True}, tmp_path / "out")
    assert Counter(found.counts["malformed"])["empty"] == 1
    assert [document.text for document in found.documents] == ["a ? text"] * 2
    assert len({document.uid for document in found.documents}) == 2


def test_a_reader_of_a_folder_without_documents_says_so(tmp_path):
    with refused("documents of a pipeline"):
        list(ClozelineReader(tmp_path).run())


def test_a_task_without_a_file_yields_nothing(tmp_path, crawl):
    run_clean(str(crawl[0]), tmp_path, LENIENT)
    ranks = [list(ClozelineReader(tmp_path).run(None, rank, 8)) for rank in range(8)]
    assert sorted(map(len, ranks)) == [0, 0, 0, 0, 3, 3, 3, 3]
