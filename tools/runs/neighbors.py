"""Show the nearest of extracted vectors: `clozeline neighbors FEATURES query=ROW [top=10] [same=true] [--json]`.

FEATURES is an output of `clozeline extract-features`, ROW the number of a row, from 0. Nearness is the cosine, over all
rows; those of the query's own text are left out. `same=true` compares occurrences of the query's word alone: vectors
with context tell its senses apart, and those of `layer=table` are all equal.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT, validate
from clozeline.configuration.overrides import override
from clozeline.errors import ConfigurationError
from clozeline.tools.command import IntermixedArguments, run_tool, some_path
from clozeline.tools.runs.inference.feature_files import Features, open_features

_SHOWN = 60
"""characters of a text that a line shows"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class NeighbourOptions:
    """The query, and which rows are compared with it."""

    query: Annotated[int, Field(ge=0)]
    """number of the row, from 0"""
    top: Annotated[int, Field(ge=1)] = 10
    """rows to show"""
    same: bool = False
    """compare rows of the same word or token alone"""


def neighbours(features: Features, options: NeighbourOptions) -> list[dict[str, Any]]:
    """Return the rows nearest to the query, the nearest first; rows that are equally near by their number.

    Args:
        features: rows, of which those of the query's text are left out.
        options: query and choice.

    Raises:
        ConfigurationError: there is no such row.
    """
    count, query = len(features.uids), options.query
    if query >= count:
        raise ConfigurationError(f"query: expected the number of a row below {count}, got {query}")
    vectors = features.vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    products = vectors @ vectors[query]
    cosines = np.divide(products, lengths * lengths[query], out=np.zeros(count), where=lengths * lengths[query] > 0)
    uids, texts = np.array(features.uids), np.array(features.texts)
    offered = uids != uids[query]
    if options.same:
        offered &= texts == texts[query]
    rows = np.flatnonzero(offered)
    chosen = rows[np.argsort(-cosines[rows], kind="stable")][: options.top]
    return [_plain(features, int(row)) | {"cosine": float(cosines[row])} for row in chosen]


def _plain(features: Features, row: int) -> dict[str, Any]:
    """Return a row as plain data, without its vector."""
    return {"row": row, "uid": features.uids[row], "position": features.positions[row], "text": features.texts[row]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = IntermixedArguments(__doc__)
    parser.add_argument("features", type=some_path, metavar="FEATURES", help="an output of clozeline extract-features")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="query=ROW top=N same=true")
    parser.add_argument("--json", action="store_true", help="print the JSON alone")

    def action(options: argparse.Namespace) -> int:
        plain = override(NeighbourOptions, {}, options.overrides, "command line")
        chosen: NeighbourOptions = validate(NeighbourOptions, plain, "command line")
        features = open_features(options.features)
        found = neighbours(features, chosen)
        asked = _plain(features, chosen.query)
        if options.json:
            sys.stdout.write(json.dumps({"query": asked, "neighbours": found}, ensure_ascii=False) + "\n")
            return 0
        for cosine, row in (("query", asked), *((f"{one['cosine']:.4f}", one) for one in found)):
            text = row["text"] if len(row["text"]) <= _SHOWN else row["text"][: _SHOWN - 3] + "..."
            sys.stdout.write(f"{cosine:>7}  row {row['row']:,}  {row['uid']} at {row['position']}  {text!r}\n")
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
