"""Features of a page's blocks for the linear model: their text, their elements, and the blocks around them.

Arrays have an entry per block, n, or per frame, f. Sums over the blocks of an element are differences of cumulative
sums, so the work grows with the number of blocks, frames and characters only.
"""

import unicodedata
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.clean.extractors._class_hints import HINTS
from clozeline.pipeline.clean.extractors._page_walk import TAG, Page

Floats = NDArray[np.float64]

LOG_LENGTH, LINKS = 0, 3
"""Columns of features that rules use too: log(1 + weighted characters), and the share of link text."""
_GOOD_LENGTH: Final = 40  # characters of a block of prose
_GOOD_LINKS: Final = 0.4  # share of link text that it has at most
_IDEOGRAPH_LENGTH: Final = 2.5  # letters that a Han or Kana character counts as
_HOLDER_SHARES: Final = (0.5, 0.75, 0.95)
_NEIGHBORS: Final = (-2, -1, 1, 2)
_KINDS: Final = (
    ("p",), ("li", "dt", "dd"), ("h1",), ("h2",), ("h3", "h4", "h5", "h6"), ("td", "th", "caption"),
    ("pre", "listing", "xmp"), ("blockquote",), ("figcaption", "figure"), ("div", "section", "center"),
    ("header", "footer", "address", "summary", "legend"), ("body",),
)  # fmt: skip
_H1, _HEADINGS = 0b100, 0b11100
_REGIONS: Final = (
    ("nav", "menu", "search"), ("footer",), ("aside",), ("header", "hgroup"), ("article",), ("main",),
    ("form", "fieldset"), ("figure",), ("table",), ("ul", "ol", "dl"), ("blockquote",),
)  # fmt: skip


def _bits_by_tag(groups: tuple[tuple[str, ...], ...], shift: int = 0) -> NDArray[np.int64]:
    table = np.zeros(len(TAG), np.int64)
    for index, names in enumerate(groups):
        for name in names:
            table[TAG[name]] |= 1 << (index + shift)
    return table


_KIND_OF_TAG: Final = _bits_by_tag(_KINDS)
_REGION_OF_TAG: Final = _bits_by_tag(_REGIONS, len(HINTS))

# classes of characters; a character has one
_OTHER, _UPPER, _LOWER, _DIGIT, _SPACE, _MARK, _COMMA, _SIGN, _IDEOGRAPH, _CLASSES = range(10)


@cache
def _character_classes() -> NDArray[np.uint8]:
    """Return the class of each character of the first plane."""
    by_category = {"Lu": _UPPER, "Ll": _LOWER, "Nd": _DIGIT, "Zs": _SPACE, "Cc": _SPACE}
    by_category |= dict.fromkeys(("Sc", "Sk", "Sm", "So"), _SIGN)
    table = np.array([by_category.get(unicodedata.category(chr(code)), _OTHER) for code in range(0x10000)], np.uint8)
    for first, last in ((0x2E80, 0xA4CF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F)):
        table[first : last + 1] = _IDEOGRAPH
    for characters, kind in (
        (".!?…。！？؟۔।॥։።", _MARK),
        (",;、，；،", _COMMA),
        ("|/»›•·©@#>:", _SIGN),
        ("\u3000", _SPACE),
    ):
        table[[ord(character) for character in characters]] = kind
    return table


class _TextMeasures(NamedTuple):
    """Numbers of the blocks' texts, (n,) each."""

    characters: Floats
    lengths: Floats  # Han and Kana weighted
    counts: Floats  # (_CLASSES, n)
    ends_well: Floats  # with a mark, closing quotes and brackets aside
    starts_low: Floats  # with a lower-case letter


def _measure_texts(texts: list[str]) -> _TextMeasures:
    n = len(texts)
    sizes = np.fromiter(map(len, texts), np.int64, n)
    ends = np.cumsum(sizes)
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    classes = _character_classes()[np.minimum(codes, 0xFFFF)]
    cells = np.repeat(np.arange(n) * _CLASSES, sizes) + classes
    counts = np.bincount(cells, minlength=n * _CLASSES).reshape(n, _CLASSES).T.astype(np.float64)
    starts, last = ends - sizes, classes[ends - 1]
    ends_well = (last == _MARK) | ((classes[np.maximum(ends - 2, starts)] == _MARK) & (last == _OTHER))
    characters = sizes.astype(np.float64)
    lengths = characters + (_IDEOGRAPH_LENGTH - 1) * counts[_IDEOGRAPH]
    starts_low = classes[starts] == _LOWER
    return _TextMeasures(characters, lengths, counts, ends_well.astype(np.float64), starts_low.astype(np.float64))


