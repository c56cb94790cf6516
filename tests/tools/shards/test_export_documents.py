"""Documents leave the pipeline and come back as they were."""

import json

import pytest
import zstandard

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.ingest.documents.files import read_documents, write_documents
from clozeline.tools.shards.export_documents import main

TEXTS = ["A plain text.", "Zwei Zeilen\nmit Umlauten: äöü", "العربية 😀", 'quotes " and \\ and \t tabs']


@pytest.fixture
def documents(tmp_path):
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


def test_lines_of_json_have_every_column(documents, tmp_path, capsys):
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


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_the_pipeline_reads_the_export(kind, documents, tmp_path):
    assert main([str(documents), f"output={tmp_path / 'out'}", f"format={kind}"]) == 0
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("{corpus: back, clean: {language: null, filters: []}, heldout: {fraction: 0}}")
    words = ["--config", str(recipe), f"input={tmp_path / 'out'}/*.*", f"output={tmp_path / 'back'}"]
    assert run_pipeline(words) == 0
    files = sorted((tmp_path / "back" / "clean" / "documents").glob("*.arrow"))
    assert sorted(each.text for file in files for each in read_documents(file)) == sorted(TEXTS)


def test_a_folder_without_documents_is_refused(tmp_path, capsys):
    assert main([str(tmp_path), f"output={tmp_path / 'out'}"]) == 64
    assert "give a folder such as OUT/dedup/documents" in capsys.readouterr().err
