"""Near-duplicates found by one process that holds all documents: what many units must equal."""

from itertools import pairwise

import numpy as np

from clozeline.pipeline.dedup.near import KEY_ROW, read_sketches
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


def cluster_in_one_process(parts, options, after_exact, target):
    """Write the files of clusters to `target`, and return the drops of each part: uids, kept."""
    shuffle = parts.shuffle("near-keys")
    pieces = [
        read_numbered_rows(parts.folder, shuffle, unit, KEY_ROW) for unit in range(parts.ranges)
    ]
    rows, part = map(np.concatenate, zip(*pieces, strict=True))
    order = np.argsort(rows["key"], kind="stable")
    rows = rows[order]
    documents = [read_sketches(parts.folder, name, options) for name in parts.names]
    starts = np.cumsum([0, *map(len, documents)])
    joined = np.concatenate(documents)
    uids = np.ascontiguousarray(joined["uid"])
    is_compared = parts.are_compared(np.repeat(range(parts.units), np.diff(starts)))
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

    of_parts = {part: set() for part in range(parts.units)}
    finals = {uids[row]: uids[kept[row]] for row in dropped}
    for part, rows_of_part in enumerate(np.split(np.arange(len(uids)), starts[1:-1])):
        of_parts[part] |= {
            (uids[row], uids[kept[row]]) for row in np.intersect1d(rows_of_part, dropped)
        }
    if after_exact:
        shuffle = parts.shuffle("exact-kept")
        for unit in range(parts.ranges):
            for uid, part in read_rows(parts.folder, shuffle, unit, COPY):
                if uid in finals:
                    of_parts[int(part)].add((uid, finals[uid]))
    return of_parts
