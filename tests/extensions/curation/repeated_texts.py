"""Texts with planted repeats, and searches for repeated lines, spans and windows by sets, from the
rules alone."""

import itertools
import random
from collections import defaultdict

from clozeline.pipeline.text.normal_form import normalize
from tests.extensions.curation.decontaminate.contaminated_texts import (
    VOCABULARY,
    disguise,
    words_of,
)
from tests.pipeline.dedup.dedup_documents import document

MENU = [" ".join(["menu", *VOCABULARY[n : n + 3]]).title() for n in range(0, 40, 4)]


def sentence(draw):
    words = [draw.choice(VOCABULARY) for _ in range(draw.randrange(2, 9))]
    return " ".join(words).capitalize() + draw.choice([".", "!", ".", " 12."])


def texts(seed, count):
    """Texts of lines with sentences.

    Lines are cut from one book, so that they share sentences; some are lines of a site, or of
    marks.
    """
    draw = random.Random(seed)
    book = [sentence(draw) for _ in range(8 * count)]

    for _ in range(count):
        lines = []
        for _ in range(draw.randrange(1, 6)):
            at = draw.randrange(len(book))
            lines.append(" ".join(book[at : at + draw.randrange(1, 7)]))
        for _ in range(draw.choice([0, 0, 1, 2])):
            line = draw.choice([*MENU, "* * *", "12"])
            lines.insert(draw.randrange(len(lines) + 1), draw.choice([line, disguise(draw, line)]))
        if draw.random() < 0.05:
            lines = draw.sample(MENU, 2)  # a document of nothing else
        yield normalize("\n".join(lines))


def documents(seed, count):
    return [
        document(n, text, source_group="ab"[n % 2]) for n, text in enumerate(texts(seed, count))
    ]


def letters(line):
    return sum(character.isalpha() for character in line)


def without_lines(rows, most, keep_first, min_letters, by_source):
    """Return what is left of each text: lines in more than `most` documents are removed."""
    holders = defaultdict(set)
    for row in rows:
        for line in row.text.split("\n"):
            holders[tuple(words_of(line)), row.source_group if by_source else ""].add(row.uid)

    left = {}
    seen = set()

    for row in sorted(rows, key=lambda row: row.uid):
        kept = []

        for line in row.text.split("\n"):
            key = tuple(words_of(line)), row.source_group if by_source else ""
            repeats = letters(line) >= min_letters and len(holders[key]) > most
            if not repeats or (keep_first and key not in seen):
                kept.append(line)
            if letters(line) >= min_letters:
                seen.add(key)

        left[row.uid] = normalize("\n".join(kept))

    return left


def without_spans(rows, size, split):
    """Return what is left of each text without spans of sentences that occur earlier, by uid and
    position."""
    seen = set()
    left = {}

    for row in sorted(rows, key=lambda row: row.uid):
        starts = [*split(row.text), len(row.text)]
        sentences = [row.text[first:last] for first, last in itertools.pairwise(starts)]
        removed = set()

        for first in range(len(sentences) - size + 1):
            key = tuple(tuple(words_of(each)) for each in sentences[first : first + size])
            if key in seen:
                removed |= set(range(first, first + size))
            if any(key):
                seen.add(key)

        pieces = [""]

        for index, each in enumerate(sentences):
            if index in removed:
                pieces.append("")
            else:
                pieces[-1] += each

        gaps = removed and "\n\n".join(piece for piece in pieces if piece)
        left[row.uid] = normalize(gaps) if removed else row.text

    return left
