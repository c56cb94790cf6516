"""Token documents as groupings read them."""

import numpy as np
from hypothesis import strategies as st

from clozeline.pipeline.rows import Ragged, RowBatch
from tests.pipeline.corruption_cases import FIRST_CONTENT


def documents(lists, starts=None, targets=None, texts=None, sources=None):
    """Documents of these tokens.

    Args:
        lists: tokens of each.
        starts: its sentence starts; None: one sentence.
        targets: its other side; None: empty.
        texts: number of its text: equal ones are copies of one document; None: all differ.
        sources: code of its input; None: 0.
    """
    count = len(lists)
    number = list(range(count)) if texts is None else list(texts)
    uids = np.arange(16 * count, dtype=np.uint32).astype(np.uint8).reshape(count, 16)
    uids[:, 14:] = np.arange(count, dtype=np.uint16).reshape(-1, 1).view(np.uint8)
    fixed = {
        "document_uid": uids[number],
        "language": np.arange(count, dtype=np.uint8) % 3,
        "source_group": np.array([0] * count if sources is None else sources, np.uint16),
        "copy": np.array(
            [number[:index].count(text) for index, text in enumerate(number)], np.uint8
        ),
    }

    sides = [[]] * count if targets is None else targets
    sentences = [[0] if len(one) else [] for one in lists] if starts is None else starts
    columns = {
        "token_ids": Ragged.from_lists(lists, np.uint16),
        "sentence_starts": Ragged.from_lists(sentences, np.uint32),
        "target_ids": Ragged.from_lists(sides, np.uint16),
        "target_language": Ragged.from_lists(
            [[2] if len(side) else [] for side in sides], np.uint8
        ),
    }

    return RowBatch(fixed, columns)


@st.composite
def many_documents(draw):
    """Up to eight documents of up to 25 tokens, each token unlike all others, with other sides."""
    lengths = draw(st.lists(st.integers(0, 25), max_size=8))
    starts = [
        sorted(
            {
                0,
                *draw(st.lists(st.integers(0, n - 1), max_size=6)),
            }
        )
        if n
        else []
        for n in lengths
    ]
    first = np.cumsum([FIRST_CONTENT, *lengths])
    lists = [list(range(start, start + n)) for start, n in zip(first, lengths, strict=False)]
    others = [list(range(500, 500 + draw(st.integers(0, 12)))) for _ in lengths]
    return documents(lists, starts, others)


def random_documents(count, longest, seed, sentence=7):
    """Documents of 0 .. longest tokens in sentences of about that many, every fourth a copy of the
    one before."""
    random = np.random.RandomState(seed)
    sizes = [int(random.randint(0, longest + 1)) for _ in range(count)]
    texts = [index - 1 if index % 4 == 3 else index for index in range(count)]
    lists = [random.randint(FIRST_CONTENT, 1000, size) for size in sizes]
    lists = [lists[text] for text in texts]
    starts = [
        np.union1d([0], random.randint(0, len(one), len(one) // sentence)) if len(one) else []
        for one in lists
    ]
    starts = [starts[text] for text in texts]
    targets = [
        random.randint(FIRST_CONTENT, 1000, random.randint(0, 1 + len(one))) for one in lists
    ]
    return documents(lists, starts, targets, texts, [index % 3 for index in range(count)])
