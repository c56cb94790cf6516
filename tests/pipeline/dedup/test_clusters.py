"""Clusters that many units find equal, byte for byte, those of one process that holds all."""

import os
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from clozeline.pipeline.dedup import representatives
from clozeline.pipeline.dedup.clusters import near_passes
from clozeline.pipeline.dedup.config import NearConfig
from clozeline.pipeline.dedup.near import Sketch, write_signatures
from clozeline.pipeline.dedup.parts import (
    COPY,
    DROP,
    Parts,
    pack_rows,
    read_rows,
    send_by_hash,
)
from clozeline.pipeline.execution import shuffle
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output, UnitRecord
from clozeline.seeding import mix
from tests.pipeline.dedup.dedup_documents import document
from tests.pipeline.dedup.one_process import cluster_in_one_process
from tests.pipeline.stage_in_memory import run_passes
from tests.pipeline.unit_runs import stage_in


def write_documents(folder, options, rng, sizes, ranges, others=0):
    """Write drawn signatures of `sizes` documents by part; the last `others` are only compared."""
    names = [f"part{number}" for number in range(len(sizes))]
    compared = frozenset(range(len(names) - others, len(names)))
    parts = Parts(tuple(names), ranges, compared)
    bounds = np.cumsum([0, *sizes])
    count = int(bounds[-1])
    first_other = bounds[len(sizes) - others]
    uids = np.frombuffer(rng.bytes(16 * count), "S16").copy()
    uids[:1] = b"\x80"  # zero bytes at its end
    keys = mix(rng.integers(1, rng.integers(2, 2 * count + 3), (count, options.bands), np.uint64))
    columns = {"uid": uids, "priority": rng.integers(0, 3, count)}
    columns["sketch"] = rng.integers(0, 2, (count, options.bands * options.rows), np.uint16)
    for row in range(first_other, min(count, 2 * first_other), 2):  # documents of both roles
        for column in (uids, keys, columns["sketch"]):
            column[row] = column[row - first_other]

    sketch = Sketch(options.ngram, options.bands, options.rows)
    rows = pack_rows(sketch.schema, columns)
    for name, (first, last) in zip(parts.names, pairwise(bounds), strict=True):
        output = Output(folder)
        write_signatures(
            output, parts.shuffle("near-keys"), name, rows[first:last], keys[first:last]
        )
        UnitRecord("near-signatures", name, {}, {}, "ok", {}, output.files).save(folder)

    named = np.sort(uids[rng.random(len(uids)) < 0.4])
    copies = pack_rows(COPY, {"uid": named, "part": rng.integers(0, len(sizes), len(named))})
    kept = parts.shuffle("exact-kept")
    for number, source in enumerate(kept.sources):
        rows = copies[number::ranges]
        send_by_hash(Output(folder), kept, source, rows, rows["uid"])

    return parts


def check_one_process(folder, parts, options, after_exact):
    """Compare files of clusters, and drops of parts, with those of one process."""
    expected = folder / "expected"
    drops = cluster_in_one_process(folder, parts, options, after_exact, expected)

    for path in sorted(expected.iterdir()):
        found = folder / "clusters/near" / path.name
        assert found.read_bytes() == path.read_bytes(), path.name

    for part, pairs in drops.items():
        inputs = UnitInputs(lambda stage: folder)
        found = read_rows(inputs, parts.shuffle("near-drops").pieces, parts.names[part], DROP)
        assert set(found.tolist()) == pairs


@pytest.mark.parametrize("seed", range(24))
def test_any_units_find_the_clusters_of_one_process(tmp_path, monkeypatch, seed):
    """Also if files are bundled, components are split in few rounds, and compared documents win."""
    rng = np.random.default_rng(seed)
    options = NearConfig(bands=3, rows=2, verify=rng.choice([0, 0.5, 0.75, 1.0]))
    sizes = rng.integers(0, 15, rng.integers(2, 6)).tolist()
    monkeypatch.setattr(representatives, "MOST_ROUNDS", int(rng.choice([1, 3, 32])))
    monkeypatch.setattr(shuffle, "_BUNDLE_FILES", 2)
    monkeypatch.setattr(shuffle, "_BUNDLED_OPENS", int(rng.choice([4, 1000])))
    others = int(rng.integers(0, len(sizes)))
    parts = write_documents(tmp_path, options, rng, sizes, int(rng.integers(1, 8)), others)
    after_exact = bool(rng.random() < 0.5)
    written = [parts.shuffle(name).passes("dedup") for name in ("near-keys", "exact-kept")]
    passes = chain(*written, near_passes(parts, options, after_exact))
    run_passes(stage_in(tmp_path), passes, reverse=rng.random() < 0.5)

    check_one_process(tmp_path, parts, options, after_exact)


@pytest.mark.data
@pytest.mark.skipif(
    "CLOZELINE_DATA" not in os.environ, reason="CLOZELINE_DATA names no folder of real files"
)
def test_news_articles_with_planted_near_duplicates(run_dedup):
    """The planted pairs are in clusters, which are those of one process."""
    folder = Path(os.environ["CLOZELINE_DATA"]) / "neardup"
    packed = (folder / "articles_1000.train.zst").read_bytes()
    lines = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read().decode().splitlines()
    names, texts = zip(*(line.split(" ", 1) for line in lines), strict=True)
    rows = [document(number, text) for number, text in enumerate([*texts, *texts[:40]])]
    uids = dict(zip(names, [row.uid for row in rows], strict=False))
    result = run_dedup([rows[::3], rows[1::3], rows[2::3]], {"near": {"verify": 0.5}}, shards=5)
    of_uids = {row["uid"]: row["cluster"] for row in result.clusters("near")}
    truth = (folder / "articles_1000.truth").read_text().splitlines()

    assert all(len({of_uids[uids[name]] for name in pair.split()}) == 1 for pair in truth)

    check_one_process(result.folder, result.parts, NearConfig(verify=0.5), after_exact=True)
