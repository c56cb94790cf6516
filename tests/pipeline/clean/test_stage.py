import json
from collections import Counter

import pytest
import xxhash

from pipeline.clean.stage import CleanStage
from pipeline.clean.unit_counts import UnitCounts
from pipeline.config import to_plain
from pipeline.documents.document import FLAG_TRUNCATED_SOURCE, document_uid
from pipeline.errors import ConfigurationError, IntegrityError, PartialFailureError
from pipeline.text.normal_form import normalise
from tests.pipeline.captures import SENTENCES, http, members, page, record, responses
from tests.pipeline.clean.cleaning import recipe_for, run_clean

GERMAN = "Der Fluss ist im Sommer breit und langsam, und die Leute gehen mit ihren Hunden an ihm entlang. " * 5


@pytest.fixture(scope="module")
def crawl(tmp_path_factory):
    """A crawl with pages to keep and one to reject for each step, between records that are ignored."""
    folder = tmp_path_factory.mktemp("crawl")
    bodies = [
        page(0),
        page(1),
        page(2, GERMAN * 4).replace(b"This is the page", b"Seite"),
        page(3, "short"),
        b"<html></html>",
    ]
    bodies += [
        page(4) + b"\0",
        page(5, SENTENCES + "See { code }."),
        page(6, SENTENCES.replace(". ", ".</p><p>Menu</p><p>")),
    ]
    captures = [record(http(body), f"http://Host{number}.example:80/") for number, body in enumerate(bodies)]
    (folder / "a.warc.gz").write_bytes(
        members([record(b"x", kind="warcinfo"), *captures, record(b"y", kind="request")])
    )
    rows = [{"text": f"Row {number}. {SENTENCES}", "url": None, "id": number} for number in range(3)]
    (folder / "b.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n{broken\n")
    return folder


def test_documents_rejections_and_counts(crawl, tmp_path):
    done = run_clean(str(crawl), tmp_path, {"language": {"name": "py3langid", "keep": ["en"]}, "keep_text": 1.0})
    assert done.nonzero("rejected") == {"language": 1, "gopher_short_doc": 1, "extract_empty": 1, "curly_bracket": 1}
    assert done.nonzero("ignored") == {"type_warcinfo": 1, "type_request": 1}
    assert done.nonzero("malformed") == {"bad_json": 1}
    assert (done.counts["records_in"], done.counts["documents_in"], done.counts["documents_out"]) == (14, 11, 7)
    assert Counter(reject.reason for reject in done.rejects) == done.nonzero("rejected")
    assert {reject.reason: reject.detail for reject in done.rejects}["language"] == "de"
    assert sum(len(document.text) for document in done.documents) == done.counts["characters_out"]
    assert done.counts["edits"]["c4_quality.terminal_punctuation"] > 0
    assert "Menu" not in done.documents[-4].text
    assert [document.source for document in done.documents] == ["default/a.warc.gz"] * 4 + ["default/b.jsonl"] * 3


def test_a_document_says_where_it_is_from(crawl, tmp_path):
    done = run_clean(str(crawl / "a.warc.gz"), tmp_path)
    first = done.documents[0]
    assert first.uid == document_uid("test", "default/a.warc.gz", "warc-gz", first.offset)
    assert (first.url, first.host, first.date) == ("http://Host0.example:80/", "host0.example", 1714979289)
    assert first.content_hash == xxhash.xxh3_128_digest(first.text.encode())
    assert (first.n_chars, first.language) == (len(first.text), "und")
    assert first.n_words == len(first.text.replace(",", " ").replace(".", " ").split())
    assert all(normalise(document.text) == document.text for document in done.documents)


def test_the_bytes_do_not_depend_on_tasks_or_place(crawl, tmp_path):
    outputs = []
    for name, executor in (("one", {"tasks": 1}), ("two", {"tasks": 2, "workers": 2})):
        done = run_clean(str(crawl), tmp_path / name, executor=executor, plan={"unit_bytes": 4096})
        assert len(done.records) > 1
        outputs.append({path.name: path.read_bytes() for path in done.folder.glob("*/*.arrow")})
    assert outputs[0] == outputs[1]


