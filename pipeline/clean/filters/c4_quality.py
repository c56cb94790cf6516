"""Line and page rules of C4 (Raffel et al. 2020, arXiv:1910.10683, section 2.2)."""

import re
from collections import Counter
from typing import Final

from clozeline.configuration.config import Natural, Positive, config_class
from clozeline.pipeline.clean.filters import KEEP, Document, Filter, TextStatistics, Verdict
from clozeline.pipeline.text.normal_form import count_words, join_lines, normalize
from clozeline.pipeline.text.sentence_marks import ends_sentence
from clozeline.pipeline.text.sentences.regex import Regex

_CITATION: Final = re.compile(r"\[\d*]|\[edit]|\[citation needed]")
_FRAGMENTS_MINIMUM: Final = 3
"""Smallest number of lines that begin in mid-sentence for which a page is rejected."""
_WHOLE: Final = 0.6
"""Smallest share of the words of its sentences that a page keeps, 0 to 1."""
_NUMBER: Final = re.compile(r"\d+")
_NEXT_START: Final = re.compile(r"[.?!] ([^\W\d_])")
_QUOTES: Final = ('"', "'", "”", "’")
"""Quotes that end a line of printed prose; the paper has only the first one."""
_POLICY: Final = "policy"
_PHRASES: Final = {
    "lorem ipsum": "lorem_ipsum",
    "javascript": "javascript",
    "terms of use": _POLICY,
    "privacy policy": _POLICY,
    "cookie policy": _POLICY,
    "uses cookies": _POLICY,
    "use of cookies": _POLICY,
    "use cookies": _POLICY,
}
"""The rule, named by its option, that each phrase breaks."""


def _has_capitals(text: str) -> bool:
    """Return whether sentences of a text start with a capital."""
    starts = [match[1] for match in _NEXT_START.finditer(text)]
    return 2 * sum(map(str.isupper, starts)) >= len(starts)


def _have_prefix(lines: list[str]) -> bool:
    """Return whether all lines begin alike, up to numbers: `> `, `12 ` or `[00:41] `."""
    starts = {_NUMBER.sub("0", "".join(line.split(None, 1)[:1])) for line in lines}
    start = starts.pop() if len(starts) == 1 else "x"
    return "0" in start or not any(map(str.isalpha, start))


