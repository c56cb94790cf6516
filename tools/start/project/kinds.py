"""Kinds of texts that a project is made of, and what each needs of its recipe.

Each is one declaration.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from clozeline.pipeline.text.normal_form import NormalForm
from clozeline.pipeline.text.text_statistics import UNSPACED_LANGUAGES
from clozeline.tools.start.project.sample import Sample

ANY: Final = "any"
"""Keeps documents in every language."""
PAGE_WORDS: Final = 50
"""Words from which on the published thresholds of pages were chosen (Gopher, arXiv 2112.11446)."""

_LANGUAGE_OF_PAGES: Final = """\
  # Keeps documents in this language. A text of up to 100 characters needs the score `threshold`,
  # one of 300 and more `long_threshold`; between them it rises. If the report rejects good texts,
  # lower the key that `clozeline filter-report` names.{relatives}
  language: {{name: py3langid, keep: [{code}], threshold: 0.65, long_threshold: 0.9{thresholds}}}"""
_LANGUAGE_OF_TEXTS: Final = """\
  # Keeps documents in this language, with any score, since those of short texts are low, and short
  # ones whose language cannot be told (`und`).{relatives}
  language: {{name: py3langid, keep: [{codes}, und], threshold: 0, long_threshold: 0}}"""
_OTHER_WORDS: Final = frozenset(
    {"am", "dz", "kn", "ko", "ml", "ps", "sa", "ta", "te", "ur", "wuu", "xh", "yue", "zu"}
)
"""Languages whose mean word length is outside 3.5 to 8 letters, or which write no blanks.

Means are those of the declaration of human rights. The published range is that of English: 3 to 10.
"""
_CONFUSED_LANGUAGES: Final = ({"bs", "hr", "sr"}, {"id", "ms"}, {"nn", "no"}, {"wuu", "yue", "zh"})
"""Languages that the identifier confuses, so that right answers have low scores."""
_LOW_SCORE: Final = 0.4
"""Least score of a language with close relatives."""
_ANY_LANGUAGE: Final = """\
  # Identifies languages for the report, and keeps all. To keep some: keep: [en, de]
  language: {name: py3langid, keep: []}"""
_NO_LANGUAGE: Final = """\
  # There is no language to identify.
  language: null"""

_REPETITION: Final = f"""\
    # Rejects texts of {PAGE_WORDS} words and more that are repetition for the most part. The
    # published thresholds, which it has without these, are a third of them. They are for crawled
    # pages: manuals, laws and scriptures repeat headings and formulas.
    - {{{{name: gopher_repetition, min_words: {PAGE_WORDS},
       paragraphs: 1, paragraph_chars: 0.5, lines: 0.6, line_chars: 0.5,
       top_ngrams: {{{{2: 0.5}}}},
       duplicate_ngrams: {{{{5: 0.45, 6: 0.45, 7: 0.45, 8: 0.45, 9: 0.45, 10: 0.45}}}}}}}}"""
_FILTERS_OF_PAGES: Final = f"""\
  filters:
    # Published: 50 to 100,000 words, 80 % of them with a letter{{stop_words}}. A book may have
    # more words, and a manual more tables.
    - {{{{name: gopher_quality, words: [10, 10000000],
       tokens_with_letter: 0.7{{no_stop_words}}{{no_blanks}}}}}}
{_REPETITION}
    # For crawled pages, add c4_quality: it drops menus, and lines without punctuation at their
    # end. Give gopher_repetition no thresholds then."""
_FILTERS_OF_TEXTS: Final = f"""\
  # The published thresholds are for pages of {PAGE_WORDS} words and more. Short texts are kept if
  # they have a word: a sentence may be one, end in an ellipsis or begin with a hyphen.
  filters:
    - {{{{name: gopher_quality, words: [1, 100000], mean_word_length: [1, 1000],
       symbols_per_word: 1, bullet_lines: 1, ellipsis_lines: 1, tokens_with_letter: 0.2,
       stop_words: 0}}}}
{_REPETITION}"""
_NO_FILTERS: Final = """\
  # The filters that come with Clozeline judge prose.
  filters: []"""

_EXACT_AND_NEAR: Final = """\
# The same text twice, and texts that share most of their word 5-grams. A chapter and its whole
# book share too few: `spans: {}` cuts passages that occur twice.
dedup:
  exact: {key: text}
  near: {ngram: 5, bands: 14, rows: 8, verify: 0.7}"""
_EXACT_ONLY: Final = """\
# The same text twice. Two short texts may share most of their words and say different things, so
# `near` is off.
dedup:
  exact: {key: text}
  near: null"""
_EXACT_SEQUENCES: Final = """\
# The same sequence twice. Near-duplicates are found by words, which sequences do not have.
dedup:
  exact: {key: text}
  near: null"""

