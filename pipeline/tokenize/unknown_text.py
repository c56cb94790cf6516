"""Count the text that a tokenizer replaces by unknown tokens, by language and reason, and say what can be done.

A published or trained vocabulary may lack letters and words, and some tokenizers read no word
beyond a length. Their unknown token keeps nothing of the text, and one of them may stand for a
thousand characters: both are counted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from clozeline.pipeline.tokenize.tokenizers._pieces import Encoding, Tokenizer, UnknownReason

NOTICED_SHARE: Final = 0.01
"""Share of a language's characters above which unknown text is told with reasons and ways out."""
UNKNOWN_COUNTS: Final = ("unknown_text", "unknown_reasons", "unknown_examples")
"""Keys of the counts of unknown text."""
_EXAMPLES: Final = 8
_WORDS: Final = 3
"""Long words in a message."""
_HELD_CHARACTERS: Final = 1 << 22
_HELD_EXAMPLES: Final = 1 << 14
_SHOWN_LANGUAGES: Final = 6

LanguageCounts: TypeAlias = dict[str, int]
"""`characters` and `tokens` of a language, and `unknown_characters` and `unknown_tokens` among
them."""


@dataclass
class UnknownText:
    """Counts of unknown text over many texts."""

    tokenizer: Tokenizer
    by_language: dict[str, LanguageCounts] = field(default_factory=dict)
    _reasons: Counter[UnknownReason] = field(default_factory=Counter)
    _examples: dict[UnknownReason, Counter[str]] = field(default_factory=dict)
    _parts: Counter[str] = field(default_factory=Counter)
    """unknown parts of texts that are not explained yet, with the times that they occur"""
    _held: int = 0
    """characters of these parts, at most"""

    def add(self, language: str, text: str, encoding: Encoding) -> None:
        """Count a text and its tokens."""
        unknown = self.tokenizer.unknown_parts(text, encoding)
        counts = self.by_language.setdefault(language, dict.fromkeys(_COUNTED, 0))
        amounts = len(text), len(encoding.ids), unknown.characters, unknown.tokens
        for name, number in zip(_COUNTED, amounts, strict=True):
            counts[name] += number
        if unknown.parts:
            self._parts.update(unknown.parts)
            self._held += unknown.characters
            if self._held > _HELD_CHARACTERS:
                self._explain()

    def _explain(self) -> None:
        for text, times in self._parts.items():
            reason, examples = self.tokenizer.explain_unknown(text)
            self._reasons[reason] += times * len(text)
            counted = self._examples.setdefault(reason, Counter())
            for example in examples:
                counted[example] += times
            if len(counted) > _HELD_EXAMPLES:  # the most frequent of them stay
                self._examples[reason] = Counter(dict(counted.most_common(_HELD_EXAMPLES // 2)))
        self._parts.clear()
        self._held = 0

    def counts(self) -> dict[str, Any]:
        """Return plain counts that can be added to those of other texts, see `UnknownShares`.

        `unknown_text` has the counts by language, `unknown_reasons` the unknown characters by
        reason, and `unknown_examples` letters or words of each reason, with the number of unknown
        tokens that they are in.
        """
        self._explain()
        return {
            "unknown_text": self.by_language,
            "unknown_reasons": {reason.value: number for reason, number in self._reasons.items()},
            "unknown_examples": {
                reason.value: dict(examples.most_common(_EXAMPLES))
                for reason, examples in self._examples.items()
            },
        }


_COUNTED: Final = ("characters", "tokens", "unknown_characters", "unknown_tokens")


@dataclass(frozen=True)
class UnknownShares:
    """Shares of unknown text from the sums of `UnknownText.counts`."""

    by_language: Mapping[str, LanguageCounts]
    reasons: Mapping[str, int]
    examples: Mapping[str, Mapping[str, int]]

    @staticmethod
    def of(counts: Mapping[str, Any]) -> "UnknownShares":
        """Read the counts of a stage or of `UnknownText`."""
        return UnknownShares(*(counts.get(key, {}) for key in UNKNOWN_COUNTS))

    def total(self, name: str) -> int:
        """Return a count of all languages."""
        return sum(counts[name] for counts in self.by_language.values())

    @property
    def share(self) -> float:
        """Share of all characters that unknown tokens stand for, 0 to 1."""
        return self.total("unknown_characters") / max(1, self.total("characters"))

    def language_shares(self) -> dict[str, float]:
        """Return the share of each language that has unknown characters, the largest first."""
        shares = {
            language: counts["unknown_characters"] / max(1, counts["characters"])
            for language, counts in self.by_language.items()
            if counts["unknown_characters"]
        }
        return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))

    def summary(self) -> str:
        """Return the amounts in a line, "" if all text is known: `unknown: 3 tokens for 41 characters (0.10 %): …`."""
        if not (characters := self.total("unknown_characters")):
            return ""
        tokens = self.total("unknown_tokens")
        amounts = (
            f"{tokens:,} token{'s' * (tokens != 1)} for {characters:,} "
            f"character{'s' * (characters != 1)}"
        )
        shares = self.language_shares()
        shown = [
            f"{language} {percent(share)}"
            for language, share in list(shares.items())[:_SHOWN_LANGUAGES]
        ]
        rest = len(shares) - len(shown)
        languages = ", ".join(shown) + (f" and {rest} more" if rest else "")
        return f"unknown: {amounts} ({percent(self.share)}): {languages}"

    def is_noticed(self) -> bool:
        """Return whether more than 1 % of the characters of all texts, or of a language, are unknown."""
        return max((self.share, *self.language_shares().values()), default=0.0) > NOTICED_SHARE

    def explanation(self) -> Iterator[str]:
        """Yield a sentence for each reason, the one with most characters first: what is unknown, and the ways out."""
        for name, characters in sorted(self.reasons.items(), key=lambda item: (-item[1], item[0])):
            reason = UnknownReason(name)
            named = sorted(
                self.examples.get(name, {}).items(), key=lambda item: (-item[1], item[0])
            )
            most = _EXAMPLES if reason is UnknownReason.LETTERS else _WORDS
            shown = " ".join(example for example, _ in named[:most])
            yield f"{name} ({characters:,} characters), such as {shown}: {_REMEDIES[reason]}"

    def message(self) -> str:
        """Return the summary, and below it a line for each reason."""
        return "\n".join((self.summary(), *(f"  {line}" for line in self.explanation())))


def percent(share: float) -> str:
    """Return a share as `12.3 %`; a small one with more digits, so that it is never shown as 0."""
    return f"{100 * share:.1f} %" if share >= 0.001 or not share else f"{100 * share:.2g} %"


_REMEDIES: Final = {
    UnknownReason.LONG_WORD: (
        "train byte_bpe, unigram or character, which read words of any length, or put blanks into "
        "the text"
    ),
    UnknownReason.LETTERS: (
        "raise train_tokenizer.size, train on text that has them, or train byte_bpe, unigram or "
        "character, which spell "
        "every letter by its bytes; `clozeline extend-tokenizer` adds letters to a WordPiece"
    ),
    UnknownReason.WORDS: (
        "raise train_tokenizer.size or lower train_tokenizer.options.min_frequency, or train a "
        "tokenizer of pieces, "
        "such as byte_bpe"
    ),
}