def test_units_hold_what_the_whole_file_holds(crawl, tmp_path):
    whole = run_clean(str(crawl), tmp_path / "whole")
    parts = run_clean(str(crawl), tmp_path / "parts", plan={"unit_bytes": 4096})
    assert parts.documents == whole.documents
    assert parts.counts == whole.counts


def test_a_source_can_have_its_own_steps(crawl, tmp_path):
    entries = [{"path": str(crawl / "a.warc.gz"), "source": "web"}, {"path": str(crawl / "b.jsonl"), "source": "rows"}]
    clean = {
        "language": {"name": "py3langid", "keep": ["de"]},
        "filters": [{"name": "gopher_quality", "words": [1000, 2000]}],
        "sources": {"rows": {"language": None, "filters": []}},
    }
    done = run_clean(entries, tmp_path, clean)
    assert {document.source_group for document in done.documents} == {"rows"}
    assert done.nonzero("rejected") == {"language": 6, "gopher_short_doc": 1, "extract_empty": 1}
    again = to_plain(recipe_for(entries, tmp_path, clean))["clean"]
    assert again["sources"]["rows"] == {"extractor": None, "language": None, "filters": []}


def test_a_stated_language_is_not_identified(crawl, tmp_path):
    entry = {"path": str(crawl / "b.jsonl"), "language": "fy"}
    done = run_clean(entry, tmp_path, {"language": {"name": "py3langid", "keep": ["en"]}, "filters": []})
    assert {(document.language, document.language_score) for document in done.documents} == {("fy", 1.0)}


def test_a_truncated_input_is_accepted_or_refused(tmp_path):
    path = tmp_path / "crawl.warc.gz"
    path.write_bytes(members(responses(3))[:-20])
    done = run_clean(str(path), tmp_path / "accept")
    assert (len(done.documents), done.nonzero("malformed")) == (2, {"truncated": 1})
    with pytest.raises(PartialFailureError, match="truncated"):
        run_clean(str(path), tmp_path / "fail", on_error={"truncated": "fail"})


def test_a_truncated_capture_is_flagged(tmp_path):
    path = tmp_path / "crawl.warc"
    path.write_bytes(record(http(page(1)), WARC_Truncated="length"))
    assert run_clean(str(path), tmp_path / "out").documents[0].flags == FLAG_TRUNCATED_SOURCE


def test_an_input_that_grows_while_it_is_read_fails_its_unit(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "one"}\n')
    keep = UnitCounts.keep

    def grow(self, document):
        path.write_text(path.read_text() * 2)
        keep(self, document)

    monkeypatch.setattr(UnitCounts, "keep", grow)
    with pytest.raises(PartialFailureError, match="changed while it was read"):
        run_clean(str(path), tmp_path / "out")
    assert not list((tmp_path / "out").glob("clean/records/*ok*"))


def test_two_documents_with_one_uid_are_an_error():
    ledger = UnitCounts(0, 0.0)
    ledger.open([], [])
    ledger.enter(b"u" * 16, "default/a", 0)
    with pytest.raises(IntegrityError, match="default/a"):
        ledger.enter(b"u" * 16, "default/a", 7)


@pytest.mark.parametrize("lost", ["documents_out", "records_in", "characters_out"])
def test_a_lost_document_is_noticed(crawl, tmp_path, lost):
    done = run_clean(str(crawl), tmp_path)
    stage = CleanStage(recipe_for(str(crawl), tmp_path))
    stage.check(done.counts)
    with pytest.raises(IntegrityError, match="do not add up"):
        stage.check({**done.counts, lost: done.counts[lost] - 1})


@pytest.mark.parametrize(
    ("clean", "message"),
    [
        ({"filters": ["gopher_qualty"]}, "did you mean 'gopher_quality'"),
        ({"filters": [{"name": "gopher_quality", "word": [1, 2]}]}, "did you mean .*words'"),
        ({"language": {"name": "py3langid", "threshold": 2}}, "threshold"),
        ({"extractor": {"name": "resiliparse", "timeout_s": 0}}, "timeout_s"),
        ({"filter": []}, "did you mean 'clean.filters'"),
    ],
)
def test_mistakes_in_the_configuration_name_the_key(tmp_path, clean, message):
    with pytest.raises(ConfigurationError, match=message):
        recipe_for("x", tmp_path, clean)
