"""Documents leave the pipeline and come back as they were."""

from __future__ import annotations

import json
from pathlib import Path

import fsspec
import pytest
import zstandard
from pyarrow import parquet

from clozeline.pipeline.execution.inputs import source_files
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.ingest.documents.document import DOCUMENT_SCHEMA, Document, document_uid
from clozeline.pipeline.ingest.documents.files import read_documents, write_documents
from clozeline.tools.shards.export_documents import main
from tests.pipeline.clean.cleaning import recipe_for

TEXTS = ["A plain text.", "Zwei Zeilen\nmit Umlauten: äöü", "العربية 😀", 'quotes " and \\ and \t tabs']


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Return documents in two files, the second without any row."""
    folder = tmp_path / "dedup" / "documents"
    folder.mkdir(parents=True)
    rows = [
        Document(
            uid=document_uid("corpus", "a.jsonl", "jsonl", number), text=text, source="a.jsonl", offset=number,
            date=1_700_000_000 + number if number % 2 else None, language="de" if number else "und",
            extra={"title": text[:3]} if number == 2 else {}, target_text="pair" if number == 3 else None,
        )
        for number, text in enumerate(TEXTS)
    ]  # fmt: skip
    write_documents(folder / "000000.arrow", rows)
    write_documents(folder / "000001.arrow", [])
    return folder


def test_lines_of_json_have_every_column(documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(documents), f"output={tmp_path / 'out'}"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out'}: 4 documents in 2 files\n"
    text = zstandard.ZstdDecompressor().decompressobj().decompress((tmp_path / "out/000000.jsonl.zst").read_bytes())
    rows = [json.loads(line) for line in text.decode().splitlines()]
    for row, document in zip(rows, read_documents(documents / "000000.arrow"), strict=True):
        assert list(row) == sorted(row)
        assert bytes.fromhex(row["uid"]) == document.uid
        assert row["extra"] == document.extra
        for name in ("text", "source", "offset", "language", "target_text"):
            assert row.get(name) == getattr(document, name)
    assert [row.get("date", "")[:10] for row in rows] == ["", "2023-11-14", "", "2023-11-14"]


def test_parquet_has_every_column(documents: Path, tmp_path: Path) -> None:
    assert main([str(documents), f"output={tmp_path / 'out'}", "format=parquet"]) == 0
    table = parquet.read_table(tmp_path / "out" / "000000.parquet")
    assert table.column_names == DOCUMENT_SCHEMA.names
    assert table.column("text").to_pylist() == TEXTS
    assert table.column("uid").to_pylist() == [each.uid for each in read_documents(documents / "000000.arrow")]
    assert parquet.read_table(tmp_path / "out" / "000001.parquet").num_rows == 0


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_the_pipeline_reads_the_export(kind: str, documents: Path, tmp_path: Path) -> None:
    assert main([str(documents), f"output={tmp_path / 'out'}", f"format={kind}"]) == 0
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("{corpus: back, clean: {language: null, filters: []}, heldout: {fraction: 0}}")
    words = ["--config", str(recipe), f"input={tmp_path / 'out'}/*.*", f"output={tmp_path / 'back'}"]
    assert run_pipeline(words) == 0
    files = sorted((tmp_path / "back" / "clean" / "documents").glob("*.arrow"))
    assert sorted(each.text for file in files for each in read_documents(file)) == sorted(TEXTS)


def test_a_folder_without_documents_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), f"output={tmp_path / 'out'}"]) == 64
    assert "give a folder such as OUT/dedup/documents" in capsys.readouterr().err


def test_an_export_to_a_store_is_that_to_a_disk_and_is_read_there(documents: Path, tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    try:
        assert main([str(documents), f"output={tmp_path / 'out'}"]) == 0
        assert main([str(documents), "output=memory://exported/documents"]) == 0
        for file in (tmp_path / "out").iterdir():
            assert system.cat(f"/exported/documents/{file.name}") == file.read_bytes()
        recipe = recipe_for("memory://exported/documents/*.jsonl.zst", tmp_path / "again")
        assert [load.bytes for load in source_files(recipe.input)] == [
            (tmp_path / "out" / f"00000{number}.jsonl.zst").stat().st_size for number in range(2)
        ]
    finally:
        system.rm("/exported", recursive=True)
