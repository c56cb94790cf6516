"""Find hard-wrapped paragraphs: lines that were broken because the next word did not fit.

Licenses, manuals, mails, RFCs and books have such paragraphs; rules about lines would judge
fragments of their sentences. In code, lists, tables, verse and menus, line ends mean something.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median_low
from typing import Final, NamedTuple, TypeAlias

from clozeline.pipeline.text.line_ends import HYPHENS, LineEnds
from clozeline.pipeline.text.normal_form import is_written_without_blanks
from clozeline.pipeline.text.sentence_marks import has_sentence_end_inside

_MINIMUM_BREAKS: Final = 3
"""Minimum number of forced line breaks in a wrapped text, which has at least one more line."""
_FORCED_SHARE: Final = 0.9
"""Minimum share of forced breaks among the line breaks inside sentences."""
_SLACK: Final = 16
"""One column in 16 may stay free, because not every line is broken as late as possible."""
_MINIMUM_WIDTH: Final = 36
"""Minimum width of a wrapped text, in columns."""
_NARROW_WIDTH: Final = 56
"""Width in columns below which a text may be verse, so that more forced breaks are required."""
_BREAKS_IF_NARROW: Final = 8
"""Minimum number of forced breaks in a text below that width."""
_HEADING_SHARE: Final = 0.6
"""A line that was broken too early is a heading if it is shorter than this share of the width."""
_MOST_MEAN_CHARACTERS: Final = 200
"""Maximum mean characters of a line; longer lines are entire paragraphs, so nothing is wrapped."""
_SYMBOL_SHARE: Final = 0.05
"""Maximum share of ASCII symbols in prose."""
_DIGIT_SHARE: Final = 0.2
"""Maximum share of digits in prose."""
_WORDS_PER_LINE: Final = 4
"""Minimum mean words per line in prose."""
_MARKED_SHARE: Final = 0.5
"""Maximum share of line breaks of prose that follow a punctuation mark; in verse, more do."""
_LOWER_SHARE: Final = 0.3
"""Minimum share of line breaks of prose before a small letter, in scripts with small letters; in
lists and logs, fewer breaks are before one."""

_MARKER: Final = re.compile(
    r"(?:[-*+•–—·▪◦‣●○■]|\(?(?:\d{1,3}|[^\W\d_]|[ivxlc]{1,5})[.)]|#+|//+|--+|;+|%+|/\*|\*/"
    r"|::+|\.\.|@\w+|\$|>>>)(?:\s|$)"
)
"""The start of a list item, or of a comment in code."""
_QUOTED: Final = re.compile(r"(?:>\s?)+")
_COLUMNS: Final = re.compile(r"\t|\||\S {3,}\S|\.{4,}|(?:\. ){4,}")
"""Separators of table cells, or of an entry of a table of contents and its page."""
_CODE: Final = re.compile(
    r"(?:[{}\\=<>(\[]|=>|\*/|[)\]}\"'\d];|\)\s*:)$|\w\(\)|\w\.\w+\(| (?:==?|[-+*/|&:!<>]=|->|=>) "
)
_ASSIGNMENT: Final = re.compile(r"\w (?:=|[-+*/|&:]=) \w")
_ENTRY: Final = re.compile(r"[\w'-]+(?: [\w'-]+)?:\s")
"""The name of a speaker or of an entry at the start of a line."""
_SYMBOL: Final = re.compile(r"[#$%&*+/<=>@\\^_`{|}~]")
_DIGIT: Final = re.compile(r"\d")
_OPENING: Final = "\"'“‘„«‹([¿¡<*_"

MeasureWidth: TypeAlias = Callable[[str], int]


class _Line(NamedTuple):
    """A line without its indent and quotation marks."""

    text: str
    indent: int
    quotes: str
    columns: int
    is_last: bool = False
    """whether an empty line, or the end of the text, follows"""


@dataclass(frozen=True)
class _Block:
    """Consecutive lines that are not empty, and the index of the first one."""

    first: int
    lines: list[_Line]

    @cached_property
    def is_list(self) -> bool:
        """Whether more than a fifth of the lines start with a marker."""
        markers = [line for line in self.lines if _MARKER.match(line.text)]
        return 5 * len(markers) > len(self.lines)


def group_lines(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each paragraph, in order.

    The lines of a hard-wrapped paragraph form one group, and each other line forms its own group.

    A text is wrapped at a width if it has four lines or more and the width forced nine in ten of
    its breaks: the first word of the next line would not have fitted. Breaks between paragraphs,
    items and quotations do not count.

    Args:
        lines: the lines of a text, including empty ones.
    """
    filled = [line for line in lines if line]
    joined = set[int]()
    if sum(map(len, filled)) <= _MOST_MEAN_CHARACTERS * len(filled):
        joined = _find_continuations(lines, len)
        # in scripts without blanks, also measure in columns: a wide character takes two
        if not joined and any(is_written_without_blanks(line[-1]) for line in filled):
            joined = _find_continuations(lines, _count_columns)

    groups: list[list[str]] = []
    for number, line in enumerate(lines):
        if number in joined:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def join_paragraph(lines: Sequence[str], line_ends: LineEnds) -> str:
    """Return the lines of a paragraph as one line, without indents and marks of quotations."""
    parts = [lines[0].rstrip()]
    for line in lines[1:]:
        text = _read_line(line, len).text
        parts[-1] = line_ends.join(parts[-1], text)
        parts.append(text)
    return "".join(parts)


