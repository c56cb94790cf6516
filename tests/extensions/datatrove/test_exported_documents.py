"""Documents leave a run by `clozeline export-documents` and come back the same: every column."""

import json
import shutil

import pandas as pd
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.errors import ClozelineError, PartialFailureError
from clozeline.extensions.datatrove.commands.export_documents import main as export_documents
from clozeline.extensions.datatrove.steps import ClozelineReader
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import (
    read_all_documents,
    read_rejections,
    write_documents,
)
from clozeline.pipeline.ingest.documents.schema import DOCUMENT_SCHEMA
from tests.pipeline.captures import http, members, page, record
from tests.pipeline.clean.cleaning import recipe_for, run_clean
from tests.pipeline.miniature import text, write_recipe
from tests.refusals import refused

EXTRAS = (
    {"id": "r-1", "score": 0.1, "deep": {"a": [1, None, {"b": "é"}]}},
    {"id": -(2**63) + 1, "most": 2**63 - 1, "less": -1234567890123456789, "tiny": 5e-324},
    {"uid": "not the uid", "source": "not the source", "id": None},
    {},
)
DATES = ("1969-12-31T23:59:59+00:00", "2024-02-29T12:00:00+01:00", "0001-01-02", "9999-12-30")


def tables(folder):
    """Every column of the documents of a run, by uid."""
    files = sorted((folder / "clean/documents").glob("*.arrow"))
    parts = [pa.ipc.open_file(pa.OSFile(str(file))).read_all() for file in files]
    rows = [row for part in parts for row in part.to_pylist()]
    assert {name for row in rows for name in row} == set(DOCUMENT_SCHEMA.names)
    return sorted(rows, key=lambda row: row["uid"])


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Documents of rows, pages and pairs with something in every column."""
    folder = tmp_path_factory.mktemp("first")
    rows = [
        {"text": f"{text(number)} Mail {number}@example.org!", "url": f"http://a{number}.example/"}
        | {"day": DATES[number % 4], "lang": ("en", "de", None)[number % 3]}
        | EXTRAS[number % 4]
        for number in range(12)
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pages = [record(http(page(number)), f"http://p.example/{number}") for number in range(3)]
    (folder / "pages.warc.gz").write_bytes(members(pages))
    (folder / "pairs.tsv").write_text("It is raining.\tEs regnet.\nYes.\tJa.\n")
    (folder / "code.txt").write_bytes("def f():\r\n\treturn '\u2028\x0c\x00'\n\n\n".encode())
    entries = [
        {
            "path": f"{folder}/rows.jsonl",
            "source": "rows",
            "date_key": "day",
            "language_key": "lang",
        },
        {"path": f"{folder}/pages.warc.gz", "source": "pages"},
        {"path": f"{folder}/pairs.tsv", "language": "en", "target_language": "de"},
        {"path": f"{folder}/code.txt", "source": "code"},
    ]
    clean = {"language": None, "filters": ["pii"], "sources": {"code": {"normalize": "none"}}}
    run_clean(entries, folder / "out", clean)
    documents = tables(folder / "out")

    assert len(documents) == 18
    assert all(any(row[name] for row in documents) for name in DOCUMENT_SCHEMA.names)
    (folder / "out/clean/index.arrow").touch()  # `decontaminate` writes one
    return folder / "out", documents


def exported(first, folder, form):
    """The files of an export; `pandas` and `csv` are what another program makes of it."""
    written = "jsonl" if form == "jsonl" else "parquet"
    assert (
        export_documents([f"{first}/clean", f"output={folder / written}", f"format={written}"]) == 0
    )
    if form not in ("pandas", "csv"):
        return folder / written

    (folder / form).mkdir()
    for file in (folder / "parquet").iterdir():
        frame = pd.read_parquet(file)
        if form == "pandas":
            frame.to_parquet(folder / form / file.name)
        else:
            frame["uid"] = frame["uid"].map(bytes.hex)
            # carriage returns and NUL are no text of a CSV file
            frame[frame["source_group"] != "code"].to_csv(
                folder / form / f"{file.stem}.csv", index=False
            )
    return folder / form


@pytest.mark.parametrize("form", ["jsonl", "parquet", "pandas", "csv"])
def test_every_column_comes_back(first, tmp_path, form):
    output, documents = first
    files = exported(output, tmp_path, form)
    clean = {"language": None, "filters": ["pii"], "normalize": "none"}
    entry = {"path": str(files), "exported": True, "source": "another"}
    again = run_clean(entry, tmp_path / "again", clean, corpus="another")
    expected = [row for row in documents if form != "csv" or row["source_group"] != "code"]

    assert tables(tmp_path / "again") == expected
    assert sum(again.counts["malformed"].values()) == 0


def test_lines_of_json_are_plain(first, tmp_path, capsys):
    output, documents = first
    files = exported(output, tmp_path, "jsonl")

    assert capsys.readouterr().out == f"{files}: 18 documents in {len([*files.iterdir()])} files\n"

    rows = [json.loads(line) for file in files.iterdir() for line in zstandard.open(file, "rt")]

    assert [*map(list, rows)] == [*map(sorted, rows)]
    assert {(bytes.fromhex(row["uid"]), row["text"]) for row in rows} == {
        (row["uid"], row["text"]) for row in documents
    }
    assert {row.get("date", "")[:10] for row in rows} >= {day[:10] for day in DATES}


def test_a_folder_without_documents_is_refused(tmp_path, capsys):
    assert export_documents([str(tmp_path), f"output={tmp_path}/out"]) == 64
    assert "expected the documents of a pipeline" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["one.jsonl", "one.jsonl.zst", "one.parquet"])
def test_the_last_stage_of_a_pipeline_fits_one_file(first, tmp_path, capsys, name):
    output, documents = first
    assert export_documents([str(output), f"output={tmp_path / name}"]) == 0
    assert "18 documents in 1 file" in capsys.readouterr().out

    clean = {"language": None, "filters": ["pii"], "normalize": "none"}
    entry = {"path": str(tmp_path / name), "exported": True}
    run_clean(entry, tmp_path / "again", clean, corpus="another")

    assert tables(tmp_path / "again") == documents


@pytest.mark.parametrize("pattern", ["documents", "documents/*", "records/main/*"])
def test_a_lost_part_is_an_error(first, tmp_path, pattern):
    stage = shutil.copytree(first[0] / "clean", tmp_path / "clean")
    next(iter(stage.glob(pattern))).rename(tmp_path / "lost")

    assert export_documents([str(stage), f"output={tmp_path}/out"]) in (64, 65, 74)
    assert not (tmp_path / "out").exists()
    for read in (ClozelineReader(tmp_path).run(), read_all_documents(stage / "documents")):
        with pytest.raises(ClozelineError):
            list(read)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1 - 2**63, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab.", max_size=3), inner),
    max_leaves=5,
)
DOCUMENTS = st.builds(
    Document,
    uid=st.binary(min_size=16, max_size=16),
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(lambda word: f"a{word}"),
    source=st.text("a/b.%!é", min_size=1),
    source_group=st.sampled_from(["default", "x"]),
    offset=st.integers(0, 2**63),
    length=st.integers(0, 2**64 - 1),
    url=st.none() | st.text("ab:/?é ", min_size=1),
    date=st.none() | st.integers(-(10**10), 10**11),
    language=st.sampled_from(["en", "de", "und"]),
    language_score=st.floats(0, 1, width=32),
    flags=st.integers(0, 2**32 - 1),
    extra=st.dictionaries(st.text("ab.\n", max_size=3) | st.sampled_from(["id", "url"]), JSON),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(DOCUMENTS, min_size=1, max_size=4, unique_by=lambda each: each.uid))
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_any_document_comes_back(tmp_path_factory, form, documents):
    folder = tmp_path_factory.mktemp("any")
    written = [document.replace_text(document.text) for document in documents]
    (folder / "first").mkdir()
    write_documents(folder / "first/000000.arrow", written)
    words = [f"{folder}/first", f"output={folder}/files", f"format={form}"]

    assert export_documents(words) == 0

    clean = {"language": None, "filters": [], "normalize": "none"}
    entry = {"path": f"{folder}/files", "exported": True}
    again = run_clean(entry, folder / "again", clean)
    computed = {"host", "n_words"}
    found = [each.as_row() for each in again.documents]

    assert [{k: v for k, v in row.items() if k not in computed} for row in found] == [
        {k: v for k, v in each.as_row().items() if k not in computed} for each in written
    ]


def test_a_program_may_change_texts_add_columns_and_leave_some_out(first, tmp_path):
    output, documents = first
    files = exported(output, tmp_path, "parquet")
    changed = tmp_path / "changed.jsonl"
    frames = [pd.read_parquet(file)[["uid", "text", "extra"]] for file in files.iterdir()]
    rows = [row for frame in frames for row in frame.to_dict("records")]
    lines = [
        json.dumps({"uid": row["uid"].hex(), "text": f"{row['text']} More.", "extra": row["extra"]})
        for row in rows
    ]
    graded = [json.dumps({**json.loads(line), "grade": 3, "id": "new"}) for line in lines]
    changed.write_text("\n".join(graded))
    entry = {"path": str(changed), "exported": True, "source": "graded"}
    again = run_clean(entry, tmp_path / "again")
    before = {row["uid"]: row for row in documents}

    assert {each.uid for each in again.documents} == before.keys()

    for each in again.documents:
        extra = json.loads(before[each.uid]["extra"])
        assert each.extra == {**extra, "grade": 3, "id": "new"}
        assert each.text.endswith(" More.")
        assert (each.source, each.source_group) == ("graded/changed.jsonl", "graded")


GOOD = {"uid": "0" * 31 + "1", "text": "A text.", "extra": {}}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("uid", None),
        ("uid", "12"),
        ("uid", "x" * 32),
        ("uid", 5),
        ("uid", "b'\\x00\\x01'"),
        ("offset", -1),
        ("offset", 1.5),
        ("length", 2**64),
        ("flags", "many"),
        ("date", "yesterday"),
        ("language_score", 2),
        ("extra", "[1"),
        ("extra", 7),
        ("source", ["a"]),
    ],
)
def test_a_row_with_an_unusable_column_is_counted_and_names_it(tmp_path, column, value):
    rows = [GOOD, {**GOOD, "uid": "0" * 31 + "2", column: value}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = run_clean({"path": f"{tmp_path}/rows.jsonl", "exported": True}, tmp_path / "out")

    assert [each.uid.hex() for each in done.documents] == [GOOD["uid"]]
    assert done.nonzero("malformed") == {"bad_document": 1}
    assert column in next(read_rejections(next(done.folder.glob("rejects/*")))).detail


def test_keys_that_contradict_each_other_are_refused(tmp_path):
    for key in ({"text_key": "body"}, {"date_key": "day"}, {"split": {"pattern": "^C"}}):
        entry = {"path": "x.jsonl", "reader": "jsonl", "exported": True, **key}
        with refused(next(iter(key))):
            recipe_for(entry, tmp_path)


RECIPE = """
corpus: CORPUS
seed: 3
heldout: {fraction: 0.2}
clean: {language: null, filters: []}
train_tokenizer: {name: byte_bpe, size: 500}
encode: {extra: [license]}
group: {}
corrupt: [{name: masked_lm, max_length: 64}]
plan: {shard_bytes: 10000000}
"""


def run(folder, name, source, corpus):
    recipe = write_recipe(folder, RECIPE.replace("CORPUS", corpus))
    return main(["--config", str(recipe), f"input={source}", f"output={folder / name}"])


def test_an_export_that_is_read_twice_is_refused(tmp_path, capsys):
    (tmp_path / "files").mkdir()
    twice = "\n".join([json.dumps(GOOD)] * 2)
    (tmp_path / "files/a.jsonl").write_text(twice)
    entry = {"path": f"{tmp_path}/files", "exported": True}

    with pytest.raises(PartialFailureError, match=r"two documents have the uid 0{31}1.*once"):
        run_clean(entry, tmp_path / "one")

    # in two units
    rows = [{**GOOD, "uid": f"{number:032x}", "text": text(number)} for number in range(1, 9)]
    for name in "ab":
        lines = "\n".join(map(json.dumps, rows))
        (tmp_path / "files" / f"{name}.jsonl").write_text(lines)
    source = f"{{path: {tmp_path}/files, exported: true}}"
    recipe = write_recipe(tmp_path, RECIPE.replace("plan: {", "plan: {unit_bytes: 4096, "))
    words = ["--config", str(recipe), f"input={source}", f"output={tmp_path}/two"]

    assert main(words) == 65
    assert "8 documents have the same uid" in capsys.readouterr().err