class C4Quality(Filter):
    r"""Reduces the text to lines that are sentences.

    Pages with code, filler or too few sentences are rejected.

    A hard-wrapped paragraph is judged as one line, and keeps its line ends. A text of which only
    fragments of sentences would remain is rejected. `clean.line_rules: lines` judges each line, as
    published.

    The rules are for prose. On pages with code, disable `citations`, which would remove lists and
    indices. The report counts the characters that each rule removes, as `edits`.

    "Home\nThis is a sentence of a page." -> "This is a sentence of a page." (with `sentences: 1`)
    """

    VERSION = 4
    reasons = (
        "lorem_ipsum",
        "curly_bracket",
        "fragments",
        "too_few_sentences",
    )

    @config_class
    class Options:
        """Rules, as published; each can be disabled."""

        terminal_punctuation: bool = True
        """drop lines that end without a terminal mark, or in an ellipsis"""
        terminal_marks: list[str] | None = None
        """terminal marks; null: the marks that end sentences in all scripts, also before closing
        quotes; the paper has `.`, `?`, `!` and `"`. Lines in Thai, Lao and other scripts without
        marks pass"""
        words_per_line: Natural = 3
        """drop lines with fewer words; in scripts without blanks, three characters count as one"""
        word_chars: Positive = 1000
        """drop lines with a longer word, in characters"""
        javascript: bool = True
        """drop lines that mention JavaScript"""
        policy: bool = True
        """drop lines about cookies, privacy and terms of use"""
        citations: bool = True
        """remove `[1]`, `[]`, `[edit]`, `[citation needed]`; disable for code, in which they are
        lists and indices"""
        lorem_ipsum: bool = True
        """reject pages with this phrase"""
        curly_bracket: bool = True
        """reject pages with a `{`"""
        sentences: Natural = 5
        """reject pages with fewer remaining sentences"""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._sentences = Regex(Regex.Options())
        self._marks = None if options.terminal_marks is None else tuple(options.terminal_marks)
        self._phrases = {
            phrase: rule for phrase, rule in _PHRASES.items() if getattr(options, rule)
        }

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the verdict on a page, with the edited text.

        Empty lines stay, because they separate paragraphs.
        """
        removed: Counter[str] = Counter()
        kept: list[str] = []
        fragments = kept_words = lost = run = 0
        first = int(_have_prefix(statistics.nonempty_lines))
        lowered = statistics.text.lower()
        phrases = [phrase for phrase in self._phrases if phrase in lowered]

        for group, line in zip(statistics.line_groups, statistics.lines, strict=True):
            rule = self._find_rule(line.strip(), phrases, document.language) if line else ""
            if rule in self.reasons:
                return Verdict(rule)
            words = len(line.split())
            if rule:
                removed[rule] += sum(map(len, group)) + len(group)
                run = run + words if rule == "terminal_punctuation" else 0
                continue

            stripped = [each.strip() for each in group]
            edited = [self._remove_citations(each) for each in stripped]
            kept += edited
            removed["citation"] += sum(map(len, stripped)) - sum(map(len, edited))
            removed["blank"] += sum(map(len, group)) - sum(map(len, stripped))
            kept_words += words
            if run and "".join(line.split(None, first + 1)[first : first + 1])[:1].islower():
                fragments += len(group)
                lost += run
            run = run if not words else 0

        # reject a page of which the rules would leave only fragments of sentences
        share = kept_words / max(1, kept_words + lost)
        is_cut = fragments >= _FRAGMENTS_MINIMUM and share < _WHOLE
        if is_cut and not statistics.as_written and _has_capitals(statistics.text):
            return Verdict(
                "fragments",
                f"{share:.0%} of the words of the sentences would be kept, expected {_WHOLE:.0%}",
            )

        # count the sentences, up to the required number
        sentences = 0

        for line in kept:
            if sentences >= self._options.sentences:
                break
            sentences += len(self._sentences.starts(line, document.language))

        if sentences < self._options.sentences or not any(kept):
            return Verdict(
                "too_few_sentences", f"{sentences} sentences < {self._options.sentences}"
            )

        if not any(removed.values()):
            return KEEP
        text = normalize("\n".join(kept)) if removed["citation"] else join_lines(kept)
        # empty lines around dropped lines are removed with them
        removed["blank"] += len(statistics.text) - len(text) - removed.total()
        return Verdict(text=text, removed={rule: count for rule, count in removed.items() if count})

    def _has_sentence_end(self, line: str, language: str) -> bool:
        if self._marks is not None:
            return line.endswith(self._marks)
        return line.endswith(_QUOTES) or ends_sentence(line, language)

    def _remove_citations(self, line: str) -> str:
        return _CITATION.sub("", line) if self._options.citations and "[" in line else line

    def _find_rule(self, stripped: str, phrases: list[str], language: str) -> str:
        """Return the rule that drops a line, the reason that rejects its page, or "".

        `phrases` are the searched phrases that the page contains.
        """
        options = self._options
        if (
            len(stripped) > options.word_chars
            and max(map(len, stripped.split())) > options.word_chars
        ):
            return "long_word"

        line = self._remove_citations(stripped)
        if options.terminal_punctuation and (
            not self._has_sentence_end(line, language) or line.endswith("...")
        ):
            return "terminal_punctuation"

        few = len(stripped.split(None, options.words_per_line)) < options.words_per_line
        if few and count_words(stripped) < options.words_per_line:
            return "few_words"

        lowered = line.lower() if phrases else ""
        rule = next((self._phrases[phrase] for phrase in phrases if phrase in lowered), "")
        if rule in ("", _POLICY) and options.curly_bracket and "{" in line:
            return "curly_bracket"
        return rule
