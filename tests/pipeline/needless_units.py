"""An oracle of what a change may remake: each unit and what it reads, from the contents of files.

It knows nothing of keys: only inputs, a recipe, and the files that a fresh run of it makes.
"""

import json
import re

import pyarrow as pa

DRAWING = ("masked_lm", "text_infilling")
"""Objectives that replace tokens by ids that occur in the corpus."""
DOCUMENTS = ("clean", "dedup", "decontaminate")


def read_records(output):
    """Return the records of an output by (stage, pass, unit)."""
    found = {}
    for path in output.glob("*/records/*/*.json"):
        record = json.loads(path.read_text())
        if path.parent.name != "options":
            found[path.parts[-4], record["pass_name"], record["unit"]] = record
    return found


def find_complete(output, records):
    """Return the units all of whose files are there."""
    return {
        unit
        for unit, record in records.items()
        if all((output / unit[0] / name).exists() for name in record["outputs"])
    }


class Dependencies:
    """What each unit of a fresh run reads: its recipe, the bytes of its inputs by name, its
    files."""

    def __init__(self, output, recipe, contents):
        self.recipe = recipe
        self.made = {
            unit: {name: file["xxh3_128"] for name, file in record["outputs"].items()}
            for unit, record in read_records(output).items()
        }
        self.shards = sum(name.startswith("shard-") for name in self._all("encode"))
        self.inputs = {}
        self.exact = {}
        clusters = _read_rows_of(output / "dedup" / "clusters" / "exact")
        kept = {row["cluster"]: row["uid"] for row in clusters if row["kept"]}
        self.kept = {row["uid"]: kept[row["cluster"]] for row in clusters}
        for stage, work, part in self.made:
            if (stage, work) == ("clean", "main"):
                rows = _read_rows(output / "clean" / "documents", part)
                rows += _read_rows(output / "clean" / "rejects", part)
                names = sorted({row["source"].split("/", 1)[1] for row in rows} or contents)
                self.inputs[part] = [(name, contents[name]) for name in names]
                rejects = _read_rows(output / "dedup" / "rejects", part)
                self.exact[part] = [row for row in rejects if row["reason"] == "exact_duplicate"]
        counts = pa.ipc.open_file((output / "encode" / "token_counts.arrow").read_bytes())
        self.occurring = [count > 0 for count in counts.read_all()["count"].to_pylist()]
        self.samples = {
            path.parent.relative_to(output / "corrupt").as_posix(): json.loads(path.read_bytes())[
                "parents"
            ][0]["name"]
            for path in output.glob("corrupt/*/*/manifest.json")
        }

    def reads(self, stage, work, unit):
        """Return what determines the outputs of a unit, as values that compare."""
        own = self.made[stage, work, unit]
        tokenizer = [self._all("train_tokenizer", "main"), self._all("tokenizer", "main")]
        options = self.recipe.get(stage)
        if stage == "clean":
            return [options, self.inputs[unit]]
        if work == "manifest":
            return [own]  # it holds the digests of all that it reads
        if stage == "tokenizer":
            return [options, own]
        if stage == "train_tokenizer":
            part = self._part(stage, unit)
            if work in ("measure", "sample"):
                return [part, work == "sample" and self._all(stage, "shares")]
            # its files tell which special tokens the objectives need
            return [options, own, [self._part(stage, part) for part in sorted(self.inputs)]]
        if stage in DOCUMENTS:
            return self._reads_of_documents(stage, work, unit, options, own)
        if stage == "encode":
            if work == "tokenize":
                return [options, tokenizer, self.shards, self._part(stage, unit)]
            if work == "merge":
                return [options, tokenizer, self._all("encode", "codes"), own]
            return [options, tokenizer, self._all("encode", "tokenize")]
        above = self._all("encode" if stage == "group" else "group")
        shards = [name for name in own if "/shard-" in name and not name.startswith("tmp/")]
        if not shards:
            return [tokenizer, options, above]
        return [tokenizer, *[self._shard(name, options, above) for name in shards]]

    def _reads_of_documents(self, stage, work, unit, options, own):
        part = self._part(stage, unit)
        kept = (
            [self.kept[row["uid"]] for row in self.exact[unit]] if stage == "dedup" and part else []
        )
        if work == "main":
            # an exact copy names what near dedup keeps of the document that exact dedup keeps;
            # drops come from as many ranges as there are shards
            shards = self.shards * (own[f"documents/{unit}.arrow"] != part)
            files = {name: own[name] for name in own if not name.startswith("tmp/")}
            # with other keys that edit texts, all parts are written again
            edits = stage == "dedup" and bool(options.get("lines"))
            return [part, kept, shards, files, edits]
        if stage == "decontaminate":
            return [options, part, self._all(stage, "index"), part or self._all(stage, "matches")]
        if work == "exact-hashes":
            return [options["exact"], self.shards, part]
        if work.startswith("exact"):
            return [options["exact"], self.shards, self._all(stage, "exact-hashes")]
        if work == "near-signatures":
            near = {key: value for key, value in options["near"].items() if key != "verify"}
            return [near, self.shards, part, self.exact[unit], kept]
        if work.startswith("near"):
            # parts with exact copies of a near copy get its drop, too
            copies = work == "near-clusters" and self._all(stage, "exact-survivors")
            return [options["near"], self.shards, self._all(stage, "near-signatures"), copies]
        return [options, self.shards, self._all(stage, "main")]

    def _shard(self, name, options, above):
        """Return what determines a shard of samples or examples: its label's options, and the
        shard of the same range above it, or all of them."""
        label, split, place = re.fullmatch(r"(.+)/(\w+)/shard-(\d+)-of-\d+\..+", name).groups()
        if isinstance(options, list):  # of `corrupt`
            options = [entry for entry in options if entry.get("label", entry["name"]) == label]
            mine = f"{self.samples[f'{label}/{split}']}/shard-"
            if any(entry["name"] in DRAWING for entry in options):
                options = [options, self.occurring]
        else:
            mine = "shard-"
        shards = {key: above[key] for key in sorted(above) if key.startswith(mine)}
        if split == "train":
            shards = list(shards.values())[int(place) % len(shards)]
        return [name, options, shards]

    def _part(self, stage, unit):
        """Return the digest of a part's documents before a stage; None for units of no part."""
        before = [name for name in DOCUMENTS if (name, "main", unit) in self.made]
        if stage in before:
            before = before[: before.index(stage)]
        return before and self.made[before[-1], "main", unit][f"documents/{unit}.arrow"]

    def _all(self, stage, work=None):
        found = {}
        for key, outputs in self.made.items():
            if key[0] == stage and key[1] == (work or key[1]):
                found |= outputs
        return found


def _read_rows_of(folder):
    return [row for path in sorted(folder.glob("*.arrow")) for row in _read_rows(folder, path.stem)]


def _read_rows(folder, part):
    return pa.ipc.open_file((folder / f"{part}.arrow").read_bytes()).read_all().to_pylist()


def find_needless(states, after, records, since):
    """Return the units that were made after a time, although an earlier state had them with the
    same reads.

    A state is its dependencies, and the units all of whose files were there. The others, whose
    files in `tmp/` were removed, are made again once anything in their stage changes.
    """
    kept = {
        unit: [
            unit in complete
            for before, complete in states
            if unit in before.made and before.reads(*unit) == after.reads(*unit)
        ]
        for unit in after.made
    }
    changed = {unit[0] for unit in kept if not kept[unit]}
    return [
        unit
        for unit, was_complete in kept.items()
        if records[unit]["made"] >= since
        and (any(was_complete) or (was_complete and unit[0] not in changed))
    ]
