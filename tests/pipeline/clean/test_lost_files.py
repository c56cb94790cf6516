"""Encodings are guessed, and a file that loses more than half of its rows stops the run."""

import gzip
import json
import re
import shlex

import pytest

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.tools.shards.filter_report import main as filter_report
from tests.pipeline.clean.cleaning import run_clean

GERMAN = "Die Straße führt über die Brücke, und Müller hört schöne Lieder: Nummer"
RUSSIAN = "Река поднималась с самого утра, и никто в деревне не спал: номер"
FRENCH = "La rivière montait, l'école était vidée, et personne ne dormait là-bas : le"


def write_rows(name, texts):
    """The rows of a table, a file of JSON, or a text."""
    if name.startswith("a.tsv"):
        return "id\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(texts))
    if name.startswith("a.csv"):
        return "id;text\n" + "".join(f'{n};"{text}"\n' for n, text in enumerate(texts))
    if name.startswith("a.jsonl"):
        return "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    return "\n".join(texts)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.jsonl.gz", "a.txt"])
@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"),
        (GERMAN, "utf-16"),
        (FRENCH, "latin-1"),
        (FRENCH, "utf-8"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "utf-16"),
    ],
)
def test_texts_of_any_encoding_are_read(tmp_path, name, text, encoding):
    """The first rows may be ASCII, and any range of a file is read alike."""
    texts = [*(f"Number {number}." for number in range(300)), *(f"{text} {n}" for n in range(99))]
    content = write_rows(name, texts).encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    done = run_clean(str(path), tmp_path / "out", plan={"unit_bytes": 4096})
    found = [line for document in done.documents for line in document.text.split("\n")]

    assert sorted(found) == sorted(texts)
    assert done.nonzero("malformed") == {}
    is_guessed = encoding not in ("utf-8", "utf-16")
    assert is_guessed == bool(re.search("looks like cp125|encoding_guessed", str(done.summary.row)))


GOOD = json.dumps({"text": "The river had been rising since the early morning."}) + "\n"


@pytest.mark.parametrize(
    ("files", "said", "remedy"),
    [
        (
            {"a.jsonl": (f'{{"text": "{RUSSIAN}"}}\n' * 9 + GOOD).encode("cp1251")},
            "a.jsonl: 9 of 10 rows.*look like cp1251",
            "input.encoding=cp1251",
        ),
        ({"a.csv": b"id,body\n1,a\n2,b\n"}, "a.csv: 2 of 2.*id", "input.text_key=body"),
        (
            {
                "a.jsonl": GOOD.encode()
                + f'{{"text": "{RUSSIAN}"}}\n'.encode() * 80
                + b'{"text": "\xfc"}\n' * 90
            },
            "a.jsonl: 90 of 171.*mixes",
            "",
        ),
        ({"a.jsonl": (GOOD + "{x\n" * 2).encode()}, "a.jsonl: 2 of 3.*line 2", ""),
        ({"a.txt": b"\0\xff" * 99, "b.txt": b"b"}, "a.txt: 1 of 1.*charset", ""),
        ({"a.txt.gz": gzip.compress(b"x" * (2**26 + 1))}, "a.txt.gz.* limits.record_bytes;?", ""),
    ],
)
def test_a_file_that_loses_most_rows_stops_the_run(tmp_path, capsys, files, said, remedy):
    """Each key that the message proposes leads to a run."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/good.jsonl").write_text(GOOD * 99)
    for name, content in files.items():
        (tmp_path / "in" / name).write_bytes(content)
    words = ["clean", "clean.language=null", "clean.filters=[]"]
    named = "input={path: %s/in, encoding: shift_jis}" if "cp1251" in said else "input=%s/in"

    assert main([*words, named % tmp_path, f"output={tmp_path}/out"]) == 64

    shown = " ".join(capsys.readouterr().err.split())

    assert re.search(said, shown)
    assert "documents were dropped" not in shown

    accept = re.search(r"on_error\.malformed=\w+", shown)[0]
    assert main([*words, named % tmp_path, f"output={tmp_path}/out", accept]) == 0

    if remedy:
        assert remedy.partition("=")[0] in shown
        one = f"input={tmp_path}/in/{next(iter(files))}"
        assert main([*words, one, f"output={tmp_path}/one", remedy]) == 0


@pytest.mark.parametrize(
    ("remedy", "documents"),
    [
        (r"input='\{.*?\}'", 102),
        (r"limits.record_bytes=1010 limits.text_chars=1010\b", 2),
        ("on_error.malformed=accept", 1),
    ],
)
def test_a_text_above_the_limit_is_refused_before_it_is_read(tmp_path, capsys, remedy, documents):
    """Each remedy leads to a run; rows of other readers may be in a larger file."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/large.txt").write_text("".join(f"line {n:04d}\n" for n in range(101)))
    (tmp_path / "in/small.md").write_text("words")
    words = ["clean", "clean.language=null", "clean.filters=[]", f"output={tmp_path}/out"]
    words += [f"input={tmp_path}/in", "limits.record_bytes=1009"]

    assert main([*words, "--plan"]) == main(words) == 64
    shown = " ".join(capsys.readouterr().err.split())
    assert f"files above limits.record_bytes=1009 (1): {tmp_path}/in/large.txt: each" in shown

    assert main([*words, *shlex.split(re.search(remedy, shown)[0])]) == 0
    assert len([*read_all_documents(tmp_path / "out/clean/documents")]) == documents


@pytest.mark.parametrize(
    ("rows", "malformed"),
    [
        ([{"text": ""}, {"text": None}, {"text": " "}], {"empty": 3}),
        ([{"text": "b"}, {"body": "c"}, {"body": "d"}], {"no_text": 2}),
    ],
)
def test_blank_rows_and_half_of_a_file_are_no_loss(tmp_path, rows, malformed):
    path = tmp_path / "a.jsonl"
    path.write_text(GOOD + "".join(json.dumps(row) + "\n" for row in rows))
    done = run_clean(str(path), tmp_path / "out", on_error={"malformed": "fail"})
    assert done.nonzero("malformed") == malformed


def test_a_notice_leads_to_what_was_dropped(tmp_path, capsys):
    """Counts by language, texts and lines; the path has a blank."""
    rows = [GOOD, *[json.dumps({"text": f"{RUSSIAN} {n}"}) + "\n" for n in range(5)], "{x\n"]
    (tmp_path / "a.jsonl").write_text("".join(rows) + GOOD * 5)
    words = ["clean", f"input={tmp_path}/a.jsonl", f"output={tmp_path}/my run"]
    language = "clean.language={name: py3langid, keep: [en]}"

    assert main([*words, language, "clean.filters=[]"]) == 0

    shown = capsys.readouterr().out.replace("\n", "")
    command = re.search("`clozeline filter-report ([^`]*)`", shown)[1]

    assert filter_report(shlex.split(command)) == 0

    report = " ".join(capsys.readouterr().out.split())

    assert "language 5 clean.language.keep 5 ru" in report
    assert RUSSIAN[:20] in report
    assert re.search(r"bad_json.*a\.jsonl at [\d,]+ line 7", report)
    assert " 0 " not in report.partition("measured")[2]
