"""Near-duplicates found by sets of documents: what the stage must equal, however it is run."""

import numpy as np

from clozeline.pipeline.dedup.parts import COMPARED_PRIORITY


def likeness(left, right):
    return sum(a == b for a, b in zip(left, right, strict=True)) / len(left)


def slow_clusters(groups, uids, merit, sketches, verify, rounds=1000):
    """For each document the one kept in its place: sets of documents joined one shared key at a
    time."""
    kept = list(range(len(uids)))
    pending = set(kept)

    for _ in range(rounds):
        joined = []

        for members in (set(group) & pending for group in groups):
            if len(members) > 1:
                touching = [one for one in joined if one & members]
                joined = [one for one in joined if not one & members] + [members.union(*touching)]

        pending = set()

        for members in joined:
            best = min(members, key=lambda row: (-merit[row], uids[row]))
            for row in members:
                is_like = likeness(sketches[row], sketches[best]) >= verify
                # a document that is only compared never goes
                if is_like and (row == best or merit[row] != COMPARED_PRIORITY):
                    kept[row] = best
                else:
                    pending.add(row)

    return kept


def list_clusters(kept, uids, sketches):
    """Return the sorted rows of the clusters: name, uid, whether it is kept, similarity."""
    rows = []
    for best in {best for row, best in enumerate(kept) if row != best}:
        members = [row for row, each in enumerate(kept) if each == best]
        name = min(uids[row] for row in members)
        for row in members:
            similarity = np.float32(likeness(sketches[row], sketches[best]))
            rows.append((name, uids[row], row == best, similarity))
    return sorted(rows)
