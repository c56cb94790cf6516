"""What a crawl of many terabytes takes: text and tokens, core-hours, disk and price, from rates measured on one core.

    python -m benchmarks.capacity [--terabytes 100] [--text 0.19] [--keep 0.2] [--unique 0.5] [--cores 2048]
        [--price 0.04] [--rates FILE] [--json FILE]

This is arithmetic: rates times bytes, without queues, starts of tasks, slow tasks at the end of a pass, or a file
system that is slower than its readers. `--text` is the share of text in the bytes of the archives, `--keep` that of
the text that passes `clean`, `--unique` the share of this that `dedup` keeps. All depend on the crawl and the filters,
so take them from a sample of yours. The rates are those of `MEASURED`, or of a file that
`python -m benchmarks.corpus_size --megabytes 30 300 --json FILE` writes: `clean` per byte of the archives, other stages
per byte of text.
"""

import json
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import parser, print_table, write_json

MEASURED: Final[dict[str, Any]] = {
    "stored": 51994060, "text": 47834698, "tokens": 11776951,
    "cpu_s": {"clean": 55.89, "dedup": 4.88, "encode": 12.23, "group": 1.27, "corrupt": 1.21},
    "written": {"clean": 14526632, "dedup": 29115848, "encode": 40856837, "group": 11715683, "corrupt": 18074343},
    "left": {"clean": 14592862, "dedup": 14737693, "encode": 12118870, "group": 11738482, "corrupt": 18090118},
}  # fmt: skip
"""What 300 MB of HTML took more than 30 on 2026-11-23 at a load of 15 to 39: `growth` in the JSON of `corpus_size`."""


def foresee(growth: dict[str, Any], terabytes: float, share: float, keep: float, unique: float) -> list[dict[str, Any]]:
    """Return a row per stage: terabytes of text read, core-hours, terabytes of intermediates, and of what it leaves."""
    text = terabytes * share
    rows = []
    for stage, seconds in growth["cpu_s"].items():
        # clean reads all of the crawl and leaves what it keeps; dedup reads that, the others what dedup keeps
        reads = text * {"clean": 1.0, "dedup": keep}.get(stage, keep * unique)
        leaves = reads * {"clean": keep, "dedup": unique}.get(stage, 1.0)
        left, written = growth["left"][stage], growth["written"][stage]
        per_byte = seconds / growth["stored"] / share if stage == "clean" else seconds / growth["text"]
        rows.append({"stage": stage, "text": reads, "core_h": reads * 1e12 * per_byte / 3600,
                     "intermediate": reads * max(0, written - left) / growth["text"],
                     "left": leaves * left / growth["text"]})  # fmt: skip
    return rows


def most_disk(rows: list[dict[str, Any]]) -> float:
    """Return the largest number of terabytes on disk at once: a stage removes its intermediates at its end."""
    left, most = 0.0, 0.0
    for row in rows:
        left += row["left"]
        most = max(most, left + row["intermediate"])
    return most


def amounts(growth: dict[str, Any], terabytes: float, share: float, keep: float, unique: float) -> dict[str, float]:
    """Return terabytes of text in a crawl, of text that is kept, and tokens of it in units of 10^12."""
    text = terabytes * share
    return {"WARC": terabytes, "text": text,
            "text kept": text * keep * unique,
            "tokens, 10^12": text * keep * unique * growth["tokens"] / growth["text"]}  # fmt: skip


def main() -> None:
    options = parser(
        __doc__, terabytes=(100.0, "of WARC files, compressed (default: %(default)s)"),
        text=(0.19, "bytes of text per byte of WARC files (default: %(default)s)"),
        keep=(0.2, "share of the text that passes `clean` (default: %(default)s)"),
        unique=(0.5, "share of that which `dedup` keeps (default: %(default)s)"), cores=2048,
        price=(0.04, "of a core-hour, in any currency (default: %(default)s)"),
        rates=(Path, "JSON of `benchmarks.corpus_size` in place of the rates in this file"),
    ).parse_args()  # fmt: skip
    growth = MEASURED
    if options.rates is not None:
        growth = next(row["growth"] for row in json.loads(options.rates.read_text()) if "growth" in row)
    shares = (options.terabytes, options.text, options.keep, options.unique)
    found, rows = amounts(growth, *shares), foresee(growth, *shares)
    print_table(found, [[f"{value:,.1f}" for value in found.values()]], "TB")
    total = {name: sum(row[name] for row in rows) for name in ("core_h", "left")}
    cells = []
    for row in [*rows, {"stage": "all", "text": None, "intermediate": most_disk(rows) - total["left"], **total}]:
        read = "" if row["text"] is None else f"{row['text']:,.1f}"
        numbers = (row["core_h"] / options.cores, row["intermediate"], row["left"])
        cells.append((row["stage"], read, f"{row['core_h']:,.0f}", *(f"{number:,.1f}" for number in numbers),
                      f"{row['core_h'] * options.price:,.0f}"))  # fmt: skip
    head = ("stage", "TB of text read", "core-hours", f"hours on {options.cores:,} cores",
            "TB of intermediates", "TB left", f"price at {options.price:g} a core-hour")  # fmt: skip
    print_table(
        head,
        cells,
        "`train_tokenizer` works once, on at most 10 GB; intermediates of all: what the disk needs beyond what is left",
    )
    write_json(options.json, {"amounts": found, "stages": rows})


if __name__ == "__main__":
    main()
