from collections import Counter

import pytest

from clozeline.configuration.config import to_plain
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.clean.stage import CleanStage
from tests.pipeline.clean.cleaning import recipe_for, run_clean


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


def test_the_bytes_do_not_depend_on_tasks_or_place(crawl, tmp_path):
    outputs = []
    for name, executor in (("one", {"tasks": 1}), ("two", {"tasks": 2, "workers": 2})):
        done = run_clean(str(crawl), tmp_path / name, executor=executor, plan={"unit_bytes": 4096})
        assert len(done.records) > 1
        outputs.append({path.name: path.read_bytes() for path in done.folder.glob("*/*.arrow")})
    assert outputs[0] == outputs[1]


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


def test_a_text_of_the_second_try_is_counted(tmp_path):
    path = tmp_path / "a.html"
    path.write_text("<body><noscript><div></noscript><p>" + "Words that a wrong element hides. " * 20)
    done = run_clean(str(path), tmp_path / "out")
    assert done.documents[0].text.startswith("Words that")
    assert done.nonzero("notes") == {"extract_fallback": 1}


@pytest.mark.parametrize("lost", ["documents_out", "records_in"])
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
        ({"filter": []}, "unknown key 'clean.filter'; did you mean 'clean.filters'"),
        ({"langauge": None}, "did you mean 'clean.language'"),
    ],
)
def test_mistakes_in_the_configuration_name_the_key(tmp_path, clean, message):
    with pytest.raises(ConfigurationError, match=message):
        recipe_for("x", tmp_path, clean)


@pytest.mark.parametrize("limit", [1, 3, 10, 1000])
def test_a_preview_decides_as_the_complete_run(limit: int, crawl, tmp_path):
    plan = {"unit_bytes": 4096}
    full = run_clean(str(crawl), tmp_path / "full", plan=plan)
    part = run_clean(str(crawl), tmp_path / "part", plan=plan, limit=limit)
    for read in ("documents", "rejects"):
        every = {row.uid: row for row in getattr(full, read)}
        assert all(row == every[row.uid] for row in getattr(part, read))
    if limit == 1000:
        assert (part.documents, part.rejects) == (full.documents, full.rejects)
    # the first documents of each unit
    for unit, (cut, whole) in enumerate(zip(part.records, full.records, strict=True)):
        share = limit // len(part.records) + (unit < limit % len(part.records))
        assert cut.counts["documents_in"] == min(share, whole.counts["documents_in"])
