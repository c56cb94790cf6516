"""Keys of text, URL, id, language and date: nested or literal in every format.

A key that finds nothing is told.
"""

import json

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.ingest.formats.dates import parse_date
from clozeline.pipeline.ingest.readers._rows import value_at
from tests.pipeline.clean.cleaning import run_clean

ROWS = [
    {
        "body": {"text": f"Text number {number} of the set."},
        "id": f"<urn:{number}>",
        "n": number,
        "metadata": {
            "url": f"https://example.org/{number}",
            "date": "2020-01-02T00:00:00Z",
            "language": "de",
            "score": 0.5,
            "ids": {"page": number},
        },
    }
    for number in range(3)
]
KEYS = {
    "text_key": "body.text",
    "url_key": "metadata.url",
    "language_key": "metadata.language",
    "date_key": "metadata.date",
    "id_key": "metadata.ids.page",
}


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_array(path, rows):
    path.write_text(json.dumps(rows))


def write_parquet(path, rows):
    pa.parquet.write_table(pa.Table.from_pylist(rows), path)


def write_arrow(path, rows):
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(path, table.schema) as file:
        file.write_table(table)


WRITE = {
    "a.jsonl": write_jsonl,
    "a.json": write_array,
    "a.parquet": write_parquet,
    "a.arrow": write_arrow,
}


def cleaned(tmp_path, name, rows, **keys):
    WRITE[name](tmp_path / name, rows)
    return run_clean({"path": str(tmp_path / name), **keys}, tmp_path / "out")


@pytest.mark.parametrize("name", WRITE)
def test_nested_fields_are_found_and_the_others_stay(tmp_path, name):
    done = cleaned(tmp_path, name, ROWS, **KEYS)

    assert [each.text for each in done.documents] == [row["body"]["text"] for row in ROWS]
    assert [each.url for each in done.documents] == [row["metadata"]["url"] for row in ROWS]
    assert [each.host for each in done.documents] == ["example.org"] * 3
    assert [(each.language, each.language_score, each.date) for each in done.documents] == [
        ("de", 1, 1577923200)
    ] * 3
    assert done.documents[1].extra == {
        "id": 1,
        "n": 1,
        "body": {},
        "metadata": {"score": 0.5, "ids": {}},
    }
    assert not done.nonzero("notes")


@pytest.mark.parametrize("name", WRITE)
def test_a_field_whose_name_has_the_dot_wins(tmp_path, name):
    rows = [
        {"text": "Words.", "meta.url": "https://a.example/", "meta": {"url": "https://b.example/"}}
    ]
    done = cleaned(tmp_path, name, rows, url_key="meta.url")

    assert done.documents[0].url == "https://a.example/"
    assert done.documents[0].extra == {"meta": {"url": "https://b.example/"}}


@pytest.mark.parametrize("name", WRITE)
def test_a_key_that_finds_nothing_is_a_line_in_table_and_report(tmp_path, name):
    keys = {
        "url_key": "metadata.link",
        "language_key": "lang",
        "date_key": "metadata.date.day",
        "id_key": "nr",
    }

    done = cleaned(tmp_path, name, [{"text": "Words.", **row} for row in ROWS], **keys)

    assert sorted(done.counts["notes"]) == sorted(
        f"{option} {key!r} found in none of the first 1,000 rows" for option, key in keys.items()
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,link,nr\nWords.,https://example.org/,\n"),
        ("a.tsv", "text\tlink\nWords.\thttps://example.org/\n"),
    ],
)
def test_columns_of_csv_and_tsv(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    done = run_clean(
        {"path": str(tmp_path / name), "url_key": "link", "id_key": "nr"}, tmp_path / "out"
    )

    assert done.documents[0].url == "https://example.org/"
    assert done.counts["notes"] == {"id_key 'nr' found in none of the first 1,000 rows": 1}


@pytest.mark.parametrize(("first", "told"), [(999, False), (1000, True)])
def test_the_first_thousand_rows_decide(tmp_path, first, told):
    rows = [{"text": f"Row {number}."} for number in range(first)] + [
        {"text": "Last.", "link": "https://a.example/"}
    ]
    done = cleaned(tmp_path, "a.jsonl", rows, url_key="link")

    assert bool(done.counts["notes"]) is told
    assert done.documents[-1].url == "https://a.example/"


@pytest.mark.parametrize(
    ("stated", "keep", "kept"),
    [
        ("de", ["de"], True),
        ("de-AT", ["de"], True),
        ("DE", ["de"], True),
        ("fr", ["de"], False),
        ("fr", [], True),
        ("deu_Latn", ["deu_Latn"], True),
        ("German", [], None),
        (3, [], None),
    ],
)
def test_a_stated_language_is_believed_and_kept_or_rejected_by_keep(tmp_path, stated, keep, kept):
    text = "This is a sentence of the English language, and it is long enough to be known as such."
    write_jsonl(tmp_path / "a.jsonl", [{"text": text, "lang": stated}])
    clean = {"language": {"name": "py3langid", "keep": keep}, "filters": []}
    done = run_clean(
        {"path": str(tmp_path / "a.jsonl"), "language_key": "lang"}, tmp_path / "out", clean
    )

    if kept is None:
        assert (done.documents[0].language, done.documents[0].extra) == ("en", {"lang": stated})
    else:
        assert [each.language.lower() for each in done.documents] == [stated.lower()] * kept
        assert done.nonzero("rejected") == ({} if kept else {"language": 1})


def test_a_map_and_times_of_arrow(tmp_path):
    kind = pa.map_(pa.string(), pa.string())
    table = pa.table(
        {
            "text": ["Words."],
            "meta": pa.array([[("url", "https://example.org/")]], kind),
            "facts": pa.array(
                [{"when": 1577923200 * 10**9}], pa.struct([("when", pa.timestamp("ns"))])
            ),
        }
    )

    pa.parquet.write_table(table, tmp_path / "a.parquet")
    keys = {"url_key": "meta.url", "date_key": "facts.when"}
    (document,) = run_clean(
        {"path": str(tmp_path / "a.parquet"), **keys}, tmp_path / "out"
    ).documents

    assert (document.url, document.date) == ("https://example.org/", 1577923200)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2020-01-02", 1577923200),
        ("2020-01-02T01:00:00+01:00", 1577923200),
        (1577923200, 1577923200),
        (1577923200000, 1577923200),
        (1577923200.7, 1577923200),
        (" 2020-01-02 00:00:00.123456789 ", 1577923200),
        ("2024-05-06T07:08Z", 1714979280),
        ("2024-13-06T07:08:09Z", None),
        ("yesterday", None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (1e300, None),
        (None, None),
        ([], None),
    ],
)
def test_dates(value, seconds):
    assert parse_date(value) == seconds


NESTED = st.recursive(
    st.integers(),
    lambda inner: st.dictionaries(
        st.sampled_from(["a", "b", "a.b", "b.a", "c"]), inner, max_size=4
    ),
    max_leaves=12,
)


@given(
    row=st.dictionaries(st.sampled_from(["a", "b", "a.b"]), NESTED),
    path=st.lists(st.sampled_from("abc"), min_size=1),
)
def test_a_path_finds_what_a_search_of_all_spellings_finds(row, path):
    """Slow: the first part is the longest name or the first word, as the page says."""

    def search(value, words):
        if not isinstance(value, dict):
            return None
        if ".".join(words) in value:
            return value[".".join(words)]
        return search(value.get(words[0]), words[1:]) if len(words) > 1 else None

    assert value_at(row, ".".join(path)) == search(row, path)
