"""What a unit reads: it opens every file through `UnitInputs`, which notes its content.

The record of the unit keeps these notes. At the next start, `contents` says whether what they name
is still the same. An address names what was read:

    output|STAGE|PASS|UNIT|PREFIX           files of a unit whose names begin with PREFIX
    counts|STAGE|PASS|PREFIX                summed counts of units whose names begin with PREFIX
    shards|STAGE|PASS|UNIT|MANIFEST|0,1     shards of a set, and what its manifest says of the rows
    corpus|STAGE|PASS|UNIT|PROPERTY         counts of ids in a corpus, or which ids occur
    pieces|STAGE|PASS|SHUFFLE|UNIT          pieces of a shuffle for a unit
    numbered|STAGE|PASS|SHUFFLE|UNIT        the same, for a unit that tells the sources apart
    input|SOURCE                            an input of the run
    file|PATH                               a file of the user
    listing|PATH                            names of the files below a folder of the user
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from clozeline.configuration.config import config_digest
from clozeline.files import file_hash
from clozeline.pipeline.execution.inputs import observe_file
from clozeline.pipeline.execution.unit_record import UnitRecord, total_counts
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import Manifest, ShardSet, open_shards
from clozeline.pipeline.shards.manifest import GroupingRecord, TokenizerRecord
from clozeline.pipeline.shards.store import ObjectProperties
from clozeline.pipeline.vocabulary import Corpus
from clozeline.recorded_file import RecordedFile

SEPARATOR = "|"


class UnitInputs:
    """Opens what one unit reads, and notes the content of each thing by its address."""

    def __init__(self, find_folder: Callable[[str], Path]) -> None:
        self.find_folder = find_folder
        """function of the name of a stage, or of what it gives: `documents`, `tokenizer`"""
        self.reads: dict[str, str] = {}
        self.hashes: dict[str, str] = {}
        """hashes (hex) of the ranges of the run's inputs that the unit read, by name"""

    def note(self, digest: str, *parts: str) -> None:
        """Note the digest of something that the unit has read."""
        self.reads[SEPARATOR.join(parts)] = digest

    def find_files(
        self, stage: str, work: str, unit: str, prefix: str = ""
    ) -> dict[str, RecordedFile]:
        """Return the files of a finished unit whose names begin with `prefix`, by name."""
        folder = self.find_folder(stage)
        record = UnitRecord.read(UnitRecord.path(folder, work, unit))
        self.note(
            "" if record is None else record.digest(prefix), "output", stage, work, unit, prefix
        )
        if record is None:
            return {}
        return {
            name: record.output(folder, name) for name in record.outputs if name.startswith(prefix)
        }

    def file(self, stage: str, work: str, unit: str, name: str) -> RecordedFile:
        """Return a file of a finished unit, which is verified when it is read."""
        files = self.find_files(stage, work, unit, name)
        return files.get(name) or RecordedFile(self.find_folder(stage) / name)

    def folder(self, stage: str, work: str, unit: str, prefix: str) -> Path:
        """Return the folder `prefix` of a finished unit, after verifying its files."""
        for file in self.find_files(stage, work, unit, prefix).values():
            file.buffer()
        return self.find_folder(stage) / prefix

    def sum_counts(self, stage: str, work: str, prefix: str = "") -> Any:
        """Return the summed counts of the units of a pass whose names begin with `prefix`."""
        counts = total_counts(self.find_folder(stage), work, prefix)
        self.note(config_digest(counts), "counts", stage, work, prefix)
        return counts

    def shards(
        self, stage: str, work: str, unit: str, manifest: str, numbers: Sequence[int] | None = None
    ) -> "SomeShards":
        """Open some shards of the set whose manifest a unit has written; None: all of them."""
        folder = self.find_folder(stage)
        record = UnitRecord.read(UnitRecord.path(folder, work, unit))
        if record is not None and manifest in record.outputs:
            record.output(folder, manifest).buffer()  # it holds the hashes of all other files
        found = open_shards(folder / manifest)
        listed = "all" if numbers is None else ",".join(map(str, numbers))
        digest = digest_shards(found.manifest, listed)
        self.note(digest, "shards", stage, work, unit, manifest, listed)
        return SomeShards(found, None if numbers is None else tuple(numbers))

    def corpus(self, stage: str, work: str, unit: str) -> Corpus | None:
        """Return the counts of the ids in a corpus; what is read of them is noted."""
        counts = open_shards(self.find_folder(stage), check_files=False).token_counts()
        if counts is None:
            return None
        return Corpus(
            counts, lambda digest, name: self.note(digest, "corpus", stage, work, unit, name)
        )

    def user_file(self, path: Path) -> Path:
        """Return the path of a file or folder of the user, after noting state and content."""
        if path.is_dir():
            self.note(digest_names(path), "listing", str(path))
            for file in list_files(path):
                self.user_file(file)
        elif path.is_file():
            self.note(describe_file(path, observe_file(path)), "file", str(path))
        else:  # the reader says what is wrong with it
            self.note("", "file", str(path))
        return path


