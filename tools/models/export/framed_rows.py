"""Compare the special tokens around training rows with those that an exported tokenizer writes around their texts."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from clozeline.pipeline.tokenize.tokenizers import Tokenizer

_ROWS: Final = 30
"""Rows that are compared."""
_SHOWN: Final = 120
_AROUND: Final = ("cls", "sep", "bos", "eos")


def compare_frames(rows: Iterable[Any], tokenizer: Tokenizer, exported: Any, *, is_prompt: bool) -> str:
    """Return a line about rows of ids, each of one or two texts; empty if no row can be compared.

    Rows with other special tokens, such as masks, and texts that do not encode to their ids again are left out.
    `exported` is a tokenizer of transformers. A decoder's rows are prompts, of one text without an end (`is_prompt`).
    """
    special, compared, differing = tokenizer.vocabulary.special, 0, list[str]()
    around = {token for role, token in tokenizer.vocabulary.specials.items() if role in _AROUND}
    for ids in rows:
        row = [int(token) for token in ids]
        while is_prompt and row and special[row[-1]]:
            row.pop()
        outside = ~special[row]
        starts = np.flatnonzero(np.diff(outside.astype(np.int8), prepend=0, append=0))
        texts = [row[start:end] for start, end in zip(starts[::2], starts[1::2], strict=True)]
        if not 1 <= len(texts) <= 2 - is_prompt or not around.issuperset(token for token in row if special[token]):
            continue
        spelled = [tokenizer.decode(text) for text in texts]
        if [encoding.ids.tolist() for encoding in tokenizer.encode(spelled)] != texts:
            continue
        compared += 1
        framed = exported(*spelled).input_ids
        if framed != row:
            ours, theirs = (" ".join(exported.convert_ids_to_tokens(each)) for each in (row, framed))
            differing.append(f"{ours[:_SHOWN]} in training, {theirs[:_SHOWN]} there")
        if compared == _ROWS:
            break
    if not compared:
        return ""
    if differing:
        count = f"{len(differing)} of {compared}"
        return f"frame: the exported tokenizer writes {count} training rows otherwise: {differing[0]}"
    return f"frame: {compared} training rows compared, each as the exported tokenizer writes it"
