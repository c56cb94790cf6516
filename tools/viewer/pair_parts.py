"""Rows of two texts: windows with their partners, aligned texts, texts to compare; and sheets of single numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipeline.rows import Row
from tools.viewer.passages import Passages
from tools.viewer.view import Passage, Sheet

__all__ = ["number_sheets", "two_texts"]

_TEXTS: Final = {
    ("ids", "partner_ids"): ("window", "partner, from another document"),
    ("ids", "target_ids"): ("text", "other side"),
    ("input_ids", "input_ids_b"): ("one text", "the text it belongs to"),
    ("token_ids", "target_ids"): ("text", "other side"),
}
"""Pairs of columns that hold two texts, and their titles."""

_NUMBERS: Final = {"label_weight": "weight of each label", "label_count": "added to the divisor of the loss"}
_LABELS: Final = {0: "0: the second segment follows the first", 1: "1: it does not (from elsewhere, or swapped)"}


def two_texts(show: Passages, row: Row, markers: Mapping[int, str]) -> list[Passage | Sheet]:
    """Return both texts of a row that has two; nothing for one text, or an input and a target.

    Args:
        show: makes passages of ids.
        row: the row.
        markers: boundaries in the first text.
    """
    for (first, second), (title, other) in _TEXTS.items():
        if {first, second} <= row.columns.keys() and len(row[second]):
            return [show.passage(title, row[first], None, markers), show.passage(other, row[second])]
    return []


def number_sheets(row: Row) -> list[Passage | Sheet]:
    """Return a list of what the single numbers of a row say; nothing where the row has none."""
    facts: list[tuple[str, str]] = []
    if "sentence_label" in row.columns and len(row["sentence_label"]):
        facts.append(("sentence label", _LABELS[int(row["sentence_label"][0])]))
    if "languages" in row.columns:
        facts.append(("language codes of the segments", ", ".join(str(code) for code in row["languages"].tolist())))
    for name, title in _NUMBERS.items():
        if name in row.columns and len(row[name]):
            facts.append((title, f"{row[name][0]:g}"))
    if "task" in row.columns:
        facts.append(("task", f"number {int(row['task'][0])} of the configuration"))
    if "partner_document_uid" in row.columns:
        uid = row["partner_document_uid"].tobytes().hex()
        facts.append(("partner", f"document {uid}, from token {int(row['partner_offset'][0])}"))
    if "target_language" in row.columns and len(row["target_language"]):
        facts.append(("language code of the other side", str(int(row["target_language"][0]))))
    return [Sheet("what the row says", (), tuple(facts))] if facts else []
