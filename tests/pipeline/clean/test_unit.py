import pytest
import xxhash

from clozeline.errors import PartialFailureError
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.text.normal_form import normalize
from tests.pipeline.captures import members, responses
from tests.pipeline.clean.cleaning import run_clean


def test_a_document_says_where_it_is_from(crawl, tmp_path):
    done = run_clean(str(crawl / "a.warc.gz"), tmp_path)
    first = done.documents[0]
    assert first.uid == document_uid("test", "default/a.warc.gz", "warc-gz", first.offset)
    assert (first.url, first.host, first.date) == ("http://Host0.example:80/", "host0.example", 1714979289)
    assert first.content_hash == xxhash.xxh3_128_digest(first.text.encode())
    assert (first.n_chars, first.language) == (len(first.text), "und")
    assert first.n_words == len(first.text.replace(",", " ").replace(".", " ").split())
    assert all(normalize(document.text) == document.text for document in done.documents)


def test_a_truncated_input_is_accepted_or_refused(tmp_path):
    path = tmp_path / "crawl.warc.gz"
    path.write_bytes(members(responses(3))[:-20])
    done = run_clean(str(path), tmp_path / "accept")
    assert (len(done.documents), done.nonzero("malformed")) == (2, {"truncated": 1})
    with pytest.raises(PartialFailureError, match="truncated"):
        run_clean(str(path), tmp_path / "fail", on_error={"truncated": "fail"})


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
