"""Show the nearest neighbors of a vector.

    clozeline neighbors features query=0 [top=10] [same=true] [--json]

FEATURES is an output of `clozeline extract-features`, ROW a row index from 0. Rows are ranked by
cosine similarity to row ROW, the query; other rows of the document that the query is from are
skipped. `same=true` compares only other occurrences of the query's word: contextual vectors tell
the senses of the word apart, while `extract-features layer=table` gives every occurrence the same
vector.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.tools.command import Natural, Positive, UserPath, run_as_script, run_tool
from clozeline.tools.options import JsonSwitch

if TYPE_CHECKING:
    from clozeline.extensions.inference.feature_files import Features

_SHOWN_CHARACTERS = 60
"""length to which a line shortens the word or text of its row"""


@config_class
class NeighborOptions:
    """The query, and which rows are compared with it."""

    query: Natural
    """index of the row whose neighbors to show, from 0"""
    top: Positive = 10
    """rows to show"""
    same: bool = False
    """compare only rows with the word or token of the query"""


@config_class
class NeighborsCommand(NeighborOptions, JsonSwitch):
    """The vectors, the query, and which rows are compared with the query."""

    features: Annotated[UserPath, Positional(0)]
    """an output of clozeline extract-features"""


def find_neighbors(features: Features, options: NeighborOptions) -> list[dict[str, Any]]:
    """Return the rows nearest to the query, nearest first, ties by row index."""
    count = len(features.uids)
    query = options.query
    if query >= count:
        raise ConfigurationError(f"query: expected a row index below {count}, got {query}")
    vectors = features.vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    # `cosines` [rows]: cosine of each row to the query; 0 where one of the two vectors is zero
    products = vectors @ vectors[query]
    cosines = np.divide(
        products, lengths * lengths[query], out=np.zeros(count), where=lengths * lengths[query] > 0
    )
    uids = np.array(features.uids)
    texts = np.array(features.texts)
    is_candidate = uids != uids[query]
    if options.same:
        is_candidate &= texts == texts[query]
    rows = np.flatnonzero(is_candidate)
    chosen = rows[np.argsort(-cosines[rows], kind="stable")][: options.top]
    return [_describe_row(features, int(row)) | {"cosine": float(cosines[row])} for row in chosen]


def _describe_row(features: Features, row: int) -> dict[str, Any]:
    return {
        "row": row,
        "uid": features.uids[row],
        "position": features.positions[row],
        "text": features.texts[row],
    }


def _show(options: NeighborsCommand) -> None:
    from clozeline.extensions.inference.feature_files import open_features

    features = open_features(options.features)
    nearest = find_neighbors(features, options)
    query = _describe_row(features, options.query)

    if options.json:
        result = {"query": query, "neighbors": nearest}
        sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")
        return

    for heading, row in (("query", query), *((f"{row['cosine']:.4f}", row) for row in nearest)):
        text = row["text"]
        if len(text) > _SHOWN_CHARACTERS:
            text = text[: _SHOWN_CHARACTERS - 3] + "..."
        sys.stdout.write(
            f"{heading:>7}  row {row['row']:,}  {row['uid']} at {row['position']}  {text!r}\n"
        )


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, NeighborsCommand, _show, prints=True)


if __name__ == "__main__":
    run_as_script(main)
