"""Rows of task items, built with a small vocabulary."""

from clozeline.extensions.tasks.sets.task_rows import FRAMES, Form, SpecialTokens
from tests.pipeline.task_files import SPECIALS


def built(type_, metadata, frame, length, tokenizer, items):
    kind = type_(
        metadata,
        Form(frame if isinstance(frame, SpecialTokens) else FRAMES[frame], length),
        tokenizer,
        "corpus",
        "f",
    )

    return kind.counts, kind.rows(items)


EOS = len(SPECIALS)


def ids(words, text):
    return words.encode([text])[0].ids.tolist()
