"""Documents as lines of JSON, with every column."""

import json

import pytest
import zstandard

from clozeline.extensions.datatrove.commands.export_documents import main as export_documents
from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.ingest.documents.files import read_documents, write_documents

TEXTS = [
    "A plain text.",
    "Zwei Zeilen\nmit Umlauten: äöü",
    "العربية 😀",
    'quotes " and \\ and \t tabs',
]


@pytest.fixture
def documents(tmp_path):
    """Return documents in two files, the second without any row."""
    folder = tmp_path / "dedup" / "documents"
    folder.mkdir(parents=True)
    rows = [
        Document(
            uid=document_uid("corpus", "a.jsonl", "jsonl", number),
            text=text,
            source="a.jsonl",
            offset=number,
            date=1_700_000_000 + number if number % 2 else None,
            language="de" if number else "und",
            extra={"title": text[:3]} if number == 2 else {},
            target_text="pair" if number == 3 else None,
        )
        for number, text in enumerate(TEXTS)
    ]

    write_documents(folder / "000000.arrow", rows)
    write_documents(folder / "000001.arrow", [])
    return folder


def test_lines_of_json_have_every_column(documents, tmp_path, capsys):
    assert export_documents([str(documents), f"output={tmp_path / 'out'}"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out'}: 4 documents in 2 files\n"

    text = (
        zstandard.ZstdDecompressor()
        .decompressobj()
        .decompress((tmp_path / "out/000000.jsonl.zst").read_bytes())
    )

    rows = [json.loads(line) for line in text.decode().splitlines()]
    for row, document in zip(rows, read_documents(documents / "000000.arrow"), strict=True):
        assert list(row) == sorted(row)
        assert bytes.fromhex(row["uid"]) == document.uid
        assert row["extra"] == document.extra
        for name in ("text", "source", "offset", "language", "target_text"):
            assert row.get(name) == getattr(document, name)

    assert [row.get("date", "")[:10] for row in rows] == ["", "2023-11-14", "", "2023-11-14"]


def test_a_folder_without_documents_is_refused(tmp_path, capsys):
    assert export_documents([str(tmp_path), f"output={tmp_path / 'out'}"]) == 64
    assert "give a stage such as OUT/dedup" in capsys.readouterr().err
