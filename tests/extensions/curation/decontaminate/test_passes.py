"""The stage in a run: any number of tasks, resumed after a kill, refused files, and what later
stages see of it."""

import shutil

from clozeline.files import file_hash
from clozeline.pipeline.execution.recipe_command import run_stage
from clozeline.pipeline.execution.report import read_report
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.shards import open_shards
from tests.pipeline.miniature import text
from tests.pipeline.run_counts import check_run


def test_leaked_documents_are_gone_and_the_page_shows_the_suite(complete):
    _, finished = complete
    paths = sorted((finished / "decontaminate/documents").iterdir())
    urls = [document.url for path in paths for document in read_documents(path)]

    assert not {f"http://x.example/{number}" for number in (4, 9, 23)} & set(urls)

    counts = read_report(finished / "decontaminate")["counts"]

    assert counts["rejected"]["contaminated"] == counts["suites"]["items"]["contaminated"] == 3
    assert counts["documents_in"] == len(urls) + 3
    assert check_run(finished)

    parents = open_shards(finished / "encode").manifest.parents
    found = {(parent.name, parent.role): parent.digest for parent in parents}

    assert found["decontaminate", "evaluation index"] == file_hash(
        finished / "decontaminate/index.arrow"
    )


def test_rows_that_a_reader_rejects_are_looked_for_and_rows_without_a_text_are_told(
    complete, tmp_path, caplog, capsys
):
    start, finished = complete
    shutil.copytree(finished / "clean", tmp_path / "clean")
    shutil.copytree(finished / "dedup", tmp_path / "dedup")
    sets = (
        f"decontaminate.against=[{{path: {tmp_path}/dev.tsv, reader: {{name: glue, task: sst2}}}}]"
    )
    leaked = " ".join(text(4, 10).split()[8:30])
    rows = f"a film of no kind at all\t1\nanother one\t0\n{leaked}\t7\n".encode()
    (tmp_path / "dev.tsv").write_bytes(b"sentence\tlabel\n" + rows + b"\x81\x8d\t1\n\n")

    assert run_stage("decontaminate", [*start, f"output={tmp_path}", sets]) == 0

    counts = read_report(tmp_path / "decontaminate")["counts"]
    (suite,) = counts["suites"].values()

    assert {name: suite[name] for name in ("items", "unreadable", "contaminated")} == {
        "items": 3,
        "unreadable": 2,
        "contaminated": 1,
    }
    assert counts["rejected"] == {"contaminated": 1}
    assert "dev.tsv: 1 row rejected as bad_utf8, 1 row rejected as blank_line" in caplog.text

    (tmp_path / "dev.tsv").write_bytes(b"sentence\tlabel\n\x81\x8d\t7\n")

    assert run_stage("decontaminate", [*start, f"output={tmp_path}", sets]) == 64
    assert (
        "dev.tsv: there are no evaluation items (1 row rejected as bad_utf8)"
        in capsys.readouterr().err
    )
