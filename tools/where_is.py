"""When a sample is read: `python tools/where_is.py --run DIR --uid UID`, or a set with its seed, lanes and batch.

Finds the rows of the sample (one a variant) and computes, without reading the stream, at which positions each was or
will be seen. `tools/explain_batch.py --samples N` shows the whole batch there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.errors import ConfigurationError
from tools.command import Arguments, natural, positive, run_tool
from tools.feed import VARIANTS, Feed, Visit, add_feed_arguments, open_feed
from tools.shard_rows import find_rows

__all__ = ["main", "visits"]


def visits(feed: Feed, uid: int, epochs: range, variant: int | None = None) -> list[dict[str, Any]]:
    """Every time that a sample is read in some epochs, as plain data in the order of the stream.

    Args:
        feed: what is read.
        uid: of the sample.
        epochs: of the set.
        variant: only this one; None: all.

    Raises:
        ConfigurationError: the set has no such sample or variant.
    """
    found = [
        _facts(feed, visit)
        for source, shards in enumerate(feed.sets)
        for stored in find_rows(shards, uid)
        for epoch in epochs
        if (visit := feed.visit(source, stored, epoch)) is not None
    ]
    chosen = [one for one in found if variant in (None, one["variant"])]
    if not chosen:
        what = "sample" if not found else f"variant {variant} of the sample"
        where = ", ".join(str(shards.path) for shards in feed.sets)
        raise ConfigurationError(
            f"--uid {uid:016x}: no such {what} in epochs {epochs.start} to {epochs.stop - 1} of {where}"
        )
    return sorted(chosen, key=lambda one: (one["samples"], one["place"]))


def _facts(feed: Feed, visit: Visit) -> dict[str, Any]:
    """A visit of a stored row as plain data."""
    shards = feed.sets[visit.source]
    block, row = visit.stored or (0, 0)
    variant = int(shards.read_block(block, columns=("variant",)).fixed["variant"][row])
    facts: dict[str, Any] = {
        "variant": visit.epoch % VARIANTS if feed.online(visit.source) else variant,
        "set": shards.manifest.name,
        "shard": shards.manifest.shards[int(shards.index.shard[block])].path,
        "block": int(shards.index.block[block]),
        "row": row,
        "epoch": visit.epoch,
        "lane": visit.lane,
        "samples": visit.samples,
        "step": feed.step(visit.samples),
        "place": visit.place,
    }
    if feed.consumed is not None:
        facts["seen"] = visit.samples + feed.rows(visit.samples) <= feed.consumed
    return facts


def _lines(feed: Feed, found: Sequence[dict[str, Any]]) -> Iterator[str]:
    for one in found:
        state = "" if "seen" not in one else ": seen" if one["seen"] else ": not seen yet"
        end = one["samples"] + feed.rows(one["samples"])
        yield (
            f"epoch {one['epoch']}: step {one['step']:,}, samples {one['samples']:,} to {end:,}, row {one['place']} of "
            f"the batch (lane {one['lane']}){state}; {one['set']}, variant {one['variant']}: {one['shard']}, block "
            f"{one['block']}, row {one['row']}"
        )


def _uid(text: str) -> int:
    try:
        uid = int(text, 16)
    except ValueError:
        uid = -1
    if not 0 <= uid < 1 << 64:
        raise argparse.ArgumentTypeError(f"expected up to 16 hexadecimal digits, got {text!r}")
    return uid


def _epochs(options: argparse.Namespace, feed: Feed) -> range:
    """The epochs asked for; default: those that the run can have, else the first."""
    if options.epochs is None and feed.steps is not None:
        whole = min(order.lane_rows for order in feed.orders) * feed.lanes
        return range(options.epoch, max(options.epoch + 1, -(-feed.samples(feed.steps + 1) // whole)))
    return range(options.epoch, options.epoch + (options.epochs or 1))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Arguments(__doc__)
    add_feed_arguments(parser)
    parser.add_argument("--uid", type=_uid, required=True, help="sample uid in hexadecimal, as the other tools show it")
    parser.add_argument("--variant", type=natural, metavar="V", help="only this variant of the sample")
    parser.add_argument("--epoch", type=natural, default=0, metavar="E", help="first epoch (%(default)s)")
    parser.add_argument("--epochs", type=positive, metavar="N", help="how many; default: to the end of the run, else 1")
    parser.add_argument("--json", action="store_true", help="one JSON object a visit")

    def action(options: argparse.Namespace) -> int:
        feed = open_feed(options)
        found = visits(feed, options.uid, _epochs(options, feed), options.variant)
        for line in map(json.dumps, found) if options.json else _lines(feed, found):
            print(line)
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
