"""Files of lines that are not UTF-8: read by the encoding that is named, or counted with a line that says how."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.readers import RawRecord
from tests.pipeline.captures import counted, read, texts

ROWS = ["Plain words of a row.", "Çà et là, “l’été” – 5 €.", "Another row, plain again."]


def content(reader: str, rows: list[str]) -> str:
    if reader == "csv":
        return "id,text\n" + "".join(f'{number},"{row}"\n' for number, row in enumerate(rows))
    if reader == "jsonl":
        return "".join(json.dumps({"text": row}, ensure_ascii=False) + "\n" for row in rows)
    return "".join(f"{row}\n" for row in rows)


OPTIONS = {"csv": {}, "jsonl": {}, "lines": {}, "tsv": {"columns": ["text"]}}


@pytest.mark.parametrize("reader", OPTIONS)
@pytest.mark.parametrize(
    ("label", "codec", "row"),
    [("windows-1252", "cp1252", ROWS[1]), ("ISO-8859-1", "cp1252", ROWS[1]), ("shift_jis", "cp932", "髙橋①㈱"),
     ("gbk", "gb18030", "价格是，“五元”"), ("euc-kr", "cp949", "젊은 펲시")],
)  # fmt: skip
def test_rows_of_a_named_encoding(tmp_path: Path, reader: str, label: str, codec: str, row: str) -> None:
    rows = [ROWS[0], row, ROWS[2]]
    data = content(reader, rows).encode(codec)
    (tmp_path / "rows").write_bytes(data)
    items = read(tmp_path / "rows", name=reader, encoding=label, **OPTIONS[reader])
    assert texts(items) == rows
    # a record starts where its bytes do
    for item in (item for item in items if isinstance(item, RawRecord)):
        assert item.text in data[item.locator :][: item.length].decode(codec)


@pytest.mark.parametrize("reader", OPTIONS)
def test_without_a_name_only_rows_of_utf_8_stay(tmp_path: Path, reader: str) -> None:
    (tmp_path / "rows").write_bytes(content(reader, ROWS).encode("cp1252"))
    items = read(tmp_path / "rows", name=reader, **OPTIONS[reader])
    assert texts(items) == [ROWS[0], ROWS[2]]
    assert counted(items)["bad_utf8"] == 1


def test_a_byte_that_the_encoding_does_not_have_costs_its_row(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"one\n\x81 two\nthree\n")
    items = read(tmp_path / "rows", name="lines", encoding="windows-1252")
    assert texts(items) == ["one", "three"]
    assert counted(items) == {"bad_utf8": 1}


@pytest.mark.parametrize("name", ["utf-16", "unicode_escape", "zlib", "nope", ""])
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "rows").write_bytes(b"one\n")
    with pytest.raises(ConfigurationError, match="expected a name of the Encoding Standard"):
        read(tmp_path / "rows", name="lines", encoding=name)


def test_the_summary_names_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.csv").write_bytes(content("csv", ROWS).encode("cp1252"))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"{{corpus: c, output: {tmp_path}/out, clean: {{language: null, filters: []}}}}\n")
    words = ["--config", str(recipe), f"input={tmp_path}/rows.csv"]
    assert main(words) == 0
    assert "name it as `encoding`" in " ".join(capsys.readouterr().out.split())
    named = [f"input.path={tmp_path}/rows.csv", "input.encoding=windows-1252", f"output={tmp_path}/other"]
    assert main([*words[:2], *named]) == 0
    assert "name it as `encoding`" not in " ".join(capsys.readouterr().out.split())
