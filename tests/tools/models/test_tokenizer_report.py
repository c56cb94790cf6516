"""The figures of a language are those counted by hand, from the files that the stages write."""

import pytest

from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.tokenize.tokenizers import save_tokenizer
from clozeline.registry import choose, find
from clozeline.tools.models import tokenizer_report
from clozeline.tools.models.tokenizer_report import LanguageFigures, main, measure
from tests.pipeline.tokenize.encode.encode_passes import write_parts
from tests.tools.small_run import plain_text

TEXTS = [("en", "a bird sang"), ("de", "ein Käfer"), ("en", "a bird, a tree"), ("zh", "")]
COUNTED = {
    "en": {"texts": 2, "words": 7, "bytes": 25, "tokens": 8, "unknown": 3},  # "sang", "," and " tree"
    "de": {"texts": 1, "words": 2, "bytes": 10, "tokens": 2, "unknown": 1},  # "ein"; ä has two bytes
    "zh": {"texts": 1, "words": 0, "bytes": 0, "tokens": 0, "unknown": 0},
}
PIECES = {"en": {"a", " a", " bird"}, "de": {" Käfer"}, "zh": set[str]()}


@pytest.fixture
def words(tmp_path):
    """A tokenizer of five pieces: a, " a", " bird", " Käfer" and " dog"."""
    chosen = choose("clozeline.pipeline.tokenize.tokenizers", {"name": "word", "min_frequency": 1})
    text = "a bird Käfer dog a"
    tokenizer = find("clozeline.pipeline.tokenize.tokenizers", "word").train(
        [text], chosen.options, tmp_path / "tokenizer"
    )
    save_tokenizer(tokenizer, "word", tmp_path / "tokenizer")
    return tokenizer


@pytest.mark.parametrize("texts_a_batch", [1, 3, 4])
def test_figures_are_those_counted_by_hand(words, texts_a_batch, monkeypatch):
    monkeypatch.setattr(tokenizer_report, "_BATCH_TEXTS", texts_a_batch)
    found = measure(words, iter(TEXTS))
    assert found == {
        language: LanguageFigures(**amounts, used=found[language].used) for language, amounts in COUNTED.items()
    }
    assert {language: {words.piece(token) for token in figures.used} for language, figures in found.items()} == PIECES


def test_the_table_has_both_sides_of_pairs(words, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    (_, english), (_, german), (_, more), (_, empty) = TEXTS
    documents = [
        document(0, english, "en", target_text=german, target_language="de"),
        document(1, more, "en"),
        document(2, empty, "zh"),
    ]
    stage = write_parts(tmp_path / "clean", documents, 2)
    assert main([str(tmp_path / "tokenizer"), str(stage)]) == 0
    shown = plain_text(capsys.readouterr().out)
    assert "en 2 7 8 1.14 0.320 37.500 60.00" in shown
    assert "de 1 2 2 1.00 0.200 50.000 20.00" in shown
    assert "zh 1 0 0 – – – 0.00" in shown


def test_a_folder_without_documents_is_named(words, tmp_path, capsys):
    assert main([str(tmp_path / "tokenizer"), str(tmp_path)]) == 64
    assert f"{tmp_path}: expected the folder of a stage that writes documents" in capsys.readouterr().err


def document(number, text, language, **more):
    uid = document_uid("test", "a.jsonl", "jsonl", number)
    return Document(uid=uid, text=text, source="a.jsonl", source_group="a", offset=number, length=1, url=None,
                    language=language, **more)  # fmt: skip
