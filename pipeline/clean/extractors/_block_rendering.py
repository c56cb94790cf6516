"""Write kept blocks as text: paragraphs, lists, table rows and preformatted lines keep their form."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.clean.extractors._page_walk import TAG, Page

_LISTS: Final = frozenset(TAG[name] for name in ("ul", "ol", "menu", "dir"))
_ITEM, _ROW, _H1 = TAG["li"], TAG["tr"], TAG["h1"]
_CELLS: Final = frozenset((TAG["td"], TAG["th"]))
_NO_ITEM: Final = (-1, 0)
_LONGEST_CELL: Final = 300  # characters; longer cells, and cells of several blocks, are a layout
_LONGEST_TITLE: Final = 300


def render(page: Page, kept: NDArray[np.bool_]) -> str:
    """Return the text of the kept blocks, (n,): a blank line between paragraphs, a line for each list item or row."""
    items, rows = _find_items(page), _find_rows(page, kept)
    pieces: list[str] = []  # texts and the breaks between them
    last_item, last_row = -1, -1
    in_list = False
    for block in np.flatnonzero(kept).tolist():
        text = page.texts[block]
        item, depth = items[page.frame[block]] if items else _NO_ITEM
        row = rows.get(block, -1)
        if row >= 0 and row == last_row:
            pieces.append(f" | {text}")
            continue
        close = row >= 0 and last_row >= 0 and _table_of(page, last_row) == _table_of(page, row)
        if row < 0 and depth:
            close, indent = in_list, "  " * depth
            text = text.replace("\n", f"\n{indent}")
            text = f"{indent}{text}" if 0 <= item == last_item else f"{indent[2:]}- {text}"
        if pieces:
            pieces.append("\n" if close else "\n\n")
        pieces.append(text)
        last_item, last_row, in_list = item, row, row < 0 and depth > 0
    return "".join(pieces)


def find_title(page: Page, kept: NDArray[np.bool_]) -> int | None:
    """Return the block of the last `h1` before the main content, if the content has no `h1` of its own first."""
    first = int(np.argmax(kept))
    for block in range(first, -1, -1):
        if page.tag[page.frame[block]] == _H1:
            return block if len(page.texts[block]) <= _LONGEST_TITLE else None
    return None


def _find_items(page: Page) -> list[tuple[int, int]]:
    """Return for each frame the list item it is in and the depth of its list, 0 outside; empty without any list."""
    found: list[tuple[int, int]] = []
    if _LISTS.isdisjoint(page.tag) and _ITEM not in page.tag:
        return found
    for index, (above, tag) in enumerate(zip(page.parent, page.tag, strict=True)):
        item, depth = found[above] if index else _NO_ITEM
        if tag == _ITEM:
            item, depth = index, max(depth, 1)
        elif tag in _LISTS:
            depth += 1
        elif tag in _CELLS:  # a table inside a list starts anew
            item, depth = _NO_ITEM
        found.append((item, depth))
    return found


def _find_rows(page: Page, kept: NDArray[np.bool_]) -> dict[int, int]:
    """Return the row of each kept block in a row of short cells with one block each."""
    cells: dict[int, list[tuple[int, int]]] = {}
    if _ROW not in page.tag:
        return {}
    inside: list[tuple[int, int]] = []  # cell and row around each frame
    for index, (above, tag) in enumerate(zip(page.parent, page.tag, strict=True)):
        cell, row = inside[above] if index else (-1, -1)
        if tag == _ROW:
            cell, row = -1, index
        elif tag in _CELLS:
            cell = index
        inside.append((cell, row))
    for block in np.flatnonzero(kept).tolist():
        cell, row = inside[page.frame[block]]
        if cell >= 0 and row >= 0:
            cells.setdefault(row, []).append((cell, block))
    return {
        block: row
        for row, blocks in cells.items()
        if len({cell for cell, _ in blocks}) == len(blocks)
        and all(len(page.texts[block]) <= _LONGEST_CELL and "\n" not in page.texts[block] for _, block in blocks)
        for _, block in blocks
    }


def _table_of(page: Page, row: int) -> int:
    table = row
    while table > 0 and page.tag[table] != TAG["table"]:
        table = page.parent[table]
    return table
