"""Show a row of a shard set: its texts, with the roles of tokens marked, and its labels."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from clozeline.columns import Role
from clozeline.pipeline.rows import ShardRow
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.report.views import Part, Passage, Span, Table, visible

_SIGNS: Final = {"segment_starts": ("‖A ", "‖B "), "document_starts": ("▌", "▌")}
_SIGN: Final = "|"
"""sign in front of sentences and all other parts of a row"""


class TokenDecoder(Protocol):
    """Turns token ids into text: a tokenizer, or a `WordCodec`."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the properties of the ids."""

    def decode_part(self, ids: Sequence[int]) -> str:
        """Return the text of consecutive tokens from anywhere in a text."""

    def piece(self, token: int) -> str:
        """Return one token as the tokenizer's model writes it."""


class TokenRenderer:
    """Turns token ids into texts, and into passages of at most `limit` tokens.

    With a `Vocabulary` instead of a tokenizer, ids are shown as numbers.
    """

    def __init__(self, tokenizer: TokenDecoder | Vocabulary, limit: int = 1024) -> None:
        self._decoder = None if isinstance(tokenizer, Vocabulary) else tokenizer
        self.vocabulary = tokenizer if isinstance(tokenizer, Vocabulary) else tokenizer.vocabulary
        self._limit = limit

    def text(self, ids: Sequence[int]) -> str:
        """Return the decoded text of some tokens."""
        if self._decoder is None:
            return "".join(f"{token} " for token in ids)
        return visible(self._decoder.decode_part(ids))

    def piece(self, token: int) -> str:
        """Return the text of one token, or its piece if it is only a part of a character."""
        text = self.text([token])
        return (
            self._decoder.piece(token) if self._decoder is not None and "\ufffd" in text else text
        )

    def label(self, token: int, role: str) -> Span:
        """Return one token on one line; white space is shown as signs."""
        text = self.piece(token).replace("\n", "")
        return Span(text if text.strip() else "␣" * len(text), role)

    def passage(
        self,
        title: str,
        ids: NDArray[Any],
        roles: Mapping[int, str] | None = None,
        signs: Mapping[int, str] | None = None,
    ) -> Passage:
        """Return a passage, cut at the limit.

        `roles` style tokens, and `signs` stand in front of them; both are by position.
        """
        tokens = ids[: self._limit].tolist()
        spans = list[Span]()
        signs = signs or {}
        styles = [
            (roles or {}).get(position) or self._role(token)
            for position, token in enumerate(tokens)
        ]

        # decode tokens of one role together, up to the next sign: a character may have several
        # tokens
        first = 0

        for last in range(1, len(tokens) + 1):
            if last == len(tokens) or last in signs or styles[last] != styles[first]:
                if first in signs:
                    spans.append(Span(signs[first], "marker"))
                spans.append(Span(self.text(tokens[first:last]), styles[first]))
                first = last

        if len(tokens) < len(ids):
            spans.append(Span(f" … {len(ids) - len(tokens):,} more tokens", "marker"))
        return Passage(f"{title} ({len(ids):,} tokens)", tuple(spans))

    def _role(self, token: int) -> str:
        if token in self.vocabulary.sentinels:
            return "sentinel"
        return "special" if token < self.vocabulary.size and self.vocabulary.special[token] else ""


def row_parts(renderer: TokenRenderer, row: ShardRow, roles: Mapping[str, Role]) -> list[Part]:
    """Return the passages and tables of a row: its texts with marked starts, and its labels."""
    row = fragment_as_labels(row)
    columns = row.columns
    name, *others = (text for text, role in roles.items() if role.use == "ids" and text in columns)
    starts = [start for start, role in roles.items() if role.use == "start" and role.of == name]
    signs: dict[int, str] = {}
    for start in starts:
        opening, further = _SIGNS.get(start, (_SIGN, _SIGN))
        for position in columns.get(start, ()):
            signs[int(position)] = further if position else opening

    if "label_positions" in columns:
        return _label_parts(renderer, row, signs)
    if "prediction_order" not in columns:
        prefix = dict.fromkeys(range(prefix_length(row)), "prefix")
        shown = [other for other in others if has_values(row, other)]
        return [
            renderer.passage(name, row[name], prefix, signs),
            *(renderer.passage(other, row[other]) for other in shown),
        ]

    order = row["prediction_order"].tolist()
    lines = tuple(
        (str(rank), str(position), renderer.label(int(row[name][position]), "predicted"))
        for rank, position in enumerate(order, 1)
    )
    table = Table(f"order of prediction ({len(lines)})", ("number", "position", "token"), lines)
    predicted = dict.fromkeys(order, "predicted")
    return [renderer.passage(name, row[name], predicted, signs), table]


def _label_parts(renderer: TokenRenderer, row: ShardRow, signs: Mapping[int, str]) -> list[Part]:
    """Return a row with labels as input, original, and a table of both at each label."""
    ids = row["input_ids"]
    original = row["input_ids"].astype(np.int64)
    original[row["label_positions"]] = row["label_ids"]
    changes = label_roles(renderer.vocabulary, row)
    roles = dict.fromkeys(range(prefix_length(row)), "prefix") | changes

    # a line for each label
    lines = []

    for position, role in changes.items():
        label, shown = (renderer.label(int(each[position]), role) for each in (original, ids))
        lines.append((str(position), label, shown, role))

    return [
        renderer.passage("input", ids, roles, signs),
        renderer.passage("original text", original, roles, signs),
        Table(f"labels ({len(lines)})", ("position", "original", "input", "change"), tuple(lines)),
    ]


def label_roles(vocabulary: Vocabulary, row: ShardRow) -> dict[int, str]:
    """Return what became of each label, by position: masked, replaced or unchanged."""
    if "label_positions" not in row.columns:
        return {}
    mask = vocabulary.specials.get("mask", -1)
    positions = row["label_positions"].tolist()
    shown = row["input_ids"][positions].tolist()
    labels = zip(positions, shown, row["label_ids"].tolist(), strict=True)
    return {
        position: "masked" if token == mask else "unchanged" if token == label else "replaced"
        for position, token, label in labels
    }


def fragment_as_labels(row: ShardRow) -> ShardRow:
    """Return a row with `target_start` as a row with labels; other rows are returned unchanged.

    The `target_ids` of such a row are the labels of its input from position `target_start` on.
    """
    if not has_values(row, "target_start"):
        return row
    positions = int(row["target_start"][0]) + np.arange(len(row["target_ids"]))
    columns = {
        "input_ids": row["input_ids"],
        "label_positions": positions,
        "label_ids": row["target_ids"],
    }
    return ShardRow(row.fixed, columns)


def prefix_length(row: ShardRow) -> int:
    """Return the number of tokens in the prefix; 0 without a prefix."""
    return int(row["prefix_length"][0]) if has_values(row, "prefix_length") else 0


def has_values(row: ShardRow, name: str) -> bool:
    """Return whether the row has values in the column."""
    return len(row.columns.get(name, ())) > 0
