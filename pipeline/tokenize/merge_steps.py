"""The first merges of byte-pair encoding, step by step, with the count of each pair in texts."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import tokenizers

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tokenize.tokenizers.bpe import merge_pair
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson, read_tokenizer_json


class MergeStep(NamedTuple):
    """A pair that is merged, how often it occurs before, and its first word after the merge."""

    left: str
    right: str
    occurrences: int
    word: str


def replay_merges(folder: Path, texts: Iterable[str], limit: int) -> Iterator[MergeStep]:
    """Yield the first `limit` merges of a tokenizer, counted in these texts (arXiv 1508.07909).

    Raises:
        ConfigurationError: the tokenizer has no merges.
    """
    file = folder / TokenizerJson.FILE
    rules = read_tokenizer_json(file)["model"].get("merges") if file.is_file() else None
    if rules is None:
        raise ConfigurationError(
            f"merges: the tokenizer in {folder} does not merge pairs; those that `bpe` and "
            "`byte_bpe` train do"
        )

    # the words as the tokenizer splits them, and their symbols
    model = tokenizers.Tokenizer.from_file(str(file))
    words = Counter(word for text in texts for word in _split_words(model, text))
    spelled = {word: list(word) for word in words}

    for rule in islice(rules, limit):
        left, right = rule.split(" ") if isinstance(rule, str) else rule
        count = 0
        shown = ""
        for word, symbols in spelled.items():
            found = list(pairwise(symbols)).count((left, right))
            if found:
                count += found * words[word]
                spelled[word] = merge_pair(symbols, (left, right))
                shown = shown or " ".join(spelled[word])
        yield MergeStep(left, right, count, shown)


def _split_words(model: tokenizers.Tokenizer, text: str) -> Iterator[str]:
    """Yield the parts of a text inside which pairs are merged."""
    normal = model.normalizer.normalize_str(text) if model.normalizer else text
    if model.pre_tokenizer is None:
        yield normal
        return
    for word, _ in model.pre_tokenizer.pre_tokenize_str(normal):
        yield word
