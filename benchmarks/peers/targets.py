"""Targets of the stream, against each peer and of its own.

Against peers: CPU time and samples per second.
"""

from collections.abc import Mapping
from typing import Final

from benchmarks.harness import Claim

from benchmarks.peers.measure import RESUMED_AT

Figures = Mapping[str, Mapping[str, float]]

MAIN: Final = "ours, uncompressed"
ZSTD: Final = "ours, zstd"
GUARD_US: Final = 1.0
"""CPU microseconds that a sample may take."""
_LIMIT: Final = "numpy memmap, whole batch"
_STREAMS: Final = ("litdata", "datasets, streaming + DataLoader", "webdataset, per-sample tar")
_TIMES: Final = (
    (MAIN, "litdata", 10.0),
    (MAIN, "datasets, map-style", 12.0),
    (MAIN, "memmap + DataLoader", 5.0),
    (MAIN, "datasets, streaming + DataLoader", 50.0),
    (MAIN, "webdataset, per-sample tar", 70.0),
    (ZSTD, "litdata", 4.0),
)


def ratios(figures: Figures) -> list[tuple[Claim, Claim, float, float]]:
    """Compare CPU time and samples per second with each peer.

    The best windows count, next to the ratios of the means.

    numpy's gather is the upper bound for any loader: at most 1.3 times its CPU time, at
    least 0.6 of its samples per second.
    """
    rows = []

    for case, peer, target in (*_TIMES, (MAIN, _LIMIT, None)):
        if case not in figures or peer not in figures:
            continue
        ours = figures[case]
        theirs = figures[peer]
        cpu_target, wall_target = (1 / 1.3, 0.6) if target is None else (target, target)
        cpu = Claim(case, "CPU us/sample", ours["least_cpu"], theirs["least_cpu"], peer, cpu_target)
        wall = Claim(
            case, "samples/s", ours["best_rate"], theirs["best_rate"], peer, wall_target, more=True
        )
        rows.append((cpu, wall, theirs["cpu"] / ours["cpu"], ours["rate"] / theirs["rate"]))

    return rows


def requirements(figures: Figures) -> list[Claim]:
    """Return our limits: CPU time, first batch, resume, state, and each sample exactly once."""
    own = figures[MAIN]
    streams = {name: figures[name] for name in _STREAMS if name in figures}
    resume = max(own[f"resume_{percent}"] for percent in RESUMED_AT)
    claims = [
        Claim(MAIN, "CPU us/sample", own["least_cpu"], GUARD_US),
        Claim(ZSTD, "CPU us/sample", figures[ZSTD]["least_cpu"], GUARD_US),
        Claim(MAIN, "s to first batch", own["first"], 0.1),
        Claim(
            MAIN, "s to resume, longest", resume, own["first"] + 0.02, "its first batch + 0.02 s"
        ),
        Claim(MAIN, "bytes of state", own["state_bytes"], 300.0),
    ]

    if streams:
        fastest = min(streams, key=lambda name: streams[name]["first"])
        claims.append(
            Claim(MAIN, "s to first batch", own["first"], streams[fastest]["first"], fastest)
        )

    for peer, target in (("webdataset, per-sample tar", 100.0), ("litdata", 1.0)):
        if peer in figures:
            theirs = figures[peer]["resume_50"]
            claims.append(
                Claim(MAIN, "s to resume at 50 %", own["resume_50"], theirs, peer, target)
            )

    for case in (MAIN, ZSTD):
        facts = figures[case]
        parts = ("epoch", "resumed", "elastic")
        lost = sum(facts[f"{part}_{what}"] for part in parts for what in ("repeated", "missing"))
        claims.append(Claim(case, "samples repeated or missing", lost, 0.0))
        claims.append(Claim(case, "other batches at 8, 4, 2, 1 ranks", facts["elastic_other"], 0.0))
        claims.append(Claim(case, "resumed streams identical", facts["identical"], 1.0, more=True))

    return claims
