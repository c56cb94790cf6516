"""Score only the items that no training document holds, by the report `clean_items.json` of `decontaminate`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clozeline.configuration.config import load_config
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import file_hash
from clozeline.pipeline.decontaminate.overlap import read_clean_items
from clozeline.pipeline.execution.unit_record import records
from clozeline.pipeline.ingest.documents.document import document_uid
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.rows import Rows
from clozeline.pipeline.shards import ShardSet
from clozeline.tools.runs.evaluation.local_texts import Keep, files_of

CLEAN = "clean"


@dataclass
class CleanItems:
    """Kind of each item by the hash of its file and its row: `clean`, `contaminated` or `too_short`."""

    path: Path
    files: Mapping[str, Mapping[int, str]]
    names: Sequence[str]
    counts: Counter[str] = field(default_factory=Counter)
    """items by kind, of those that were asked for"""
    _hashes: dict[Path, str] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> "CleanItems":
        """Read a report."""
        files = read_clean_items(path)
        kinds = {file["xxh3_128"]: {row: kind for kind, rows in file["rows"].items() for row in rows} for file in files}
        return CleanItems(path, kinds, [f"{file['suite']}: {file['name']}" for file in files])

    def kinds_of(self, name: str, digest: str) -> Mapping[int, str]:
        """Return the kind of each row of a file with a hash; ConfigurationError if the report does not cover it."""
        if digest not in self.files:
            raise ConfigurationError(
                f"clean={self.path}: expected a report that covers {name} (XXH3 {digest}), got one of "
                f"{', '.join(self.names)}: add the same file to decontaminate.against and run that stage again"
            )
        return self.files[digest]

    def keep(self, file: Path, line: int) -> bool:
        """Return whether the item in a line, counted from 1, is clean, and count it."""
        if file not in self._hashes:
            self._hashes[file] = file_hash(file)
        kind = self.kinds_of(str(file), self._hashes[file])[line - 1]
        self.counts[kind] += 1
        return kind == CLEAN

    def clean_rows(self, shards: ShardSet, rows: Rows) -> list[int]:
        """Return the rows of a task's split whose items are clean, and count its items.

        A row has the uid of its line in the file that `clozeline tasks` has read; its records have the file's hash.
        """
        stage = shards.path.parents[2]
        source = shards.manifest.config["source"]
        inputs = {name: digest for record in records(stage, "main") for name, digest in record.inputs.items()}
        if source not in inputs or not (stage / "config.yaml").is_file():
            raise ConfigurationError(
                f"clean={self.path}: expected {stage} with the records of `clozeline tasks`, which name the file of "
                "the split, got none: give task=FOLDER in the folder where the sets were made"
            )
        corpus = load_config(Recipe, stage / "config.yaml").corpus
        kinds = self.kinds_of(f"{shards.path}, made from {source}", inputs[source])
        by_uid = {document_uid(corpus, source, "row", row): kind for row, kind in kinds.items()}
        uids = [uid.tobytes() for uid in rows.fixed["document_uid"]]
        if missing := set(uids) - by_uid.keys():
            raise IntegrityError(
                f"clean={self.path}: {len(missing)} rows of {shards.path} are no items of {source}: the report was "
                "made with another reader: run `clozeline decontaminate` again with the reader of the task"
            )
        self.counts.update(by_uid[uid] for uid in set(uids))
        return [row for row, uid in enumerate(uids) if by_uid[uid] == CLEAN]

    def score(self, path: Path, score: Callable[[Keep], Mapping[str, Any]]) -> dict[str, Any]:
        """Return the part of the report on the clean items of a file or folder, which `score` gets the choice of."""
        files = {str(file): file_hash(file) for file in files_of(path)}
        covered = [self.files[digest] for digest in files.values() if digest in self.files]
        if not covered:
            self.kinds_of(*next(iter(files.items())))
        if any(CLEAN in kinds.values() for kinds in covered):
            return self.report_scores(score(self.keep))
        self.counts.update(kind for kinds in covered for kind in kinds.values())
        return self.report_scores(None)

    def report_scores(self, scores: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the hash of this report, the items by kind, and the scores of the clean ones; None without any."""
        return {"report": file_hash(self.path), "items": dict(sorted(self.counts.items())), "scores": scores}


def clean_lines(scores: Mapping[str, Any], lines: Callable[[Mapping[str, Any]], Iterator[str]]) -> Iterator[str]:
    """Yield the lines of all items, then of the clean items."""
    yield from lines(scores)
    if CLEAN in scores:
        counts = scores[CLEAN]["items"]
        number, contaminated, short = (counts.get(kind, 0) for kind in (CLEAN, "contaminated", "too_short"))
        total = number + contaminated + short
        yield f"clean items: {number:,} of {total:,} ({contaminated:,} contaminated, {short:,} too short to be found)"
        if scores[CLEAN]["scores"] is not None:
            yield from lines({**scores, **scores[CLEAN]["scores"]})
