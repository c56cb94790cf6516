"""Turn token ids into readable text, in the styles of their roles."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from numpy.typing import NDArray
from rich.text import Text

from clozeline.pipeline.corrupt.preview.view import Passage
from clozeline.pipeline.corrupt.preview.words import Words
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.pipeline.vocabulary import Vocabulary

_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def visible(text: str) -> str:
    """Replace line ends, tabs and invisible characters with visible symbols, so that text cannot control a terminal."""
    shown = text.replace("\n", "⏎\n").replace("\t", "⇥\t")
    return _UNSEEN.sub(lambda match: f"<U+{ord(match.group()):04X}>", shown)


class Pieces:
    """Show token ids as texts and passages of at most `limit` tokens; ids of a vocabulary alone as numbers."""

    def __init__(self, tokenizer: Tokenizer | Words | Vocabulary, limit: int = 1024) -> None:
        self._decoder = None if isinstance(tokenizer, Vocabulary) else tokenizer
        self.vocabulary = tokenizer if isinstance(tokenizer, Vocabulary) else tokenizer.vocabulary
        self._limit = limit

    def text(self, ids: Sequence[int]) -> str:
        """Return the decoded text of some tokens."""
        if self._decoder is None:
            return "".join(f"{token} " for token in ids)
        return visible(self._decoder.decode_part(ids))

    def piece(self, token: int) -> str:
        """Return the text of one token, or its piece as the model writes it if it holds only a part of a character."""
        text = self.text([token])
        return self._decoder.piece(token) if self._decoder is not None and "\ufffd" in text else text

    def label(self, token: int, role: str) -> Text:
        """Return one token on one line; a token of blanks is shown by signs."""
        text = self.piece(token).replace("\n", "")
        return Text.assemble((text if text.strip() else "␣" * len(text), role))

    def passage(
        self,
        title: str,
        ids: NDArray[Any],
        roles: Mapping[int, str] | None = None,
        signs: Mapping[int, str] | None = None,
    ) -> Passage:
        """Return a passage, cut at the limit, with roles of tokens and signs in front of them, by position."""
        tokens, text, signs = ids[: self._limit].tolist(), Text(), signs or {}
        styles = [(roles or {}).get(position) or self._role(token) for position, token in enumerate(tokens)]
        # tokens of one role, up to the next sign, are decoded together: a character may have several tokens
        first = 0
        for last in range(1, len(tokens) + 1):
            if last == len(tokens) or last in signs or styles[last] != styles[first]:
                text.append(signs.get(first, ""), "marker").append(self.text(tokens[first:last]), styles[first])
                first = last
        if len(tokens) < len(ids):
            text.append(f" … {len(ids) - len(tokens):,} more tokens", "marker")
        return Passage(f"{title} ({len(ids):,} tokens)", text)

    def _role(self, token: int) -> str:
        if token in self.vocabulary.sentinels:
            return "sentinel"
        return "special" if token < self.vocabulary.size and self.vocabulary.special[token] else ""