def _walk_up(page: Page, own: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each frame, (f,): the next frame around it that holds further blocks, and the hints of all around."""
    start, end, around = page.start, page.end, own.tolist()
    wider = [0] * len(around)
    for index, above in enumerate(page.parent):
        if above >= 0:
            around[index] |= around[above]
            same = start[above] == start[index] and end[above] == end[index]
            wider[index] = wider[above] if same else above
    return np.array(wider), np.array(around)


def measure_blocks(page: Page) -> Floats:
    """Return the features of each block of a page with blocks, (n, F)."""
    n = len(page.texts)
    frame, tag = np.array(page.frame), np.array(page.tag)
    start, end = np.array(page.start), np.array(page.end)
    order = np.arange(n)

    # text
    texts = _measure_texts(page.texts)
    lengths, counts = texts.lengths, texts.counts
    marks = counts[_MARK]
    words = counts[_SPACE] + 1 + counts[_IDEOGRAPH]
    links = np.array(page.link_characters) / texts.characters
    emphasis = np.array(page.emphasized) / texts.characters
    log_length, log_marks = np.log1p(lengths), np.log1p(marks)
    good = ((lengths >= _GOOD_LENGTH) & (links < _GOOD_LINKS) & (marks > 0)).astype(np.float64)
    is_long = (lengths > 120).astype(np.float64)
    columns = [
        log_length, np.log1p(words), log_marks, links, np.log1p(np.array(page.links)), texts.ends_well,
        texts.starts_low, counts[_DIGIT] / lengths, counts[_UPPER] / lengths, counts[_SIGN] / lengths,
        counts[_IDEOGRAPH] / lengths, counts[_COMMA] / words, np.minimum(np.array(page.breaks), 4.0), good,
        lengths < 20, is_long, (marks == 0) * log_length, links * log_length, texts.ends_well * log_length,
        counts[_UPPER] > 0.5 * (lengths - counts[_SPACE]), links > 0.9, emphasis, emphasis > 0.9,
    ]  # fmt: skip

    # elements around: their share of the page's prose, their link text, and the mean length and number of their blocks
    own = np.array(page.hints) | _REGION_OF_TAG[tag]
    wider, around = _walk_up(page, own)
    sums = np.zeros((3, n + 1))
    np.cumsum((lengths, links * lengths, good * lengths), axis=1, out=sums[:, 1:])
    total, in_links, prose = sums[:, end] - sums[:, start]
    blocks = np.maximum(end - start, 1)
    page_prose = max(float(sums[2, -1]), 1.0)
    of_frame = np.stack(
        (prose / page_prose, in_links / np.maximum(total, 1.0), np.log1p(total / blocks), np.log1p(blocks))
    )
    above = frame
    for _ in range(4):
        columns += list(of_frame[:, above])
        above = wider[above]

    # the smallest elements that hold a share of the page's prose
    holders = []
    for share in _HOLDER_SHARES:
        smallest = int(np.flatnonzero(prose >= share * page_prose)[-1]) if sums[2, -1] else 0
        holders.append(((order >= start[smallest]) & (order < end[smallest])).astype(np.float64))

    # blocks in elements with equal tags and classes up to the root
    signature = np.array(page.signature)[frame]
    size = np.bincount(signature)
    weight = np.bincount(signature, lengths)
    means = [(np.bincount(signature, values * lengths) / np.maximum(weight, 1.0))[signature]
             for values in (log_length, links, holders[1], good)]  # fmt: skip
    columns += [*holders, np.log1p(size)[signature], *means, weight[signature] / max(float(sums[0, -1]), 1.0)]

    # position
    kind = _KIND_OF_TAG[tag[frame]]
    headings = np.flatnonzero(kind & _H1)
    first = headings[0] if len(headings) else n
    prose_at = np.flatnonzero(good)
    begins, ends = (prose_at[0], prose_at[-1]) if len(prose_at) else (n, -1)
    columns += [order / n, sums[2, :-1] / page_prose, order < first if first < n else np.zeros(n), order > first,
                order < begins, order > ends, np.full(n, np.log1p(page_prose))]  # fmt: skip

    # blocks before and after; zeros beyond the ends
    shown = np.zeros((7, n + 4))
    shown[:, 2:-2] = (log_length, links, good, (kind & _HEADINGS) != 0, holders[1], texts.ends_well,
                      of_frame[0, wider[frame]])  # fmt: skip
    bits = np.stack((own[frame], around[frame]))[:, None] >> np.arange(len(HINTS) + len(_REGIONS))[:, None] & 1
    kinds = kind >> np.arange(len(_KINDS))[:, None] & 1
    neighbors = [shown[:, 2 + by : 2 + by + n] for by in _NEIGHBORS]
    return np.concatenate((np.array(columns), kinds, bits.reshape(-1, n), *neighbors)).T
