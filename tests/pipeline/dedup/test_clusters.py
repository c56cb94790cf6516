"""Clusters that many units find equal those of a slow rule over all documents."""

from collections import defaultdict
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pytest

from clozeline.pipeline.dedup import representatives
from clozeline.pipeline.dedup.clusters import near_passes
from clozeline.pipeline.dedup.config import NearConfig
from clozeline.pipeline.dedup.near import Sketch, write_signatures
from clozeline.pipeline.dedup.parts import (
    COMPARED_PRIORITY,
    COPY,
    DROP,
    Parts,
    pack_rows,
    read_rows,
    send_by_hash,
    uid_bytes,
)
from clozeline.pipeline.execution import shuffle
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output, UnitRecord
from clozeline.seeding import mix
from tests.pipeline.dedup.slow_clusters import list_clusters, slow_clusters
from tests.pipeline.stage_in_memory import run_passes
from tests.pipeline.unit_runs import stage_in


def draw_documents(options, rng, sizes, others):
    """Draw signatures of `sizes` documents by part; the last `others` are only compared."""
    count = sum(sizes)
    first_other = sum(sizes[: len(sizes) - others])
    uids = np.frombuffer(rng.bytes(16 * count), "S16").copy()
    uids[:1] = b"\x80"  # zero bytes at its end
    keys = mix(rng.integers(1, rng.integers(2, 2 * count + 3), (count, options.bands), np.uint64))
    sketches = rng.integers(0, 2, (count, options.bands * options.rows), np.uint16)
    for row in range(first_other, min(count, 2 * first_other), 2):  # documents of both roles
        for column in (uids, keys, sketches):
            column[row] = column[row - first_other]
    return {"uid": uids, "priority": rng.integers(0, 3, count), "sketch": sketches}, keys


def write_documents(folder, parts, sketch, sizes, columns, keys, copies):
    """Write what the passes before write for each part."""
    rows = pack_rows(sketch.schema, columns)
    for name, (first, last) in zip(parts.names, pairwise(np.cumsum([0, *sizes])), strict=True):
        output = Output(folder)
        to = parts.shuffle("near-keys")
        write_signatures(output, to, name, rows[first:last], keys[first:last])
        UnitRecord("near-signatures", name, {}, {}, "ok", {}, output.files).save(folder)

    kept = parts.shuffle("exact-kept")
    for number, source in enumerate(kept.sources):
        some = copies[number :: parts.ranges]
        send_by_hash(Output(folder), kept, source, some, some["uid"])


@pytest.mark.parametrize("seed", range(24))
def test_any_units_find_the_clusters_of_a_slow_rule(tmp_path, monkeypatch, seed):
    """Also if files are bundled, components are split in few rounds, and compared documents win."""
    rng = np.random.default_rng(seed)
    options = NearConfig(bands=3, rows=2, verify=rng.choice([0, 0.5, 0.75, 1.0]))
    sizes = rng.integers(0, 15, rng.integers(2, 6)).tolist()
    rounds = int(rng.choice([1, 3, 32]))
    monkeypatch.setattr(representatives, "MOST_ROUNDS", rounds)
    monkeypatch.setattr(shuffle, "_BUNDLE_FILES", 2)
    monkeypatch.setattr(shuffle, "_BUNDLED_OPENS", int(rng.choice([4, 1000])))
    others = int(rng.integers(0, len(sizes)))
    names = tuple(f"part{number}" for number in range(len(sizes)))
    compared = frozenset(range(len(names) - others, len(names)))
    parts = Parts(names, int(rng.integers(1, 8)), compared)
    columns, keys = draw_documents(options, rng, sizes, others)
    named = np.sort(columns["uid"][rng.random(sum(sizes)) < 0.4])
    copies = pack_rows(COPY, {"uid": named, "part": rng.integers(0, len(sizes), len(named))})
    sketch = Sketch(options.ngram, options.bands, options.rows)
    write_documents(tmp_path, parts, sketch, sizes, columns, keys, copies)
    after_exact = bool(rng.random() < 0.5)
    written = [parts.shuffle(name).passes("dedup") for name in ("near-keys", "exact-kept")]
    passes = chain(*written, near_passes(parts, options, after_exact))
    run_passes(stage_in(tmp_path), passes, reverse=rng.random() < 0.5)

    groups = defaultdict(set)
    for row, own in enumerate(keys.tolist()):
        for key in own:
            groups[key].add(row)
    part = np.repeat(range(len(sizes)), sizes).tolist()
    uids = uid_bytes(columns["uid"])
    sketches = columns["sketch"].tolist()
    pairs = zip(part, columns["priority"].tolist(), strict=True)
    merit = [COMPARED_PRIORITY if of in compared else priority for of, priority in pairs]
    kept = slow_clusters(groups.values(), uids, merit, sketches, options.verify, rounds)

    found = []
    for number in range(parts.ranges):
        path = tmp_path / f"clusters/near/{number:06d}.arrow"
        rows = pa.ipc.open_file(path).read_all().to_pylist()
        found += [tuple(row.values()) for row in rows]
        assert {int.from_bytes(row["cluster"], "big") * parts.ranges >> 128 for row in rows} <= {
            number
        }

    assert found == list_clusters(kept, uids, sketches)

    drops = defaultdict(set)
    dropped = {uids[row]: uids[best] for row, best in enumerate(kept) if row != best}
    for row, best in enumerate(kept):
        if row != best:
            drops[part[row]].add((uids[row], uids[best]))
    for uid, of in zip(uid_bytes(copies["uid"]), copies["part"].tolist(), strict=True):
        if after_exact and uid in dropped:
            drops[of].add((uid, dropped[uid]))

    inputs = UnitInputs(lambda stage: tmp_path)
    for number, name in enumerate(names):
        rows = read_rows(inputs, parts.shuffle("near-drops").pieces, name, DROP)
        pairs = zip(uid_bytes(rows["uid"]), uid_bytes(rows["kept"]), strict=True)
        assert set(pairs) == drops[number]
