"""Count the text that becomes unknown tokens, by language and reason, and name remedies.

A vocabulary may lack letters and words, and some tokenizers do not read words beyond a length. An
unknown token loses its text, and may replace a thousand characters: both tokens and characters are
counted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from clozeline.errors import share_text
from clozeline.pipeline.tokenize.tokenizers._pieces import Encoding, Tokenizer, UnknownReason

NOTICED_SHARE: Final = 0.01
"""share of unknown characters in a language above which a warning gives reasons and remedies"""
UNKNOWN_COUNTS: Final = ("unknown_text", "unknown_reasons", "unknown_examples")
"""keys under which a stage counts unknown text"""
_MOST_EXAMPLES: Final = 8
_MOST_LONG_WORDS: Final = 3
"""most long words in a message"""
_MOST_HELD_CHARACTERS: Final = 1 << 22
_MOST_HELD_EXAMPLES: Final = 1 << 14
_MOST_SHOWN_LANGUAGES: Final = 6

LanguageCounts: TypeAlias = dict[str, int]
"""`characters`, `tokens`, `unknown_characters` and `unknown_tokens` of a language."""


@dataclass
class UnknownText:
    """Counts of unknown text over many texts."""

    tokenizer: Tokenizer
    by_language: dict[str, LanguageCounts] = field(default_factory=dict)
    _reasons: Counter[UnknownReason] = field(default_factory=Counter)
    _examples: dict[UnknownReason, Counter[str]] = field(default_factory=dict)
    _parts: Counter[str] = field(default_factory=Counter)
    """unknown parts of texts that are not explained yet, with their counts"""
    _held: int = 0
    """upper limit of the characters in these parts"""

    def add(self, language: str, text: str, encoding: Encoding) -> None:
        """Count a text and its tokens."""
        unknown = self.tokenizer.unknown_parts(text, encoding)
        counts = self.by_language.setdefault(language, dict.fromkeys(_COUNT_NAMES, 0))
        amounts = len(text), len(encoding.ids), unknown.characters, unknown.tokens
        for name, number in zip(_COUNT_NAMES, amounts, strict=True):
            counts[name] += number
        if unknown.parts:
            self._parts.update(unknown.parts)
            self._held += unknown.characters
            if self._held > _MOST_HELD_CHARACTERS:
                self._explain()

    def _explain(self) -> None:
        for text, times in self._parts.items():
            reason, examples = self.tokenizer.explain_unknown(text)
            self._reasons[reason] += times * len(text)
            counted = self._examples.setdefault(reason, Counter())
            for example in examples:
                counted[example] += times
            if len(counted) > _MOST_HELD_EXAMPLES:  # keep the most frequent ones
                self._examples[reason] = Counter(
                    dict(counted.most_common(_MOST_HELD_EXAMPLES // 2))
                )
        self._parts.clear()
        self._held = 0

    def counts(self) -> dict[str, Any]:
        """Return counts that can be added to those of other texts; see `UnknownShares`.

        `unknown_text` has the counts by language, `unknown_reasons` the unknown characters by
        reason. `unknown_examples` has letters or words by reason, with the number of unknown tokens
        that contain them.
        """
        self._explain()
        return {
            "unknown_text": self.by_language,
            "unknown_reasons": {reason.value: number for reason, number in self._reasons.items()},
            "unknown_examples": {
                reason.value: dict(examples.most_common(_MOST_EXAMPLES))
                for reason, examples in self._examples.items()
            },
        }


_COUNT_NAMES: Final = ("characters", "tokens", "unknown_characters", "unknown_tokens")


@dataclass(frozen=True)
class UnknownShares:
    """Shares of unknown text from the sums of `UnknownText.counts`."""

    by_language: Mapping[str, LanguageCounts]
    reasons: Mapping[str, int]
    examples: Mapping[str, Mapping[str, int]]

    @staticmethod
    def of(counts: Mapping[str, Any]) -> "UnknownShares":
        """Return the shares from the counts of a stage or of `UnknownText`."""
        return UnknownShares(*(counts.get(key, {}) for key in UNKNOWN_COUNTS))

    def total(self, name: str) -> int:
        """Return a count, summed over all languages."""
        return sum(counts[name] for counts in self.by_language.values())

    @property
    def share(self) -> float:
        """Return the share of all characters that become unknown tokens, 0 to 1."""
        return self.total("unknown_characters") / max(1, self.total("characters"))

    def language_shares(self) -> dict[str, float]:
        """Return the shares of languages with unknown characters, the largest first."""
        shares = {
            language: counts["unknown_characters"] / max(1, counts["characters"])
            for language, counts in self.by_language.items()
            if counts["unknown_characters"]
        }
        return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))

    def summary(self) -> str:
        """Return the amounts in a line: `unknown: 3 tokens for 41 characters (0.10 %): en 0.10 %`.

        The line is empty if all text is known.
        """
        if not (characters := self.total("unknown_characters")):
            return ""
        tokens = self.total("unknown_tokens")
        amounts = (
            f"{tokens:,} token{'s' * (tokens != 1)} for {characters:,} "
            f"character{'s' * (characters != 1)}"
        )
        shares = self.language_shares()
        shown = [
            f"{language} {share_text(share)}"
            for language, share in list(shares.items())[:_MOST_SHOWN_LANGUAGES]
        ]
        others = len(shares) - len(shown)
        languages = ", ".join(shown) + (f" and {others} more" if others else "")
        return f"unknown: {amounts} ({share_text(self.share)}): {languages}"

    def is_noticed(self) -> bool:
        """Return whether more than 1 % of all characters, or of a language, are unknown."""
        return max((self.share, *self.language_shares().values()), default=0.0) > NOTICED_SHARE

    def explanation(self) -> Iterator[str]:
        """Yield a sentence for each reason: what is unknown, and remedies.

        The reason with the most characters comes first.
        """
        for name, characters in sorted(self.reasons.items(), key=lambda item: (-item[1], item[0])):
            reason = UnknownReason(name)
            named = sorted(
                self.examples.get(name, {}).items(), key=lambda item: (-item[1], item[0])
            )
            most = _MOST_EXAMPLES if reason is UnknownReason.LETTERS else _MOST_LONG_WORDS
            shown = " ".join(example for example, _ in named[:most])
            yield f"{name} ({characters:,} characters), such as {shown}: {_REMEDIES[reason]}"

    def message(self) -> str:
        """Return the summary, followed by a line for each reason."""
        return "\n".join((self.summary(), *(f"  {line}" for line in self.explanation())))


_REMEDIES: Final = {
    UnknownReason.LONG_WORD: (
        "train byte_bpe, unigram or character, which read words of any length, or insert spaces "
        "into the text"
    ),
    UnknownReason.LETTERS: (
        "raise train_tokenizer.size, train on text that has these letters, or train byte_bpe, "
        "unigram or character, which encode every letter by its bytes; `clozeline "
        "extend-tokenizer` adds letters to a WordPiece"
    ),
    UnknownReason.WORDS: (
        "raise train_tokenizer.size, lower train_tokenizer.options.min_frequency, or train a "
        "subword tokenizer such as byte_bpe"
    ),
}
