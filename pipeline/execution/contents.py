"""Compare what a unit has read with what is there now, by the addresses of `unit_inputs`."""

from collections.abc import Callable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from clozeline.configuration.config import config_digest
from clozeline.files import file_hash
from clozeline.pipeline.execution.inputs import observe_file
from clozeline.pipeline.execution.shuffle import hash_name, sum_digests
from clozeline.pipeline.execution.stages import Stage
from clozeline.pipeline.execution.unit_inputs import (
    SEPARATOR,
    digest_names,
    digest_shards,
)
from clozeline.pipeline.execution.unit_record import (
    KnownRecords,
    NotMadeError,
    UnitRecord,
    add_counts,
)
from clozeline.pipeline.shards import Manifest, open_shards
from clozeline.pipeline.vocabulary import Corpus

INPUT_CHANGED: Final = "input changed"
"""Reason that the changes of the inputs say better."""


class Contents:
    """What the units of a stage may read, as it is now."""

    def __init__(self, stage: Stage[Any, Any], known: KnownRecords, *, verify: bool) -> None:
        self._stage = stage
        self._known = known
        self._verify = verify
        self.passes = set[str]()
        """passes of the stage that have been requested; nothing is read of any other"""
        self._records: dict[tuple[str, str], Mapping[str, UnitRecord | None]] = {}
        self._find_folder = cache(stage.find_folder)
        self._digests: Mapping[str, Callable[[str], str]] = {
            "output": self._digest_output,
            "counts": self._digest_counts,
            "shards": self._digest_shards,
            "corpus": self._digest_corpus,
            "pieces": self._digest_pieces,
            "numbered": self._digest_pieces,
            "input": self._digest_input,
            "listing": lambda address: digest_names(Path(address.partition(SEPARATOR)[2])),
        }

    def find_change(self, reads: Mapping[str, str]) -> str:
        """Return the first thing that has changed since a unit read it; "" if nothing has.

        Raises:
            NotMadeError: a unit that writes a part of it must run first.
        """
        change = ""
        for address, digest in reads.items():
            kind, _, rest = address.partition(SEPARATOR)
            if kind == "file":
                is_same = self._is_same_file(Path(rest), digest)
            else:
                is_same = digest == self._digests[kind](address)
            if not is_same:
                change = change or _describe(kind, rest)
        return change

    def _is_same_file(self, path: Path, before: str) -> bool:
        if not path.is_file():
            return not before
        state = observe_file(path)
        if before.startswith(f"{state.size} {state.version} ") and not self._verify:
            return True
        digest = self._known.once(path, lambda: file_hash(path))
        return before.startswith(f"{state.size} ") and before.endswith(f" {digest}")

    def _digest_output(self, address: str) -> str:
        _, stage, work, unit, prefix = address.split(SEPARATOR)
        record = self._find_record(stage, work, unit)
        if record is None:
            return ""
        if prefix in record.outputs:
            return record.digest(prefix)
        return self._known.once(address, lambda: record.digest(prefix))

    def _digest_counts(self, address: str) -> str:
        def add_up() -> str:
            _, stage, work, prefix = address.split(SEPARATOR)
            counts: Any = {}
            for record in self._find_all(stage, work, prefix).values():
                add_counts(counts, record.counts)
            return config_digest(counts)

        return self._known.once(address, add_up)

    def _digest_shards(self, address: str) -> str:
        def digest() -> str:
            _, stage, work, unit, name, listed = address.split(SEPARATOR)
            record = self._find_record(stage, work, unit)
            if record is None or name not in record.outputs:
                return ""
            path = self._find_folder(stage) / name
            return digest_shards(self._known.once(path, lambda: Manifest.load(path)), listed)

        return self._known.once(address, digest)

    def _digest_corpus(self, address: str) -> str:
        _, stage, work, unit, name = address.split(SEPARATOR)
        folder = self._find_folder(stage)
        if self._find_record(stage, work, unit) is None:
            return ""
        counts = self._known.once(
            folder, lambda: open_shards(folder, check_files=False).token_counts()
        )
        return "" if counts is None else Corpus(counts).digest(name)

    def _digest_pieces(self, address: str) -> str:
        shuffle, _, destination = address.rpartition(SEPARATOR)

        def add_up() -> Mapping[int, int]:
            kind, stage, writer, name = shuffle.split(SEPARATOR)
            sources = self._find_all(stage, writer, "")
            return sum_digests(sources, name, numbered=kind == "numbered")

        return f"{self._known.once(shuffle, add_up).get(hash_name(destination), 0):016x}"

    def _digest_input(self, address: str) -> str:
        return self._identities.get(address.partition(SEPARATOR)[2], "")

    @cached_property
    def _identities(self) -> Mapping[str, str]:
        """Identities of the content of the inputs, by source."""
        return {each["source"]: each["identity"] for each in self._stage.plan.inputs}

    def _find_all(self, stage: str, work: str, prefix: str) -> Mapping[str, UnitRecord]:
        return {
            unit: record
            for unit in self._find_records(stage, work)
            if unit.startswith(prefix) and (record := self._find_record(stage, work, unit))
        }

    def _find_record(self, stage: str, work: str, unit: str) -> UnitRecord | None:
        """Return the record of a finished unit; None if there is no such unit.

        Raises:
            NotMadeError: the unit must run first.
        """
        records = self._find_records(stage, work)
        record = records.get(unit)
        if record is None and unit in records:
            raise NotMadeError(self._find_folder(stage))
        return record

    def _find_records(self, stage: str, work: str) -> Mapping[str, UnitRecord | None]:
        """Return the records of a pass; none if the recipe has it no longer."""
        if (found := self._records.get((stage, work))) is None:
            if stage == self._stage.name and work not in self.passes:
                return {}
            folder = self._find_folder(stage)
            if folder in self._known.unknown:
                raise NotMadeError(folder)
            found = self._records[stage, work] = self._known.of_pass(folder, work)
        return found


def _describe(kind: str, rest: str) -> str:
    """Return what has changed."""
    if kind == "input":
        return INPUT_CHANGED
    if kind in ("file", "listing"):
        return f"{rest} changed"
    stage, work, *_ = rest.split(SEPARATOR)
    return f"{stage} ({work}) changed" if work != "main" else f"{stage} changed"
