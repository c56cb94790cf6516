"""Extend a byte-level BPE in a `tokenizer.json` with further merges."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from clozeline.pipeline.tokenize.tokenizers._pieces import TableTokenizer, training_texts


class ByteMerges(TableTokenizer):
    """Words and their pieces in a byte-level BPE of the `tokenizers` library, to learn further merges from."""

    _model: Tokenizer

    def words(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the words of texts in the byte alphabet; no piece crosses their boundaries."""
        for text in training_texts(texts):
            yield from (word for word, _ in self._model.pre_tokenizer.pre_tokenize_str(text))

    def cut(self, word: str) -> list[str]:
        """Return the pieces of a word."""
        return [token.value for token in self._model.model.tokenize(word)]

    @staticmethod
    def join_pieces(left: str, right: str) -> str:
        """Return the merge of two pieces."""
        return left + right


def with_merges(facts: Mapping[str, Any], merges: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the file with further merges; each adds a piece with the next id, and the existing ids stay."""
    model = facts["model"]
    size = len(model["vocab"])
    vocabulary = model["vocab"] | {left + right: size + number for number, (left, right) in enumerate(merges)}
    pairs = [pair.split(" ") if isinstance(pair, str) else list(pair) for pair in model["merges"]]
    return {**facts, "model": {**model, "vocab": vocabulary, "merges": [*pairs, *map(list, merges)]}}
