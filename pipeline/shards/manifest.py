"""Read and check `manifest.json`, which describes a shard set.

It is written last: a folder without it is not a shard set.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
)
from pydantic.functional_serializers import PlainSerializer
from pydantic.functional_validators import AfterValidator, PlainValidator, model_validator

from clozeline.checksummed_json import refuse_newer
from clozeline.columns import Role
from clozeline.configuration.paths import local_path
from clozeline.errors import IntegrityError, StorageError
from clozeline.files import open_regular, parse_json
from clozeline.pipeline.block_options import Codec, Container
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.rows import FIXED_COLUMNS
from clozeline.pipeline.shards.block import ColumnSpec
from clozeline.repair import rebuild_hint

FORMAT: Final = 1
SIZE_LIMIT: Final = 64 << 20
"""Size limit of a manifest, in bytes."""
ENTRY_LIMIT: Final = 1 << 20
"""Limit of entries in a manifest."""
SHARD_LIMIT: Final = 100_000
"""Limit of shards in a set, which use half of the entries."""
BLOCK_LIMIT: Final = 1 << 30
"""Limit of the decompressed bytes of a block, whatever a manifest claims."""

# Empty, '.' or '..' parts; scheme, backslash, control characters.
_FORBIDDEN_IN_PATH: Final = re.compile(r"(^|/)(\.{0,2})(/|$)|[\\:\x00-\x1f]")


class ManifestError(IntegrityError):
    """A manifest or its index cannot be read, or contradicts the files next to it."""


def read_regular(path: Path, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes."""
    with open_regular(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > limit:
            raise ManifestError(f"{path}: {size} bytes, the limit is {limit}; {rebuild_hint(path)}")
        content: bytes = file.read(size)
    return content


def check_entries(where: Path | str, raw: bytes, limit: int) -> None:
    """Raise ManifestError if JSON has more than `limit` entries, before they take memory."""
    if (entries := raw.count(b",")) > limit:  # commas in strings count too
        raise ManifestError(
            f"{where}: about {entries} entries, the limit is {limit}; {rebuild_hint(where)}"
        )


def _check_path(path: str) -> str:
    if _FORBIDDEN_IN_PATH.search(path):
        raise ValueError(f"path {path!r} must be relative, without '..', scheme or backslash")
    return path


_Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
_RelativePath: TypeAlias = Annotated[
    str,
    AfterValidator(_check_path),
    Field(json_schema_extra={"not": {"pattern": _FORBIDDEN_IN_PATH.pattern}}),
]
_Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Strict(BaseModel):
    """Base of parsed files: unknown keys and type conversions are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


if TYPE_CHECKING:
    _OwnOptions: TypeAlias = object
else:
    _OwnOptions = dict[str, Any]


class _AlgorithmRecord(Strict):
    name: str
    options: _OwnOptions = Field(default_factory=dict)
    """read by the algorithm alone"""

    def entry(self) -> dict[str, Any]:
        """Return name and options, as in a configuration."""
        return {"name": self.name, **cast(dict[str, Any], self.options)}


class ObjectiveRecord(_AlgorithmRecord):
    """The objective that made an example set; others ask `frame` what its rows look like."""

    label: str
    architecture: Literal["encoder", "decoder", "encoder_decoder"]
    heads: tuple[str, ...]
    frame: RowForm

    @property
    def continues_text(self) -> bool:
        """Whether a model of its rows continues a text, which it does not read as an input."""
        return self.architecture == "decoder" or self.frame.continues_text


class GroupingRecord(_AlgorithmRecord):
    """The grouping that made the rows."""


class TokenizerRecord(Strict):
    """The tokenizer whose ids the set holds."""

    name: str
    fingerprint: str
    vocab_size: int = Field(ge=1, lt=2**32)
    special_ids: dict[str, int]
    sentinels: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _check_ids(self) -> TokenizerRecord:
        for token in (*self.special_ids.values(), *self.sentinels):
            if not 0 <= token < self.vocab_size:
                raise ValueError(
                    f"special id {token} is not below the vocabulary's {self.vocab_size}"
                )
        return self


def _parse_column(entry: Any) -> ColumnSpec:
    try:
        return ColumnSpec.parse(**entry)
    except (TypeError, IntegrityError) as error:  # unknown keys, or an unknown type
        raise ValueError(str(error)) from error


class _ColumnSchema:
    """Annotation that takes the JSON Schema of a column from its class."""

    def __get_pydantic_json_schema__(self, *_: object) -> dict[str, Any]:
        return ColumnSpec.json_schema()


_Column: TypeAlias = Annotated[
    ColumnSpec,
    PlainValidator(_parse_column),
    PlainSerializer(ColumnSpec.as_dict),
    _ColumnSchema(),
]


class CompressionRecord(Strict):
    """Compression of each buffer."""

    codec: Codec
    level: int | None = None

    def __str__(self) -> str:
        return "uncompressed" if self.codec == "none" else f"{self.codec} {self.level}"


class Totals(Strict):
    """Sums over all shards; `tokens` counts the values of the first column of ids."""

    samples: _Count
    tokens: _Count
    blocks: _Count
    shards: _Count
    bytes: _Count
    tokens_by_language: dict[str, _Count] = Field(default_factory=dict)
    tokens_by_source: dict[str, _Count] = Field(default_factory=dict)
    skipped: dict[str, _Count] = Field(default_factory=dict)


class ShardRecord(Strict):
    """One shard file."""

    path: _RelativePath
    bytes: _Count
    sha256: str
    blocks: _Count
    rows: _Count


class SetFileRecord(Strict):
    """A file next to the shards."""

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


class Manifest(Strict):
    """Metadata of a shard set, which readers need before they read blocks."""

    format: int = Field(ge=1, le=FORMAT)
    name: str = Field(min_length=1)
    kind: Literal["tokens", "samples", "examples", "columns"]
    """`columns`: further columns for the rows of another set, its parent"""
    grouping: GroupingRecord | None = None
    objective: ObjectiveRecord | None = None
    variants: int = Field(default=1, ge=1, le=65536)
    seed: _Count
    tokenizer: TokenizerRecord
    columns: tuple[_Column, ...] = Field(min_length=1)
    languages: tuple[str, ...] = Field(default=(), max_length=255)
    """Names of the `language` codes, in order."""
    source_groups: tuple[str, ...] = Field(default=(), max_length=65535)
    """Names of the `source_group` codes of a token set, in order."""
    max_length: _Count
    block_rows: int = Field(ge=1, lt=2**31)
    max_block_bytes: int = Field(ge=0, le=BLOCK_LIMIT)
    container: Container
    compression: CompressionRecord
    totals: Totals
    index: SetFileRecord
    token_counts: SetFileRecord | None = None
    """How often each id occurs in the training documents of the corpus; None: unknown."""
    shards: Annotated[tuple[ShardRecord, ...], FailFast(), Field(max_length=SHARD_LIMIT)]
    parents: tuple[Parent, ...] = Field(default=(), max_length=1000)
    code: Code
    config: dict[str, Any] = Field(default_factory=dict)
    checksum: str = ""
    """SHA-256 of the manifest without this key, so that a flipped bit is detected."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Manifest:
        if len({column.name for column in self.columns}) < len(self.columns):
            raise ValueError("columns: a column is listed twice")

        if (self.objective is None) == (self.kind == "examples"):
            raise ValueError(
                f"a set of {self.kind} must have {'no' if self.objective else 'an'} objective"
            )

        fixed = list(FIXED_COLUMNS.items())
        have = [(spec.name, spec.dtype) for spec in self.columns[: len(fixed)]]
        if self.kind in ("samples", "examples") and have != fixed:
            raise ValueError(f"the first columns of {self.kind} must be {', '.join(FIXED_COLUMNS)}")
        for name, role in self.roles.items() if self.kind != "columns" else ():
            if role.of and role.of not in self.roles:
                raise ValueError(
                    f"columns: {name} is the {role}, but there is no list column {role.of}"
                )

        start = self.objective.frame.decoder_start if self.objective else None
        if isinstance(start, int) and not 0 <= start < self.tokenizer.vocab_size:
            raise ValueError(
                f"decoder_start {start} is not below the vocabulary's {self.tokenizer.vocab_size}"
            )

        sums = {
            key: sum(getattr(shard, key) for shard in self.shards)
            for key in ("rows", "blocks", "bytes")
        }
        totals = {
            "rows": self.totals.samples,
            "blocks": self.totals.blocks,
            "bytes": self.totals.bytes,
        }
        if sums != totals or len(self.shards) != self.totals.shards:
            raise ValueError(
                f"{len(self.shards)} shards have {sums}, but the totals are {self.totals.shards} "
                f"shards with {totals}"
            )

        if len({shard.path for shard in self.shards}) != len(self.shards):
            raise ValueError(f"one of the {len(self.shards)} shards is listed twice")
        return self

    @property
    def roles(self) -> dict[str, Role]:
        """Roles of the list columns by name, in file order."""
        return {column.name: column.role for column in self.columns if column.role is not None}

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the content that must not change during a run.

        Time, code, executor and paths do not count.
        """
        content = self.model_dump(mode="json")
        keys = (
            "format",
            "kind",
            "grouping",
            "objective",
            "variants",
            "tokenizer",
            "columns",
            "block_rows",
        )

        parts: dict[str, object] = {key: content[key] for key in keys}
        parts["counts"] = [
            content["totals"][key] for key in ("samples", "tokens", "blocks", "shards")
        ]
        parts["shards"] = [shard.sha256 for shard in self.shards]
        parts["index"] = self.index.sha256
        return canonical_sha256(parts)

    @staticmethod
    def load(path: Path | str) -> Manifest:
        """Read and check a manifest, given its path or its folder.

        Raises:
            StorageError: there is no manifest.
            ManifestError: it is too large, malformed, or has changed since it was written.
            NewerFormatError: a newer version wrote it.
        """
        path = manifest_path(path)
        try:
            return Manifest.parse(path, read_regular(path, SIZE_LIMIT))
        except OSError as error:
            message = f"{path}: not a shard set: its manifest cannot be read ({error.strerror})"
            raise StorageError(f"{message}{_describe_folder(path)}") from error
        except ManifestError as error:
            if path.name == "manifest.json":
                raise
            raise ManifestError(f"{error}{_explain_pipeline(path)}") from error

    @staticmethod
    def parse(where: Path | str, raw: bytes) -> Manifest:
        """Parse and check the content of a manifest; messages name it by `where`.

        Errors are those of `load`.
        """
        check_entries(where, raw, ENTRY_LIMIT)

        try:
            content = parse_json(raw)
            # The checksum covers the content. Its text (`1e-5` or `1E-5`, a repeated key) is
            # compared too.
            intact = isinstance(content, dict) and raw == manifest_text(content).encode()
            if intact := intact and content.pop("checksum", "") == canonical_sha256(content):
                refuse_newer(where, content, FORMAT)
            manifest = Manifest.model_validate_json(raw)
        except (ValueError, RecursionError) as error:
            raise ManifestError(
                f"{where}: not the manifest of a shard set: {first_problem(error)}; "
                f"{rebuild_hint(where)}"
            ) from error

        if not intact:
            raise ManifestError(
                f"{where}: it has changed since it was written; {rebuild_hint(where)}"
            )

        return manifest


def manifest_path(path: Path | str) -> Path:
    """Return the path of a manifest, given its path or its folder."""
    path = Path(path)
    return path / "manifest.json" if path.is_dir() and path.name != "manifest.json" else path


def folders_beside(path: Path) -> list[Path]:
    """Return where the neighbors of a set are.

    That is the folder above its own one, as the path is given, and with symbolic links resolved.
    """
    given = local_path(path).absolute()
    folder = given.parent if given.is_file() or given.name == "manifest.json" else given
    return list(dict.fromkeys((folder.parent, folder.resolve().parent)))


def _describe_folder(path: Path) -> str:
    """Return the end of a message: what the folder holds instead of a manifest."""
    folder = path.parent
    if path.name != "manifest.json":
        return ""
    if sets := sorted(
        str(path.parent) for depth in ("*", "*/*") for path in folder.glob(f"{depth}/manifest.json")
    ):
        return f"; there are sets in {', '.join(sets[:3])}{', ...' if len(sets) > 3 else ''}"

    if any(folder.glob("shard-*")):
        return "; it is written last: wait until this set is finished"
    for above in () if folder.exists() else folder.absolute().parents:
        if (recipe := above / "pipeline.yaml").is_file():  # of `clozeline new`
            command = f"clozeline pipeline --config {shlex.quote(str(recipe))}"
            return f"; there are no shards yet: first `{command}`"
    return (
        _explain_pipeline(folder) if any(entry.is_file() for entry in folder.glob("[!.]*")) else ""
    )


def _explain_pipeline(texts: Path) -> str:
    return (
        "; if these are texts or tables, make shards of them: `clozeline pipeline --config "
        f"recipe:demo input={texts} output=shards`, then give shards/corrupt/masked_lm/train "
        "(`clozeline --help` lists the recipes)"
    )


def canonical_sha256(value: Any) -> str:
    """Return the SHA-256 (hex) of the value as canonical JSON."""
    return hashlib.sha256(
        json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def manifest_text(content: Mapping[str, object]) -> str:
    """Return the only valid text of a manifest with this content.

    ValueError for NaN and infinity.
    """
    return json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n"


def first_problem(error: Exception) -> str:
    """Return the first validation error in one line."""
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the manifest"
        return f"{where}: {problem['msg'].removeprefix('Value error, ')}"
    return str(error)
