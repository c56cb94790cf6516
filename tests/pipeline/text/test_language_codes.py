"""Which codes name one language, wherever a recipe compares them."""

import pytest

from clozeline.configuration.config import validate
from clozeline.pipeline.clean.filters.bad_words import BadWords
from clozeline.pipeline.clean.filters.dehyphenate import Dehyphenate
from clozeline.pipeline.clean.filters.gopher_quality import GopherQuality
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.text.language_codes import (
    LanguageTable,
    base_language,
    names_language,
    suggest_codes,
)
from clozeline.pipeline.text.sentence_marks import ends_sentence
from clozeline.pipeline.text.sentences.regex import Regex
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.pipeline.tokenize.encode.config import EncodeConfig

GERMAN = ["de", "deu", "ger", "deu_Latn", "de-AT", "de_Latn_DE"]


@pytest.mark.parametrize(
    ("code", "wanted", "named"),
    [
        *((code, "de", True) for code in GERMAN),
        *((code, "deu_Latn", True) for code in GERMAN),
        ("de", "de-AT", False),
        ("de_AT", "de-at", True),
        ("pt-PT", "pt-BR", False),
        ("zho_Hant", "zh", True),
        ("cmn_Hani", "zh", True),
        ("cmn_Hani", "zho_Hant", True),
        ("zho_Hans", "zho_Hant", False),
        ("zh", "zho_Hans", True),
        ("zh", "zho_Hant", False),
        ("yue_Hant", "zh", False),
        ("srp_Latn", "sr", True),
        ("sr", "srp_Cyrl", True),
        ("sr", "srp_Latn", False),
        ("iw", "heb_Hebr", True),
        ("pes_Arab", "fa", True),
        ("arb_Arab", "ar", True),
        ("arz_Arab", "ar", False),
        ("nob_Latn", "no", True),
        ("nno_Latn", "no", False),
        ("und", "en", False),
        ("zxx", "und", False),
        ("und", "und", True),
    ],
)
def test_a_code_names_what_another_one_wants(code, wanted, named):
    """The languages, macrolanguages and usual scripts are those of Unicode's CLDR."""
    assert names_language(code, wanted) == named


def test_a_table_prefers_the_entry_of_the_same_code():
    table = LanguageTable({"zh": 1, "zho_Hant": 2, "sq": 3, "als": 4})

    found = {code: table.get(code) for code in ("zh", "zho_Hans", "zho_Hant", "als", "sq", "fr")}

    assert found == {"zh": 1, "zho_Hans": 1, "zho_Hant": 2, "als": 4, "sq": 3, "fr": None}
    assert "alb" in table
    assert "fra" not in table
    assert list(table) == ["zh", "zho_Hant", "sq", "als"]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("german", "deu_Latn"),
        ("ger", "deu_Latn"),
        ("chinese", "'zho_Hans' or 'zho_Hant'"),
        ("deu_Cyrl", "deu_Latn"),
        ("fraa_Latn", "fra_Latn"),
    ],
)
def test_a_mistake_is_answered_by_codes_of_the_model(word, said):
    known = {"deu_Latn", "fra_Latn", "zho_Hans", "zho_Hant"}
    assert said in suggest_codes(word, known)


def judge(filter_, text, language):
    return filter_.judge(Document(bytes(16), text, "s", language=language), TextStatistics(text))


@pytest.mark.parametrize("code", GERMAN)
class TestEveryPlaceThatComparesCodes:
    def test_stop_words(self, code):
        text = "mehrere Worte folgen aufeinander " * 20
        gopher = GopherQuality(GopherQuality.Options())
        assert judge(gopher, text, code).reason == "gopher_enough_stop_words"

    def test_lists_of_words(self, code, tmp_path):
        (tmp_path / "de.txt").write_text("schlimm\n")
        filter_ = BadWords(BadWords.Options(lists=tmp_path))
        assert judge(filter_, "ein schlimm Wort", code).reason == "bad_words"

    def test_words_after_a_hyphen(self, code):
        text = "Vor-\nund Nachteile, und-\noder"
        joined = judge(Dehyphenate(Dehyphenate.Options()), text, code)
        assert "und Nachteile" in (joined.text or text)
        assert "Vorund" not in (joined.text or text)

    def test_sentences(self, code):
        text = "Am 3. Mai kamen z. B. zwei Leute. Sie gingen bald."
        splitter = Regex(Regex.Options())
        assert splitter.starts(text, code) == splitter.starts(text, "de") == [0, 34]


@pytest.mark.parametrize("code", ["th", "tha", "tha_Thai"])
def test_thai_is_thai_by_every_code(code):
    assert Regex(Regex.Options()).splits_phrases(code)
    assert validate(EncodeConfig, {"words": {code: "pythainlp"}}, "encode").words
    statistics = TextStatistics("กขคงจ")
    assert statistics.count_stop_words(frozenset({"ข", "จ"}), code) == 2
    assert base_language(code) == "th"


def test_the_question_mark_of_greek_belongs_to_its_script_code_too():
    assert ends_sentence("Τι;", "ell_Grek")
    assert not ends_sentence("Was;", "deu_Latn")
