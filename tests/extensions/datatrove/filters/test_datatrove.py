"""Filters of datatrove in our recipe: the decisions of the library alone, and none that depend on
the order of documents."""

import json

import datatrove.pipeline.filters as library
import pytest
from datatrove.data import Document as LibraryDocument
from datatrove.pipeline.filters.base_filter import BaseFilter

from clozeline import plugins
from clozeline.errors import PartialFailureError
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.registries import FILTERS
from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.text_statistics import TextStatistics
from tests.pipeline.clean.cleaning import run_clean
from tests.pipeline.clean.filters.documents import documents
from tests.refusals import refused

ARGUMENTS = {
    "C4ParagraphFilter": {},
    "C4QualityFilter": {"min_num_sentences": 3},
    "FineWebQualityFilter": {},
    "GopherQualityFilter": {"min_doc_words": 20},
    "GopherRepetitionFilter": {},
    "RegexFilter": {"regex_exp": r"river .*bread"},
}
"""Filters that need no network, and their arguments."""
ELSEWHERE = {
    "C4BadWordsFilter": "downloads a list",
    "FastTextClassifierFilter": "needs a model",
    "LambdaFilter": "takes a function",
    "LanguageFilter": "downloads a model",
    "SamplerFilter": "draws random numbers",
    "UnigramLogProbFilter": "downloads a list",
    "URLFilter": "downloads a list",
}
BLOCKS = "tests.pipeline.clean.filters.blocks"


@pytest.fixture(autouse=True)
def allowed(monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, f"datatrove.pipeline.filters,{BLOCKS},datatrove.pipeline")


def options_in(folder):
    """For the contract of filters."""
    return {"block": "datatrove.pipeline.filters:RegexFilter", "options": {"regex_exp": "spam"}}


def build(block, **options):
    return FILTERS.resolve({"name": "datatrove", "block": block, "options": options}).build()


def judge(step, text, **columns):
    document = Document(bytes(16), text, "web/1", **columns)
    return step.judge(document, TextStatistics(text))


def test_all_filters_of_the_library_are_known():
    names = {
        name
        for name, value in vars(library).items()
        if isinstance(value, type) and issubclass(value, BaseFilter)
    }
    assert names == ARGUMENTS.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_decisions_are_those_of_the_library_alone(name):
    alone = getattr(library, name)(**ARGUMENTS[name])
    ours = build(f"datatrove.pipeline.filters:{name}", **ARGUMENTS[name])
    decisions = set()

    for number, text in enumerate(documents(2000, seed=7)):
        theirs = LibraryDocument(text, str(number), metadata={"url": "https://example.org/"})
        found = alone.filter(theirs)
        kept, reason = found if isinstance(found, tuple) else (found, "")
        verdict = judge(ours, text, url="https://example.org/")
        assert (not verdict.reason) == kept, text
        assert verdict.reason == "" or verdict.reason.endswith(reason or "regex_filter")
        if kept:
            assert (text if verdict.text is None else verdict.text) == normalize(theirs.text)
        decisions.add((kept, verdict.text is None))

    assert {kept for kept, _ in decisions} == {True, False}, "the texts show both decisions"


def test_edits_metadata_and_reasons_are_counted(tmp_path):
    rows = [
        {"text": "one ash two", "url": "https://example.org/1", "score": 2},
        {"text": "ash ash ash", "url": "https://example.org/2"},
        {"text": "no address here"},
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    block = {"name": "datatrove", "block": f"{BLOCKS}:Annotates", "options": {"word": "ash "}}
    clean = {"language": None, "filters": [block]}

    found = run_clean(str(source), tmp_path / "out", clean)

    (kept, other) = sorted(found.documents, key=lambda document: document.url)
    assert (kept.text, kept.extra) == ("one two", {"score": 2, "removed_words": 1})
    assert (other.text, other.extra) == ("ash", {"removed_words": 2})
    assert [(each.reason, each.n_chars) for each in found.rejects] == [("annotates.no_url", 15)]
    assert found.nonzero("edits") == {"annotates.text": 12}
    assert found.nonzero("cut") == {"annotates": 12 + 15}


@pytest.mark.parametrize(
    ("block", "options", "said"),
    [
        ("datatrove.pipeline.filters:SamplerFilter", {"rate": 0.5}, "draws random numbers"),
        (f"{BLOCKS}:DropsTheRest", {}, "`seen` changes with each document"),
        (f"{BLOCKS}:KeepsTheFirst", {}, "its answer to the same text changes"),
        (f"{BLOCKS}:NeedsEverything", {}, "without a `run` of its own"),
        (f"{BLOCKS}:Fails", {}, "ZeroDivisionError"),
        ("datatrove.pipeline.filters:RegexFilter", {"regex_exp": "("}, "cannot be built"),
        (
            "datatrove.pipeline.filters:RegexFilter",
            {"regex_exp": "a", "exclusion_writer": "folder"},
            "remove the option exclusion_writer",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(block, options, said, monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, block)
    with refused(block.partition(":")[2]) as error:
        build(block, **options)
    assert said in str(error.value)


def test_a_document_at_which_a_block_fails_is_named(tmp_path):
    source = tmp_path / "rows.jsonl"
    source.write_text('{"text": "well"}\n{"text": "odd 1"}\n')
    clean = {"language": None, "filters": [{"name": "datatrove", "block": f"{BLOCKS}:NeedsWords"}]}
    with pytest.raises(
        PartialFailureError, match=r"at 17 of default/rows.jsonl.*NeedsWords failed.*ValueError"
    ) as error:
        run_clean(str(source), tmp_path / "out", clean)
    assert error.value.exit_code == PartialFailureError.exit_code


def test_a_block_that_nobody_named_is_not_imported(monkeypatch):
    monkeypatch.delenv(plugins.VARIABLE)
    with refused("was not imported"):
        build("nobody.named:This")