_BYTE_TOKENIZER: Final = """\
# 4,000 ids suit a few megabytes. For more than 100 MB use 32000, and a larger model.
# Further texts train it anew, and a run on the present ids refuses the new ones. To grow the texts
# of a run, keep its ids: train_tokenizer=null tokenizer.path=RUN/tokenizer
train_tokenizer: {{name: byte_bpe, size: 4000}}"""
_CHARACTER_TOKENIZER: Final = """\
# Each letter is a token, and one that these texts lack is the unknown token. Proteins have 33 ids
# with 7 special ones. Further texts may change the ids; to grow the texts of a run, keep them:
# train_tokenizer=null tokenizer.path=RUN/tokenizer
train_tokenizer:
  name: character
  size: 4000
  options: {{bytes: false, sentinels: {sentinels}, modes: false, reserved: 1}}"""


@dataclass(frozen=True)
class Kind:
    """What a recipe does with texts of one kind; the blocks are YAML with comments."""

    use: str
    """which texts these are"""
    filters: str
    """`clean.filters`; may have the fields `stop_words`, `no_stop_words` and `no_blanks`"""
    dedup: str = _EXACT_AND_NEAR
    tokenizer: str = _BYTE_TOKENIZER
    """`train_tokenizer`; may have the field `sentinels`"""
    normalize: NormalForm = "prose"
    sentences: str = "regex"
    """name of the sentence splitter"""
    language: str | None = _LANGUAGE_OF_PAGES
    """`clean.language` with the fields `code`, and `codes`, `relatives` and `thresholds` for close
    relatives of the language; None: these texts have no language"""
    is_file_of_any_name: bool = False
    """true if a file is a text whatever its name, such as `a.py`"""

    def tokenizer_block(self, sentinels: int) -> str:
        """Return `train_tokenizer` for rows with this number of sentinels at most."""
        return self.tokenizer.format(sentinels=sentinels)

    def language_block(self, language: str) -> str:
        """Return `clean.language` for a language code or `ANY`."""
        if self.language is None:
            return _NO_LANGUAGE
        if language == ANY:
            return _ANY_LANGUAGE
        others = sorted(
            {code for group in _CONFUSED_LANGUAGES if language in group for code in group}
            - {language}
        )
        codes = ", ".join([language, *others])
        said = f"\n  # Close relatives, which are taken for each other: {codes}." if others else ""

        return self.language.format(
            code=language,
            codes=codes,
            relatives=said,
            thresholds=f", thresholds: {{{language}: {_LOW_SCORE}}}" if others else "",
        )

    def filters_block(self, language: str) -> str:
        """Return `clean.filters` for a language code or `ANY`."""
        has_stop_words = language == "en"
        return self.filters.format(
            stop_words=""
            if has_stop_words
            else ",\n    # and two stop words, which only some languages have a list of",
            no_stop_words="" if has_stop_words else ", stop_words: 0",
            # without blanks, a clause is a word
            no_blanks=", mean_word_length: [1, 1000]"
            if language in {ANY, *UNSPACED_LANGUAGES, *_OTHER_WORDS}
            else "",
        )


KINDS: Final[Mapping[str, Kind]] = {
    "pages": Kind("web pages, articles, books: prose of paragraphs", _FILTERS_OF_PAGES),
    "texts": Kind(
        "short texts: sentences, chat, captions, titles",
        _FILTERS_OF_TEXTS,
        dedup=_EXACT_ONLY,
        language=_LANGUAGE_OF_TEXTS,
    ),
    "code": Kind(
        "source code, patches, configuration files",
        _NO_FILTERS,
        normalize="code",
        sentences="lines",
        language=None,
        is_file_of_any_name=True,
    ),
    "sequences": Kind(
        "DNA, proteins and other sequences of letters without blanks",
        _NO_FILTERS,
        dedup=_EXACT_SEQUENCES,
        tokenizer=_CHARACTER_TOKENIZER,
        normalize="sequence",
        sentences="lines",
        language=None,
    ),
}
"""Kinds of texts by the value of `kind`."""


def choose_kind(sample: Sample) -> tuple[str, str]:
    """Return the kind of a sample of texts, and the reason in words.

    Kinds are pages, texts and sequences.
    """
    if sample.is_of_sequences:
        return "sequences", "the files are FASTA"
    if not sample.words:
        why = ": texts in a store are not sampled" if sample.is_remote else ""
        return "pages", f"is the default{why}"

    median = sample.median_words
    length = f"more than {PAGE_WORDS:,}" if math.isinf(median) else f"{median:,.0f}"
    finding = f"half of {len(sample.words):,} sampled texts have {length} words or more"
    if median >= PAGE_WORDS:
        return "pages", f"{finding}; for short texts: kind=texts"
    why = f"{finding}, and rules for pages need {PAGE_WORDS}; for pages: kind=pages"
    return "texts", f"{why}; for DNA or proteins: kind=sequences" if sample.has_sequences else why