def unwrap(text: str) -> str:
    """Return a text with each hard-wrapped paragraph as one line.

    If no sentence ends inside of a line, the text is verse, a list or a log, and unchanged.
    """
    if not has_sentence_end_inside(text):
        return text
    line_ends = LineEnds(text)
    groups = group_lines(text.split("\n"))
    return "\n".join(join_paragraph(group, line_ends) for group in groups)


def _count_columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _find_continuations(lines: Sequence[str], measure: MeasureWidth) -> set[int]:
    """Return the indices of the lines that continue the paragraph of the previous line."""
    blocks = [block for block in _iter_blocks(lines, measure) if len(block.lines) > 1]
    widths = [(_measure_block(block), block) for block in blocks]
    seeds = [(width, block) for width, block in widths if _is_wrapped(block, width, is_alone=True)]
    if not seeds:
        # paragraphs of two or three lines are judged together
        width = max((width for width, _ in widths), default=0)
        together = _Block(0, [line for block in blocks for line in block.lines])
        if _is_wrapped(together, width, is_alone=True):
            seeds = [(width, block) for block in blocks]

    if not seeds:
        return set()

    # short paragraphs are judged by the usual width of wrapped paragraphs
    usual_width = median_low([width for width, block in seeds for _ in block.lines])
    forced = (
        _is_forced(line, following, width)
        for width, block in seeds
        for line, following in pairwise(block.lines)
    )
    if usual_width < _NARROW_WIDTH and sum(forced) < _BREAKS_IF_NARROW:
        return set()

    wrapped = {block.first: width for width, block in seeds}
    joined = set[int]()

    for width, block in widths:
        fits = width <= usual_width + usual_width // _SLACK and _is_wrapped(
            block, usual_width, is_alone=False
        )
        if fits or block.first in wrapped:
            joined |= _join_block(block, wrapped.get(block.first, usual_width))

    return joined


def _iter_blocks(lines: Sequence[str], measure: MeasureWidth) -> Iterator[_Block]:
    """Yield each run of consecutive lines that are not empty."""
    run: list[_Line] = []
    for number, line in enumerate([*lines, ""]):
        if line:
            run.append(_read_line(line, measure))
        elif run:
            run[-1] = run[-1]._replace(is_last=True)
            yield _Block(number - len(run), run)
            run = []


def _read_line(line: str, measure: MeasureWidth) -> _Line:
    text = line.strip()
    quotes = match.group() if (match := _QUOTED.match(text)) else ""
    indent = len(line) - len(line.lstrip())
    return _Line(text[len(quotes) :].strip(), indent, quotes.strip(), measure(line.rstrip()))


def _measure_block(block: _Block) -> int:
    """Return the columns of the longest line that could have been broken."""
    return max((line.columns for line in block.lines if _can_break(line)), default=0)


def _can_break(line: _Line) -> bool:
    return " " in line.text or is_written_without_blanks(line.text[-1:])


def _is_forced(line: _Line, following: _Line, width: int) -> bool:
    """Return whether the first word of the line `following` would not have fitted into `line`."""
    word = following.text.split(maxsplit=1)[0] if following.text else ""
    if is_written_without_blanks(word[:1]):
        # any character may start a line, except marks, which belong to the previous line
        word = word[:2]
    return line.columns + 1 + len(word) > width - width // _SLACK


def _ends_sentence(line: _Line) -> bool:
    return (
        unicodedata.category(line.text[-1:] or " ")[0] == "P"
        and line.text[-1] not in f"{HYPHENS},–—;(["
    )


