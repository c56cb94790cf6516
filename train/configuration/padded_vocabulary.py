"""Infer how a published model pads its token table, from its rows and its tokenizer."""

import tempfile
from pathlib import Path
from typing import Final

from clozeline.errors import ClozelineError
from clozeline.model.checkpoints import find_imported_tokenizer
from clozeline.model.layers.vocabulary import table_rows
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer

_LARGEST: Final = 4096


def row_multiple(rows: int, vocab_size: int) -> int | None:
    """Return the multiple to which a vocabulary is padded to give `rows`; None if there is none up to 4096.

    Prefers the smallest power of two, then the smallest multiple of 8, then the smallest number that adds less than a
    hundredth: the 151,936 rows of Qwen 2 and 3 are 128 x 1187, for 151,646 ids or more.
    """
    powers = (1 << power for power in range(_LARGEST.bit_length()))
    numbers = (*powers, *range(8, _LARGEST + 1, 8), *range(1, min(_LARGEST, rows // 100) + 1))
    return next((number for number in numbers if table_rows(vocab_size, number) == rows), None)


def table_multiple(source: Path, rows: int) -> int:
    """Return `vocab_multiple` of a model folder; 1 without a tokenizer, or with one of another vocabulary."""
    try:
        if (imported := find_imported_tokenizer(source)) is not None:
            tokenizer = load_tokenizer(imported)
        else:
            with tempfile.TemporaryDirectory() as folder:
                tokenizer = import_tokenizer(source, Path(folder))
    except (ClozelineError, OSError):  # without a usable tokenizer
        return 1
    return row_multiple(rows, tokenizer.vocabulary.size) or 1
