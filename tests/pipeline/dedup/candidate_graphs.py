"""Graphs of candidates without texts: sets of documents that share a band key, as signatures that passes can read."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa

from clozeline.configuration.config import validate
from clozeline.pipeline.dedup.near import _KEY, _document_schema, _documents_file
from clozeline.pipeline.dedup.parts import Parts
from clozeline.pipeline.dedup.rows import hash_bounds, pack_rows, uid_bytes, uid_column, write_rows
from clozeline.pipeline.dedup.stage import DedupStage
from clozeline.pipeline.execution.unit_record import Output, add_counts
from clozeline.pipeline.recipe import Recipe
from clozeline.sealed_json import seal
from clozeline.seeding import mix


def graphs(draw: random.Random, size: int) -> dict[str, list[list[int]]]:
    """Groups of documents that share a key, by shape of the graph; documents are numbers in no order."""
    names = draw.sample(range(size), size)
    path = [names[n : n + 2] for n in range(size - 1)]
    ladder = [names[n : n + 3] for n in range(size - 2)]
    stars = [names[n : n + size // 4] for n in range(0, size, size // 4 - 1)]
    cliques = [names[n : n + 5] for n in range(0, size, 5) for _ in range(3)]
    pairs = [draw.sample(names, 2) for _ in range(size // 2)]
    tree = [[names[n], names[draw.randrange(max(0, n - 4), n)]] for n in range(1, size)]
    mixed = [*path[: size // 3], *cliques[size // 5 :], *pairs[:5]]
    return {"path": path, "ladder": ladder, "stars": stars, "cliques": cliques, "pairs": pairs, "tree": tree,
            "mixed": mixed, "none": []}  # fmt: skip


class Candidates:
    """Documents in parts, each with its band keys, merit and sketch."""

    def __init__(self, groups: list[list[int]], size: int, parts: int, draw: random.Random) -> None:
        keys: list[list[int]] = [[] for _ in range(size)]
        for number, group in enumerate(groups):
            for node in set(group):
                keys[node].append(number)
        self.groups = groups
        self.bands = max(1, *map(len, keys))
        fresh = iter(range(1 << 32, 1 << 33))
        filled = [[*own, *(next(fresh) for _ in range(self.bands - len(own)))] for own in keys]
        self.keys = mix(np.array(filled, np.uint64))
        self.uids = [draw.randbytes(15) + b"\0" for _ in range(size)]
        self.merit = [draw.randrange(4) for _ in range(size)]
        self.sketches = [[draw.randrange(2) for _ in range(self.bands)] for _ in range(size)]
        self.part = np.array([draw.randrange(parts) for _ in range(size)])
        self.parts = parts

    def write(self, stage: DedupStage, parts: Parts) -> None:
        """Write what the pass of signatures would."""
        schema = _document_schema(stage.config.near)
        columns = {"uid": uid_column(self.uids), "merit": np.array(self.merit), "sketch": np.array(self.sketches)}
        rows = pack_rows(schema, columns)
        for part in range(self.parts):
            here = np.flatnonzero(self.part == part)
            flat, owners = self.keys[here].reshape(-1), np.repeat(np.arange(len(here)), self.bands)
            order = np.argsort(flat)
            keys = pack_rows(_KEY, {"key": flat[order], "part": np.full(len(order), part), "row": owners[order]})
            bounds = hash_bounds(flat[order], parts.ranges)
            write_rows(Output(parts.folder), parts.shuffle("near-keys"), part, keys, bounds)
            with Output(parts.folder).file(_documents_file(part)) as path:
                path.write_bytes(rows[here].tobytes())


class OverRanges:
    """The passes of the stage from the candidates to the drops."""

    def __init__(self, root: Path, candidates: Candidates, ranges: int, verify: float) -> None:
        (root / "clean").mkdir(parents=True)
        unit = {"source": "test/a", "source_group": "test", "reader": "jsonl", "start": 0, "end": 1}
        units = [{"unit": number, **unit} for number in range(candidates.parts)]
        plan = {"format": 1, "shards": ranges, "inputs": [], "units": units, "states": {}}
        (root / "clean/plan.json").write_text(json.dumps(seal(plan)))
        near = {"ngram": 1, "bands": candidates.bands, "rows": 1, "verify": verify}
        dedup = {"exact": None, "near": near}
        recipe = validate(Recipe, {"corpus": "c", "output": str(root), "dedup": dedup}, "test")
        object.__setattr__(recipe, "clean", True)  # that the recipe has the stage is all that dedup looks at
        stage = DedupStage(recipe)
        self.parts = Parts(root / "clean", stage.folder, candidates.parts, ranges)
        self.passes = [work for work in stage.passes() if work.name not in ("near-signatures", "main")]
        candidates.write(stage, self.parts)

    def run(self, reverse: bool = False) -> dict:
        """Run all passes and return the sum of their counts."""
        total: dict = {}
        for work in self.passes:
            for number in sorted(range(work.units), reverse=reverse):
                add_counts(total, work.run(number, Output(self.parts.folder)))
        return total

    def clusters(self) -> list[list[tuple[bytes, bytes, bool, float]]]:
        """Return the rows of the files of clusters."""
        paths = [self.parts.folder / f"clusters/near/{index:06d}.arrow" for index in range(self.parts.ranges)]
        assert sorted((self.parts.folder / "clusters/near").iterdir()) == paths
        return [[tuple(row.values()) for row in pa.ipc.open_file(path).read_all().to_pylist()] for path in paths]

    def drops(self) -> list[tuple[int, bytes, bytes]]:
        """Return (part, dropped, kept), sorted."""
        found = [(part, *map(uid_bytes, self.parts.drops("near-drops", part))) for part in range(self.parts.units)]
        return sorted((part, uid, kept) for part, uids, stays in found for uid, kept in zip(uids, stays, strict=True))


def slow_clusters(groups, uids, merit, sketches, verify):
    """For each document the one kept in its place: sets of documents joined one shared key at a time."""
    kept, pending = list(range(len(uids))), set(range(len(uids)))
    while True:
        shared = [set(members) & pending for members in groups]
        joined = []
        for members in shared:
            if len(members) > 1:
                touching = [one for one in joined if one & members]
                joined = [one for one in joined if not one & members] + [members.union(*touching)]
        if not joined:
            return kept
        pending = set()
        for members in joined:
            best = min(members, key=lambda row: (-merit[row], uids[row]))
            for row in members:
                if likeness(sketches[row], sketches[best]) >= verify:
                    kept[row] = best
                else:
                    pending.add(row)


def likeness(left, right):
    return sum(a == b for a, b in zip(left, right, strict=True)) / len(left)


def slow_files(candidates: Candidates, ranges: int, verify: float):
    """Return the rows of the files of clusters, the drops and the counts, by sets and loops."""
    uids, groups = candidates.uids, candidates.groups
    kept = slow_clusters(groups, uids, candidates.merit, candidates.sketches, verify)
    dropped = [row for row, best in enumerate(kept) if row != best]
    files: list[list[tuple[bytes, bytes, bool, float]]] = [[] for _ in range(ranges)]
    for best in {kept[row] for row in dropped}:
        members = [row for row in range(len(uids)) if kept[row] == best]
        name = min(uids[row] for row in members)
        rows = files[int.from_bytes(name, "big") * ranges >> 128]
        for row in members:
            similarity = float(np.float32(likeness(candidates.sketches[row], candidates.sketches[best])))
            rows.append((name, uids[row], row == best, similarity))
    drops = sorted((int(candidates.part[row]), uids[row], uids[kept[row]]) for row in dropped)
    shared = [set(group) for group in groups if len(set(group)) > 1]
    members = set().union(*shared)
    amounts = {"compared_keys": candidates.keys.size, "candidates": sum(map(len, shared)), "members": len(members)}
    amounts |= {"compared": sum(map(len, shared)), "clusters": len({kept[row] for row in dropped})}
    return [sorted(rows) for rows in files], drops, {"near": {**amounts, "dropped": len(dropped)}}