def list_files(folder: Path) -> list[Path]:
    """Return the files below a folder of the user, sorted."""
    return sorted(file for file in folder.rglob("*") if file.is_file())


def digest_names(folder: Path) -> str:
    """Return a digest of the names of the files below a folder of the user."""
    return config_digest([str(file.relative_to(folder)) for file in list_files(folder)])


@lru_cache(maxsize=1024)
def describe_file(path: Path, state: ObjectProperties) -> str:
    """Return size, version and hash of a file of the user."""
    return f"{state.size} {state.version} {file_hash(path)}"


def digest_shards(manifest: Manifest, listed: str) -> str:
    """Return a digest of the listed shards, and of what the manifest says of their rows.

    `listed` has their numbers, or is `all`. "" if there is no such shard.
    """
    rows = [
        manifest.languages,
        manifest.source_groups,
        manifest.grouping and manifest.grouping.model_dump(),
        manifest.tokenizer.model_dump(),
        [column.as_dict() for column in manifest.columns],
    ]
    if listed == "all":
        return config_digest([*rows, manifest.name, manifest.digest])
    numbers = [int(number) for number in listed.split(",") if number]
    if max(numbers, default=-1) >= len(manifest.shards):
        return ""
    return config_digest([*rows, [manifest.shards[number].model_dump() for number in numbers]])


@dataclass(frozen=True)
class SomeShards:
    """Some shards of a set, or all; a unit that opened them reads no other shard."""

    _set: ShardSet
    numbers: tuple[int, ...] | None

    def blocks(self) -> Iterator[RowBatch]:
        """Yield the rows of the shards, block by block."""
        for block, shard in enumerate(self._set.index.shard.tolist()):
            if self.numbers is None or shard in self.numbers:
                yield self._set.read_block(block)

    def as_parent(self, role: str) -> dict[str, str]:
        """Return what the manifest of a set that is made of all shards says of this set."""
        if self.numbers is not None:
            raise ValueError("only all shards are a parent")
        return {"name": self._set.manifest.name, "digest": self._set.digest, "role": role}

    @property
    def grouping(self) -> GroupingRecord | None:
        """The grouping of the rows."""
        return self._set.manifest.grouping

    @property
    def languages(self) -> tuple[str, ...]:
        """Names of the language codes, in order."""
        return self._set.manifest.languages

    @property
    def source_groups(self) -> tuple[str, ...]:
        """Names of the codes of source groups, in order."""
        return self._set.manifest.source_groups

    @property
    def tokenizer(self) -> TokenizerRecord:
        """The tokenizer whose ids the rows hold."""
        return self._set.manifest.tokenizer

    @property
    def columns(self) -> frozenset[str]:
        """Names of the list columns."""
        return frozenset(self._set.manifest.roles)
