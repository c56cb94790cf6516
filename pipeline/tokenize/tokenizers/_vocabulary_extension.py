"""Extend a byte-level BPE or WordPiece in a `tokenizer.json` with further pieces."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from clozeline.pipeline.tokenize.tokenizers._pieces import TableTokenizer, training_texts


class ByteMerges(TableTokenizer):
    """Words and their pieces in a tokenizer of the `tokenizers` library, to learn further merges from."""

    _model: Tokenizer

    def words(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the words of texts as the library splits them; no piece crosses their boundaries."""
        normalizer = self._model.normalizer
        for text in training_texts(texts):
            plain = normalizer.normalize_str(text) if normalizer else text
            yield from (word for word, _ in self._model.pre_tokenizer.pre_tokenize_str(plain))

    def cut(self, word: str) -> list[str]:
        """Return the pieces of a word; empty for the unknown token."""
        pieces = [token.value for token in self._model.model.tokenize(word)]
        return [] if getattr(self._model.model, "unk_token", None) in pieces else pieces

    def join_pieces(self, left: str, right: str) -> str:
        """Return the merge of two pieces."""
        return left + right.removeprefix(getattr(self._model.model, "continuing_subword_prefix", None) or "")


def with_merges(facts: Mapping[str, Any], merges: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the file with further merges; each adds a piece with the next id, and the existing ids stay."""
    model = facts["model"]
    size, prefix = len(model["vocab"]), model.get("continuing_subword_prefix") or ""
    made = (left + right.removeprefix(prefix) for left, right in merges)
    vocabulary = model["vocab"] | {piece: size + number for number, piece in enumerate(made)}
    if model.get("type") == "WordPiece":
        return {**facts, "model": {**model, "vocab": vocabulary}}
    pairs = [pair.split(" ") if isinstance(pair, str) else list(pair) for pair in model["merges"]]
    return {**facts, "model": {**model, "vocab": vocabulary, "merges": [*pairs, *map(list, merges)]}}
