"""Compare the special tokens around training rows with those that an exported tokenizer writes around their texts."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import numpy as np

from clozeline.pipeline.tokenize.tokenizers import Tokenizer

_ROWS: Final = 30
"""Rows that are compared."""
_SHOWN: Final = 120
_HEAD: Final = ("cls", "bos")
_TAIL: Final = ("sep", "eos")


def compare_frames(rows: Iterable[Any], tokenizer: Tokenizer, exported: Any, *, is_prompt: bool) -> str:
    """Return a line about the first rows of ids; empty if there are none.

    A row of one or two texts is compared with what `exported`, a tokenizer of transformers, writes around them. Rows
    with other special tokens, such as masks, or with texts that do not encode to their ids again are compared at both
    ends. A decoder's rows are prompts, of one text without an end (`is_prompt`).
    """
    special, compared, entire, differing = tokenizer.vocabulary.special, 0, 0, list[str]()
    roles = tokenizer.vocabulary.specials
    around = {token for role, token in roles.items() if role in (*_HEAD, *_TAIL)}
    framed_letter = exported("a").input_ids
    inside = [position for position, token in enumerate(framed_letter) if token not in around] or [0]
    head, tail = framed_letter[: inside[0]], framed_letter[inside[-1] + 1 :]
    last = {roles[role] for role in _TAIL if role in roles}
    first = {roles[role] for role in _HEAD if role in roles} - last  # a packed row may begin with a separator
    for ids in islice(rows, _ROWS):
        row = [int(token) for token in ids]
        while is_prompt and row and special[row[-1]]:
            row.pop()
        if not row:
            continue
        compared += 1
        outside = ~special[row]
        starts = np.flatnonzero(np.diff(outside.astype(np.int8), prepend=0, append=0))
        texts = [row[start:end] for start, end in zip(starts[::2], starts[1::2], strict=True)]
        spelled = [tokenizer.decode(text) for text in texts]
        if (
            1 <= len(texts) <= 2 - is_prompt
            and around.issuperset(token for token in row if special[token])
            and [encoding.ids.tolist() for encoding in tokenizer.encode(spelled)] == texts
        ):
            entire += 1
            framed = exported(*spelled).input_ids
            same = framed == row
        else:
            framed = [*head, *tail]
            begins = row[: len(head)] == head if head else row[0] not in first
            same = begins and (row[-len(tail) :] == tail if tail else row[-1] not in last)
        if not same:
            ours, theirs = (" ".join(exported.convert_ids_to_tokens(each)) for each in (row, framed))
            differing.append(f"{ours[:_SHOWN]} in training, {theirs[:_SHOWN] or 'nothing'} there")
    if not compared:
        return ""
    if differing:
        count = f"{len(differing)} of {compared}"
        return f"frame: the exported tokenizer writes {count} training rows otherwise: {differing[0]}"
    how = f"{entire} of them complete, the others at both ends" if entire < compared else "all of them complete"
    return f"frame: {compared} training rows compared, {how}, each as the exported tokenizer writes it"
