"""Near-duplicates found by one process that holds all documents: what many units must equal."""

from itertools import pairwise

import numpy as np

from clozeline.pipeline.dedup.near import KEY_ROW, Sketch, open_sketches
from clozeline.pipeline.dedup.parts import (
    CLUSTER,
    COMPARED_PRIORITY,
    COPY,
    find_hash_bounds,
    pack_rows,
    read_numbered_rows,
    read_rows,
    smallest_uids,
    write_clusters,
)
from clozeline.pipeline.dedup.representatives import choose_representatives
from clozeline.pipeline.execution.unit_inputs import UnitInputs


def cluster_in_one_process(folder, parts, options, after_exact, target):
    """Write the files of clusters to `target`, and return the drops of each part: uids, kept."""
    inputs = UnitInputs(lambda stage: folder)
    shuffle = parts.shuffle("near-keys").pieces
    pieces = [read_numbered_rows(inputs, shuffle, name, KEY_ROW) for name in parts.range_names]
    rows, part = map(np.concatenate, zip(*pieces, strict=True))
    order = np.argsort(rows["key"], kind="stable")
    rows = rows[order]
    dtype = Sketch(options.ngram, options.bands, options.rows).dtype
    files = (open_sketches(inputs, name) for name in parts.names)
    documents = [np.frombuffer(file.buffer(), dtype) for file in files]
    starts = np.cumsum([0, *map(len, documents)])
    joined = np.concatenate(documents)
    uids = np.ascontiguousarray(joined["uid"])
    numbers = np.repeat(range(len(parts.names)), np.diff(starts))
    is_compared = np.isin(numbers, sorted(parts.compared))
    kept, similarity = choose_representatives(
        np.ascontiguousarray(rows["key"]),
        starts[part[order]] + rows["row"],
        uids,
        np.where(is_compared, COMPARED_PRIORITY, joined["priority"]),
        joined["sketch"],
        options.verify,
    )

    dropped = np.flatnonzero(kept != np.arange(len(uids)))
    members = np.flatnonzero(np.isin(kept, kept[dropped]))
    names = uids[members][smallest_uids(kept[members], uids[members])]
    order = np.argsort(names, kind="stable")
    members = members[order]
    columns = {"cluster": names[order], "uid": uids[members], "kept": kept[members] == members}
    found = pack_rows(CLUSTER, columns | {"similarity": similarity[members]})
    target.mkdir()
    for number, (first, last) in enumerate(pairwise(find_hash_bounds(names[order], parts.ranges))):
        write_clusters(target / f"{number:06d}.arrow", found[first:last])

    of_parts = {part: set() for part in range(len(parts.names))}
    finals = {uids[row]: uids[kept[row]] for row in dropped}
    for part, rows_of_part in enumerate(np.split(np.arange(len(uids)), starts[1:-1])):
        of_parts[part] |= {
            (uids[row], uids[kept[row]]) for row in np.intersect1d(rows_of_part, dropped)
        }
    if after_exact:
        shuffle = parts.shuffle("exact-kept").pieces
        for name in parts.range_names:
            for uid, part in read_rows(inputs, shuffle, name, COPY):
                if uid in finals:
                    of_parts[int(part)].add((uid, finals[uid]))
    return of_parts