def _is_boundary(block: _Block, number: int, width: int) -> bool:
    """Return whether a line of a block starts a paragraph, a list item or a quotation."""
    line = block.lines[number]
    before = block.lines[number - 1]
    if line.quotes != before.quotes or not line.text or not before.text:
        return True
    following = block.lines[number + 1] if number + 1 < len(block.lines) else None
    hangs = following is not None and following.indent > line.indent
    if line.indent > before.indent and (following is None or following.indent < line.indent):
        # an item of two lines, or the first line of a paragraph
        return not _MARKER.match(before.text)

    if _MARKER.match(line.text):
        if hangs or not _is_forced(before, line, width):
            return True
        if line.text[0] in "–—" and line.text[2:3].islower():
            return False  # a dash within a sentence
        return block.is_list or _ends_sentence(before)

    return False


def _is_wrapped(block: _Block, width: int, *, is_alone: bool) -> bool:
    """Return whether a block is prose whose breaks were forced by the width.

    Args:
        block: the lines; where one is the last of its paragraph, its line end is not counted.
        width: width of the text in columns.
        is_alone: true if nothing else shows that the text is wrapped, so that its lines must look
            like prose.
    """
    if width < _MINIMUM_WIDTH:
        return False
    forced = list[int]()
    early = 0
    closed = 0

    for number in range(1, len(block.lines)):
        before = block.lines[number - 1]
        if before.is_last or _is_boundary(block, number, width):
            continue
        if _is_forced(before, block.lines[number], width):
            forced.append(number)
        elif _ends_sentence(before):
            closed += 1
        else:
            early += 1

    fewest = _MINIMUM_BREAKS if is_alone else 1
    if len(forced) < max(fewest, closed) or len(forced) < _FORCED_SHARE * (len(forced) + early):
        return False
    return _is_prose(block.lines) and (not is_alone or _continues_sentences(block.lines, forced))


def _is_prose(lines: Sequence[_Line]) -> bool:
    """Return whether lines consist of words, without the marks of tables and code."""
    texts = [line.text for line in lines]
    together = "".join(texts)
    is_justified = len({line.columns for line in lines[:-1]}) == 1 and len(lines) > _MINIMUM_BREAKS
    cells = sum(_COLUMNS.search(text) is not None for text in texts) if not is_justified else 0
    code = sum(_CODE.search(text) is not None for text in texts)
    entries = sum(_ENTRY.match(text) is not None for text in texts)
    if 4 * cells > len(texts) or 8 * code > len(texts) or 2 * entries > len(texts):
        return False
    if len(_SYMBOL.findall(together)) > _SYMBOL_SHARE * len(together):
        return False
    if len(_DIGIT.findall(together)) > _DIGIT_SHARE * len(together):
        return False

    words = [word for text in texts for word in text.split()]
    if 2 * sum(word.endswith(",") for word in words) > len(words):
        return False  # a wrapped list of names or numbers
    return is_written_without_blanks(together[-1]) or len(words) >= _WORDS_PER_LINE * len(texts)


def _continues_sentences(lines: Sequence[_Line], forced: Sequence[int]) -> bool:
    """Return whether sentences continue after forced breaks, unlike in verse, lists and logs."""
    lasts = [lines[number - 1].text[-1] for number in forced]
    marked = sum(last not in HYPHENS and unicodedata.category(last)[0] == "P" for last in lasts)
    starts = [lines[number].text.lstrip(_OPENING)[:1] for number in forced]
    has_cases = any(line.text != line.text.upper() for line in lines)
    lower = sum(start.isalpha() and not (has_cases and start.isupper()) for start in starts)
    firsts = {lines[number].text.split(maxsplit=1)[0] for number in forced}
    return (
        marked <= _MARKED_SHARE * len(forced)
        and lower >= _LOWER_SHARE * len(forced)
        and 4 * len(firsts) > len(forced)
    )


def _join_block(block: _Block, width: int) -> set[int]:
    """Return the indices of the lines of a wrapped block that continue a paragraph."""
    joined = set[int]()
    for number in range(1, len(block.lines)):
        line = block.lines[number]
        before = block.lines[number - 1]
        if _is_boundary(block, number, width) or _ASSIGNMENT.search(f"{before.text}\n{line.text}"):
            continue
        is_early = not _ends_sentence(before) and before.columns >= _HEADING_SHARE * width
        if is_early or _is_forced(before, line, width):
            joined.add(block.first + number)
    return joined
