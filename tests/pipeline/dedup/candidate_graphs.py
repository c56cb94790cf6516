"""Graphs of candidates without texts: sets of documents that share a band key, as signatures that passes can read."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import numpy as np

from clozeline.configuration.config import validate
from clozeline.pipeline.dedup.clusters import resolve, smallest_uids
from clozeline.pipeline.dedup.columns import (
    hash_bounds,
    pack_rows,
    uid_bytes,
    uid_column,
    write_columns,
    write_rows,
)
from clozeline.pipeline.dedup.near_passes import SignatureParameters
from clozeline.pipeline.dedup.parts import CLUSTER, Parts, write_clusters
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
        self.bands = max(1, *map(len, keys))
        fresh = iter(range(1 << 32, 1 << 33))
        filled = [[*own, *(next(fresh) for _ in range(self.bands - len(own)))] for own in keys]
        self.keys = mix(np.array(filled, np.uint64))
        self.uids = uid_column([draw.randbytes(15) + b"\0" for _ in range(size)])
        self.merit = np.array([draw.randrange(4) for _ in range(size)], np.int64)
        self.sketches = np.array([[draw.randrange(2) for _ in range(self.bands)] for _ in range(size)], np.uint16)
        self.part = np.array([draw.randrange(parts) for _ in range(size)])
        self.parts = parts

    def write(self, parts: Parts, parameters: SignatureParameters) -> None:
        """Write what the pass of signatures would."""
        for part in range(self.parts):
            here = np.flatnonzero(self.part == part)
            flat, rows = self.keys[here].reshape(-1), np.repeat(np.arange(len(here)), self.bands)
            order = np.argsort(flat)
            schema = (("key", "<u8"), ("part", "<u4"), ("row", "<u4"))
            columns = {"key": flat[order], "part": np.full(len(order), part), "row": rows[order]}
            bounds = hash_bounds(flat[order], parts.ranges)
            write_rows(Output(parts.folder), parts.exchange("near-keys"), part, pack_rows(schema, columns), bounds)
            documents = {"uid": self.uids[here], "merit": self.merit[here], "keys": self.keys[here]}
            documents["sketch"] = self.sketches[here]
            with Output(parts.folder).file(parts.temporary("near-documents", part)) as path:
                write_columns(path, documents, parameters.plain())


class OverRanges:
    """The passes of the stage from the candidates to the drops."""

    def __init__(self, root: Path, candidates: Candidates, ranges: int, verify: float | None) -> None:
        (root / "clean").mkdir(parents=True)
        unit = {"source": "test/a", "source_group": "test", "reader": "jsonl", "start": 0, "end": 1}
        units = [{"unit": number, **unit} for number in range(candidates.parts)]
        plan = {"format": 1, "shards": ranges, "inputs": [], "units": units}
        (root / "clean/plan.json").write_text(json.dumps(seal(plan)))
        near = {"ngram": 1, "bands": candidates.bands, "rows": 1, "verify": verify}
        dedup = {"exact": None, "near": near}
        recipe = validate(Recipe, {"corpus": "c", "output": str(root), "dedup": dedup}, "test")
        object.__setattr__(recipe, "clean", True)  # that the recipe has the stage is all that dedup looks at
        stage = DedupStage(recipe)
        self.parts = Parts(root / "clean", stage.folder, candidates.parts, ranges)
        self.passes = [work for work in stage.passes() if work.name not in ("near-signatures", "main")]
        self.parameters = SignatureParameters(1, candidates.bands, 1, 1)
        candidates.write(self.parts, self.parameters)

    def run(self, reverse: bool = False) -> dict:
        """Run all passes and return the sum of their counts."""
        total: dict = {}
        for work in self.passes:
            for number in sorted(range(work.units), reverse=reverse):
                add_counts(total, work.run(number, Output(self.parts.folder)))
        taken = total.pop("taken", {})
        for exchange, rows in total.pop("sent", {}).items():
            assert set(taken.get(exchange, {}).values()) <= {rows}
        return total

    def clusters(self) -> list[bytes]:
        """Return the files of clusters."""
        folder = self.parts.folder / "clusters/near"
        assert len(list(folder.iterdir())) == self.parts.ranges
        return [(folder / f"{index:06d}.arrow").read_bytes() for index in range(self.parts.ranges)]

    def drops(self) -> list[tuple[int, bytes, bytes]]:
        """Return (part, dropped, kept), sorted."""
        found = [(part, *map(uid_bytes, self.parts.drops("near-drops", part))) for part in range(self.parts.units)]
        return sorted((part, uid, kept) for part, uids, stays in found for uid, kept in zip(uids, stays, strict=True))


def at_once(candidates: Candidates, ranges: int, verify: float | None, folder: Path):
    """Return files of clusters, drops and counts as one process makes them that holds all candidates."""
    keys, counts = np.unique(candidates.keys, return_counts=True)
    flat, holders = candidates.keys.reshape(-1), np.repeat(np.arange(len(candidates.uids)), candidates.bands)
    shared = np.isin(flat, keys[counts > 1])
    places, nodes = np.unique(holders[shared], return_inverse=True)
    uids, part = candidates.uids[places], candidates.part[places]
    kept, similarity = resolve(flat[shared], nodes, uids, candidates.merit[places], candidates.sketches[places], verify)
    dropped = np.flatnonzero(kept != np.arange(len(uids)))
    members = np.flatnonzero(np.isin(kept, kept[dropped]))
    names = uids[smallest_uids(kept, uids)]
    by_name = members[np.argsort(names[members], kind="stable")]
    files = []
    for first, last in pairwise(hash_bounds(names[by_name], ranges)):
        inside = by_name[first:last]
        columns = {"cluster": names[inside], "uid": uids[inside], "kept": kept[inside] == inside}
        columns["similarity"] = similarity[inside]
        write_clusters(folder / "reference.arrow", pack_rows(CLUSTER, columns))
        files.append((folder / "reference.arrow").read_bytes())
    drops = zip(part[dropped].tolist(), uid_bytes(uids[dropped]), uid_bytes(uids[kept[dropped]]), strict=True)
    amounts = {"candidates": int(shared.sum()), "members": len(uids), "clusters": len(members) - len(dropped)}
    amounts |= {"compared_keys": shared.size, "compared": len(uids)}
    return files, sorted(drops), {"near": {**amounts, "dropped": len(dropped)}}
