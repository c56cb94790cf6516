"""`manifest.json` describes a shard set. It is written last; a folder without it is not a shard set."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, FailFast, Field, SerializerFunctionWrapHandler, ValidationError
from pydantic.functional_serializers import model_serializer
from pydantic.functional_validators import AfterValidator, model_validator

from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.files import parse_json
from clozeline.format_version import refuse_newer
from clozeline.pipeline.rows import FIXED_COLUMNS
from clozeline.pipeline.shards.columns import ColumnSpec
from clozeline.repair import repair_of

FORMAT: Final = 1
SIZE_LIMIT: Final = 64 << 20
"""Largest manifest that is parsed, in bytes."""
ENTRY_LIMIT: Final = 1 << 20
"""Most entries of a manifest that is parsed."""
SHARD_LIMIT: Final = 100_000
"""Most shards of a set, which take half of the entries."""
BLOCK_LIMIT: Final = 1 << 30
"""No block may take more bytes than this after decompression, whatever a manifest claims."""

# Empty, '.' or '..' parts; scheme, backslash, control characters.
_FORBIDDEN: Final = re.compile(r"(^|/)(\.{0,2})(/|$)|[\\:\x00-\x1f]")


class ManifestError(IntegrityError):
    """A manifest or its index is not what this version reads, or contradicts the files next to it."""


def read_regular(path: Path, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes: a device may have no end, a pipe may never give a byte."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait for its writer
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            types = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
            found = types.get(stat.S_IFMT(status.st_mode), "device")
            raise ManifestError(f"{path}: expected a regular file, got a {found}; {repair_of(path)}")
        if status.st_size > limit:
            raise ManifestError(f"{path}: {status.st_size} bytes, at most {limit} are read; {repair_of(path)}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(status.st_size + 1)
    finally:
        os.close(descriptor)
    if len(content) > status.st_size:
        raise ManifestError(f"{path}: it grew while it was read; {repair_of(path)}")
    return content


def check_entries(where: Path | str, raw: bytes, limit: int) -> None:
    """Check that JSON has at most `limit` entries in its lists and mappings, before any of them takes memory."""
    if (entries := raw.count(b",")) > limit:  # commas in strings count too
        raise ManifestError(f"{where}: about {entries} entries, at most {limit} are read; {repair_of(where)}")


def _check_path(path: str) -> str:
    if _FORBIDDEN.search(path):
        raise ValueError(f"path {path!r} must be relative, without '..', scheme or backslash")
    return path


_Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
_RelativePath: TypeAlias = Annotated[str, AfterValidator(_check_path)]
_Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Strict(BaseModel):
    """A part of a file: no unknown keys, and no conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FrameFacts(Strict):
    """Padding side, first decoder id, and the position that predicts a label.

    `predict_from` is written only where it is `previous`: manifests without it keep their text and digest.
    """

    padding_side: Literal["right", "left"] = "right"
    decoder_start: int | Literal["target_end"] | None = None
    predict_from: Literal["same", "previous"] = "same"

    @model_serializer(mode="wrap")
    def _without_defaults(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        facts: dict[str, Any] = plain(self)
        if self.predict_from == "same":
            del facts["predict_from"]
        return facts


class ObjectiveFacts(Strict):
    """The objective that made an example set."""

    name: str
    label: str
    options: dict[str, Any] = Field(default_factory=dict)
    architecture: Literal["encoder", "decoder", "encoder_decoder"]
    heads: tuple[str, ...]
    frame: FrameFacts


class GroupingFacts(Strict):
    """The grouping that made the rows."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)


class TokenizerFacts(Strict):
    """The tokenizer whose ids the set holds."""

    name: str
    fingerprint: str
    vocab_size: int = Field(ge=1, lt=2**32)
    special_ids: dict[str, int]
    sentinels: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _ids_exist(self) -> TokenizerFacts:
        for token in (*self.special_ids.values(), *self.sentinels):
            if not 0 <= token < self.vocab_size:
                raise ValueError(f"special id {token} is not below the vocabulary's {self.vocab_size}")
        return self


class ColumnFacts(Strict):
    """One column."""

    name: str
    arrow_type: str
    description: str

    @property
    def spec(self) -> ColumnSpec:
        return ColumnSpec.parse(self.name, self.arrow_type, self.description)

    @model_validator(mode="after")
    def _check_type(self) -> ColumnFacts:
        try:
            _ = self.spec
        except IntegrityError as error:
            raise ValueError(str(error)) from error
        return self


class CompressionFacts(Strict):
    """Compression of each buffer."""

    codec: Literal["none", "zstd"]
    level: int | None = None


class Totals(Strict):
    """Sums over all shards; `tokens` counts the first column of ids."""

    samples: _Count
    tokens: _Count
    blocks: _Count
    shards: _Count
    bytes: _Count
    tokens_by_language: dict[str, _Count] = Field(default_factory=dict)
    tokens_by_source: dict[str, _Count] = Field(default_factory=dict)
    skipped: dict[str, _Count] = Field(default_factory=dict)


class ShardFacts(Strict):
    """One shard file."""

    path: _RelativePath
    bytes: _Count
    sha256: str
    blocks: _Count
    rows: _Count


class IndexFacts(Strict):
    """The index file."""

    path: _RelativePath
    sha256: _Sha256
    bytes: _Count


class Parent(Strict):
    """A set or tokenizer that this set was made from."""

    name: str
    digest: str
    role: str


class Code(Strict):
    """The code that wrote the set."""

    package_version: str


def _check_format(value: int) -> int:
    if not 1 <= value <= FORMAT:
        raise ValueError(f"this version reads 1 to {FORMAT}, got {value}")
    return value


class Manifest(Strict):
    """Metadata of a shard set that a reader needs before it reads blocks."""

    format: Annotated[int, AfterValidator(_check_format)]
    name: str = Field(min_length=1)
    kind: Literal["tokens", "samples", "examples", "columns"]
    """`columns`: further columns of the rows of another set, its parent"""
    grouping: GroupingFacts | None = None
    objective: ObjectiveFacts | None = None
    variants: int = Field(default=1, ge=1, le=65536)
    seed: _Count
    tokenizer: TokenizerFacts
    columns: tuple[ColumnFacts, ...] = Field(min_length=1)
    languages: tuple[str, ...] = Field(default=(), max_length=255)
    """Names of the `language` codes, in order."""
    source_groups: tuple[str, ...] = Field(default=(), max_length=65535)
    """Names of the `source_group` codes of a token set, in order."""
    max_length: _Count
    block_rows: int = Field(ge=1, lt=2**31)
    max_block_bytes: int = Field(ge=0, le=BLOCK_LIMIT)
    container: Literal["arrow", "tar"]
    compression: CompressionFacts
    totals: Totals
    index: IndexFacts
    shards: Annotated[tuple[ShardFacts, ...], FailFast(), Field(max_length=SHARD_LIMIT)]
    parents: tuple[Parent, ...] = ()
    code: Code
    config: dict[str, Any] = Field(default_factory=dict)
    checksum: str = ""
    """SHA-256 of the manifest itself without this key, so that a flipped bit cannot pass."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Manifest:
        if len({column.name for column in self.columns}) < len(self.columns):
            raise ValueError("columns: a column is listed twice")
        if (self.objective is None) == (self.kind == "examples"):
            raise ValueError(f"a set of {self.kind} has {'no' if self.objective else 'an'} objective")
        fixed = list(FIXED_COLUMNS.items())
        have = [(spec.name, spec.dtype) for spec in self.specs[: len(fixed)]]
        if self.kind in ("samples", "examples") and have != fixed:
            raise ValueError(f"the first columns of {self.kind} are {', '.join(FIXED_COLUMNS)}")
        start = self.objective.frame.decoder_start if self.objective else None
        if isinstance(start, int) and not 0 <= start < self.tokenizer.vocab_size:
            raise ValueError(f"decoder_start {start} is not below the vocabulary's {self.tokenizer.vocab_size}")
        if len(self.shards) != self.totals.shards:
            raise ValueError(f"totals say {self.totals.shards} shards, {len(self.shards)} are listed")
        for key, total in (("rows", self.totals.samples), ("blocks", self.totals.blocks), ("bytes", self.totals.bytes)):
            actual = sum(getattr(shard, key) for shard in self.shards)
            if actual != total:
                raise ValueError(f"the shards have {actual} {key}, totals say {total}")
        if len({shard.path for shard in self.shards}) != len(self.shards):
            raise ValueError(f"{len(self.shards)} shards are listed, one twice")
        return self

    @cached_property
    def specs(self) -> tuple[ColumnSpec, ...]:
        return tuple(column.spec for column in self.columns)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the content that must not change during a run: without time, code, executor and paths."""
        facts = self.model_dump(mode="json")
        keys = ("format", "kind", "grouping", "objective", "variants", "tokenizer", "columns", "block_rows")
        parts: dict[str, Any] = {key: facts[key] for key in keys}
        parts["counts"] = [facts["totals"][key] for key in ("samples", "tokens", "blocks", "shards")]
        parts["shards"] = [shard.sha256 for shard in self.shards]
        parts["index"] = self.index.sha256
        return canonical_sha256(parts)

    @staticmethod
    def load(path: Path | str) -> Manifest:
        """Read and check a manifest, given its path or its folder.

        Raises:
            ConfigurationError: the path is a file or folder of texts, of which no shards were made yet.
            StorageError: there is no manifest.
            ManifestError: it is too large, malformed, or was changed after it was written.
            NewerFormatError: a newer version wrote it.
        """
        path = manifest_path(path)
        try:
            return Manifest.parse(path, read_regular(path, SIZE_LIMIT))
        except (OSError, ManifestError) as error:
            if (problem := _explain_texts(path)) is not None:
                raise ConfigurationError(problem) from error
            if isinstance(error, ManifestError):
                raise
            what = f"{path}: no shard set here, its manifest cannot be read ({error.strerror})"
            raise StorageError(f"{what}{_instead(path)}") from error

    @staticmethod
    def parse(where: Path | str, raw: bytes) -> Manifest:
        """Check the content of a manifest; `where` is its place in messages. Errors are those of `load`."""
        check_entries(where, raw, ENTRY_LIMIT)
        try:
            manifest = Manifest.model_validate_json(raw)
            plain = json.loads(raw)
            text = manifest_text(plain)
        except ValueError as error:
            with suppress(ValueError):  # it may be of a newer version
                plain = parse_json(raw)
                if isinstance(plain, dict) and plain.pop("checksum", "") == canonical_sha256(plain):
                    refuse_newer(where, plain, FORMAT)
            raise ManifestError(
                f"{where}: not a manifest of a shard set: {first_problem(error)}; {repair_of(where)}"
            ) from error
        # The checksum covers what a manifest says; its spelling (`1e-5` or `1E-5`, a key twice) is compared as text.
        if plain.pop("checksum", "") != canonical_sha256(plain) or raw != text.encode():
            raise ManifestError(f"{where}: changed after it was written; {repair_of(where)}")
        return manifest


def manifest_path(path: Path | str) -> Path:
    """Return the manifest's own path, also when its folder was given."""
    path = Path(path)
    return path / "manifest.json" if path.is_dir() and path.name != "manifest.json" else path


# Files of runs, models and tokenizers.
_OURS: Final = frozenset({"config.yaml", "config.json", "plan.json", "vocabulary.json", "index.arrow"})


def _explain_texts(path: Path) -> str | None:
    """Return how to make shards of texts that were given in place of a set; None for a missing or damaged manifest."""
    root, what = path.parent if path.name == "manifest.json" else path, None
    if root == path:
        what = "a file of texts or tables" if path.is_file() else None
    elif root.is_dir() and not path.exists():
        # files, none of them of a shard set, and no folder of Clozeline
        names = {entry.name for entry in root.iterdir() if entry.is_file() and not entry.name.startswith(".")}
        ours = any(any(root.glob(pattern)) for pattern in ("*/manifest.json", "*/*/manifest.json", "*shard-*"))
        what = "a folder of texts or tables" if names and not ours and not _OURS & names else None
    if what is None:
        return None
    return (
        f"{root}: expected a shard set, got {what}; make shards of it: `clozeline pipeline --config recipe:demo "
        f"input={root} output=shards`, then give shards/corrupt/masked_lm/train (`clozeline --help` lists the recipes)"
    )


def _instead(path: Path) -> str:
    """Describe, for a message, what the folder holds instead of a manifest."""
    folder = path.parent
    if path.name != "manifest.json" or not folder.is_dir():
        return ""
    sets = sorted(path.parent for pattern in ("*", "*/*") for path in folder.glob(f"{pattern}/manifest.json"))
    if sets:
        return f"; there are sets in {', '.join(map(str, sets[:3]))}{', ...' if len(sets) > len(sets[:3]) else ''}"
    return "; it is written last: wait until this set is finished" if any(folder.glob("shard-*")) else ""


def canonical_sha256(value: Any) -> str:
    """Return the SHA-256 (hex) of the value as canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def manifest_text(plain: Mapping[str, Any]) -> str:
    """Return the only text that a manifest with this content may have; ValueError for NaN and infinity."""
    return json.dumps(plain, indent=1, sort_keys=True, allow_nan=False) + "\n"


def first_problem(error: Exception) -> str:
    """Return the first of the validation errors as one line."""
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the whole"
        return f"{where}: {problem['msg'].removeprefix('Value error, ')}"
    return str(error)
