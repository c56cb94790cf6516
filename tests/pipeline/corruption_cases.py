"""Vocabularies and sample rows for tests of objectives and groupings."""

import numpy as np

from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.vocabulary import SENTINELS, SPECIALS, Vocabulary

FIRST_CONTENT = len(SPECIALS) + SENTINELS + 3
SEP = SPECIALS.index("sep")
MASK = SPECIALS.index("mask")
EOS = SPECIALS.index("eos")
UNK = SPECIALS.index("unk")


def vocabulary(size=400, sentinels=SENTINELS):
    """Specials, sentinels and modes first; every third id opens a word."""
    specials = {name: index for index, name in enumerate(SPECIALS)}
    first = len(SPECIALS)
    special = np.zeros(size, np.bool_)
    special[:FIRST_CONTENT] = True
    modes = {mode: first + SENTINELS + index for index, mode in enumerate("RSX")}
    word_start = np.arange(size) % 3 == 0
    return Vocabulary(
        size, specials, tuple(range(first, first + sentinels)), modes, special, word_start, "f" * 64
    )


WORDS = vocabulary(1000)
"""The vocabulary of most tests of objectives."""


def samples(lengths, words=WORDS, *, seed=0, sentences=None, specials=0.0, unknown=0.0):
    """Rows of random content.

    Args:
        lengths: content tokens of each row.
        words: the vocabulary.
        seed: of the content.
        sentences: of each row, as many as fit; None: random.
        specials: share of tokens that are [SEP].
        unknown: share of tokens that are [UNK], of partners and other sides too.
    """
    random = np.random.RandomState(seed)
    ids = []
    starts = []
    documents = []

    for length in lengths:
        row = random.randint(FIRST_CONTENT, words.size, length)
        row[random.random_sample(length) < specials] = SEP
        ids.append(row)
        most = max(1, length)
        count = min(most, sentences or 1 + random.randint(0, 1 + most // 4))
        starts.append(
            np.concatenate(([0], 1 + np.sort(random.permutation(most - 1)[: count - 1])))
            if length
            else []
        )

        documents.append(starts[-1][::3])

    columns = {
        "ids": Ragged.from_lists(ids, words.id_dtype),
        "sentence_starts": Ragged.from_lists(starts, np.uint16),
        "document_starts": Ragged.from_lists(documents, np.uint16),
    }

    columns |= pair_columns(lengths, words, seed)
    for name in ("ids", "partner_ids", "target_ids") if unknown else ():
        values = columns[name].values
        values[random.random_sample(len(values)) < unknown] = UNK

    fixed = fixed_columns(random.randint(0, 1 << 62, len(lengths)).astype(np.uint64))
    return RowBatch({**fixed, "part": (np.arange(len(lengths)) % 7).astype(np.uint8)}, columns)


def pair_columns(lengths, words, seed):
    """Partners of up to length - 1 tokens, and other sides of up to 20, for rows of these
    lengths."""
    random = np.random.RandomState([seed, 1])
    sizes = [min(max(0, n - 1), max(1, n - 1 - random.randint(0, 1 + n // 4))) for n in lengths]
    partners = [random.randint(FIRST_CONTENT, words.size, size) for size in sizes]
    targets = [
        random.randint(FIRST_CONTENT, words.size, random.randint(1, 21) if n else 0)
        for n in lengths
    ]
    return {
        "partner_ids": Ragged.from_lists(partners, words.id_dtype),
        "partner_document_uid": Ragged.from_lists([[255] * 16] * len(lengths), np.uint8),
        "partner_offset": Ragged.from_lists([[0]] * len(lengths), np.uint32),
        "target_ids": Ragged.from_lists(targets, words.id_dtype),
        "target_language": Ragged.from_lists([[1]] * len(lengths), np.uint8),
    }


def fixed_columns(uids):
    count = len(uids)
    return {
        "uid": uids,
        "variant": np.zeros(count, np.uint16),
        "document_uid": np.arange(16 * count, dtype=np.uint32).astype(np.uint8).reshape(count, 16),
        "document_offset": np.arange(count, dtype=np.uint32),
        "copy": np.zeros(count, np.uint8),
        "part": np.zeros(count, np.uint8),
        "language": np.zeros(count, np.uint8),
    }


def one_sample(ids, sentence_starts, words=WORDS, copies=1):
    """The same row `copies` times."""
    columns = {
        "ids": Ragged.from_lists([ids] * copies, words.id_dtype),
        "sentence_starts": Ragged.from_lists([sentence_starts] * copies, np.uint16),
        "document_starts": Ragged.from_lists([[0]] * copies, np.uint16),
    }

    return RowBatch(fixed_columns(np.full(copies, 12345, np.uint64)), columns)
