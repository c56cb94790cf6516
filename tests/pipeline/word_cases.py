"""Words and spans of words by plain loops, for tests of what takes whole words."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from clozeline.seeding import LENGTHS, POSITIONS, random_bits


class Word(NamedTuple):
    """First token in the row, tokens, and the number of the run of text."""

    start: int
    length: int
    run: int


def drawn(key, stream, count):
    """Words of a stream as plain numbers."""
    return random_bits(np.array([key]), stream, count)[0].tolist() if count else []


def smallest(key, stream, size, count):
    """The `count` of the numbers below `size` whose words are the smallest, in the order of their
    words."""
    rolls = drawn(key, stream, size)
    return sorted(range(size), key=lambda number: (rolls[number] >> 16, number))[:count]


def slow_words(ids, vocabulary, starts=None):
    """Words of one row of content, that start at these places, or as the pieces say."""
    found = []
    run = 0
    inside = False
    ends = vocabulary.word_end

    if starts is not None:
        opens = np.zeros(vocabulary.size, np.bool_)
        opens[ids] = np.isin(np.arange(len(ids)), starts)
        assert len(set(ids)) == len(ids), "each token tells its place"
        vocabulary = replace(vocabulary, word_start=opens, word_end=None)
        ends = None

    for place, token in enumerate(ids):
        if vocabulary.special[token]:
            run = run + 1
            inside = False
        elif (
            inside
            and not vocabulary.word_start[token]
            and not (ends is not None and ends[ids[place - 1]])
        ):
            found[-1] = found[-1]._replace(length=found[-1].length + 1)
        else:
            found.append(Word(place, 1, run))
            inside = True

    return found


def slow_take(key, row, budget, thresholds=(0,)):
    """Places of the tokens taken, ascending, as the rule says.

    The thresholds (0,) mean one word a span.

    A word over the budget is as many words of one token; the next word in the order gives what no
    word fits.
    """
    units = []

    for word in row:
        cut = word.length > budget
        units += (
            [Word(word.start + token, 1, word.run) for token in range(word.length)]
            if cut
            else [word]
        )

    order = smallest(key, POSITIONS, len(units), len(units))
    lengths = drawn(key, LENGTHS, len(units))
    taken = set()
    left = budget

    for tries, first in enumerate(order):
        longest = sum(bound <= lengths[tries] >> 32 for bound in thresholds)
        for unit in range(first, min(first + longest, len(units))):
            if unit in taken or units[unit].run != units[first].run or units[unit].length > left:
                break
            taken.add(unit)
            left -= units[unit].length

    sizes = {unit: units[unit].length for unit in taken}
    if left:
        sizes[next(unit for unit in order if unit not in taken)] = left
    return [units[unit].start + token for unit in sorted(sizes) for token in range(sizes[unit])]


def leaders_of(sizes):
    """The first label of the word or span that each label is in."""
    return [sum(sizes[:number]) for number, size in enumerate(sizes) for _ in range(size)]


def masked_by_hand(
    key,
    row,
    places,
    vocabulary,
    leaders=None,
):
    """The row with its labels hidden by 80/10/10, their places, and their ids.

    Each label decides if none leads.
    """
    found = list(row)
    ids = [row[place] for place in places]
    written = slow_roles(key, ids, range(len(ids)) if leaders is None else leaders, vocabulary)
    for place, token in zip(places, written, strict=True):
        found[place] = token
    return found, list(places), ids


def slow_roles(key, ids, leaders, vocabulary):
    """Inputs at the places of labels by 80/10/10, each deciding by the word of its leader."""
    found = []
    rolls = drawn(key, 1, len(ids))

    for label, leader in enumerate(leaders):
        role = ((rolls[leader] >> 32) * 10**6) >> 32
        low = rolls[label] & 0xFFFFFFFF
        random = int(vocabulary.replaceable[(low * len(vocabulary.replaceable)) >> 32])
        found.append(
            vocabulary.specials["mask"]
            if role < 800_000
            else random
            if role < 900_000
            else ids[label]
        )

    return found
