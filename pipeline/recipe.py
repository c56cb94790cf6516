"""A recipe: the one YAML file that says what a pipeline run reads, does and writes.

A stage whose key is absent is left out. `input` and `output` always mean the recipe's; a stage writes
`output/<stage>/` and reads the nearest earlier stage that holds what it needs.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, TypeAdapter
from pydantic.dataclasses import dataclass
from pydantic_core import CoreSchema, core_schema

from pipeline.config import STRICT, load_config, validate
from pipeline.errors import ConfigurationError
from pipeline.formats.limits import Limits

__all__ = ["STAGES", "ExecutorConfig", "InputEntry", "Recipe", "load_recipe"]

STAGES: Final = ("clean", "dedup", "train_tokenizer", "encode", "group", "corrupt")
"""All stages in the order they run."""

_NEEDS: Final = {
    "dedup": ("clean",),
    "train_tokenizer": ("clean",),
    "encode": ("clean", "train_tokenizer"),
    "group": ("encode",),
    "corrupt": ("group",),
}
"""What a stage reads."""

_HOLDS_DOCUMENTS: Final = ("clean", "dedup")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class InputEntry:
    """Files of one source and how to read them."""

    path: str | list[str]
    """file, folder or glob (`**` descends), or a list of them"""
    reader: str | None = None
    """name of a reader; default: found by magic bytes, then by extension"""
    source: str = "default"
    """label of this source: filters, reports and mixtures go by it; part of the document uid"""
    language: str | None = None
    """language code of all documents; default: identified per document"""
    target_language: str | None = None
    """language code of the other sides of pairs; default: `und`"""
    target_path: str | None = None
    """file with the other sides of pairs, line by line (moses)"""
    columns: list[str] | None = None
    """names of the columns in their order (tsv); default: text, target_text"""
    text_key: str = "text"
    """field or column that holds the text (jsonl, parquet)"""
    url_key: str = "url"
    """field or column that holds the address (jsonl, parquet)"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ExecutorConfig:
    """How units are spread over processes; never changes a byte of the output."""

    tasks: Annotated[int, Field(ge=1)] = 1
    """tasks that a pass is dealt to, ≥ 1; task r of n runs units r, r + n, ..."""
    workers: Annotated[int, Field(ge=1)] | None = None
    """processes at a time, ≥ 1; default: min(tasks, CPU cores)"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PlanConfig:
    """How inputs are cut into units and outputs into shards."""

    unit_bytes: Annotated[int, Field(ge=4096)] = 1 << 28
    """largest input range of a unit in bytes, where the format can be split; ≥ 4096"""
    shard_bytes: Annotated[int, Field(ge=4096)] = 1 << 28
    """input bytes per shard; the number of shards is ceil(bytes / shard_bytes); ≥ 4096"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class OnError:
    """What to do when input is damaged."""

    truncated: Literal["fail", "accept"] = "accept"
    """`accept` keeps what a truncated file still gives and counts the loss; `fail` fails its unit"""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class HeldoutConfig:
    """Documents kept out of training, chosen by a keyed word of their uid."""

    fraction: Annotated[float, Field(ge=0, lt=1)] = 0.01
    """share of documents, 0 to 1; 0 makes no held-out set"""


class _StageConfig:
    """Annotation of a stage's key: its config class stands in `pipeline/<stage>/stage.py`, imported when needed."""

    def __init__(self, stage: str) -> None:
        self.stage = stage

    def schema(self) -> Any:
        module = importlib.import_module(f"pipeline.{self.stage}.stage")
        return getattr(module, f"{camel(self.stage)}Config")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        serializer = core_schema.plain_serializer_function_ser_schema(self._plain)
        return core_schema.no_info_plain_validator_function(self._validate, serialization=serializer)

    def _validate(self, value: Any) -> Any:
        try:
            return None if value is None else validate(self.schema(), value, "", f"{self.stage}.")
        except ConfigurationError as error:
            raise ValueError(str(error)) from error

    def _plain(self, value: Any) -> Any:
        return None if value is None else TypeAdapter(self.schema()).dump_python(value, mode="json", by_alias=True)


def camel(name: str) -> str:
    """`train_tokenizer` to `TrainTokenizer`."""
    return "".join(part.capitalize() for part in name.split("_"))


def _entries(value: Any) -> Any:
    """`input: FILE`, a list of files, one entry or a list of entries: all become a list of entries."""
    items = value if isinstance(value, list) else [value]
    return [{"path": item} if isinstance(item, str) else item for item in items]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Recipe:
    """Everything a run of the pipeline is decided by."""

    corpus: str
    """name of the corpus; part of every document uid: never change it after the first run"""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    """seed of every random choice of the pipeline"""
    input: Annotated[list[InputEntry], BeforeValidator(_entries)] = field(default_factory=list)
    """what to read: path, glob, or entries with a reader and a source"""
    output: Path | None = None
    """folder to write; each stage has its own below it"""
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    plan_options: Annotated[PlanConfig, Field(alias="plan")] = field(default_factory=PlanConfig)
    limits: Limits = field(default_factory=Limits)
    on_error: OnError = field(default_factory=OnError)
    heldout: HeldoutConfig = field(default_factory=HeldoutConfig)
    keep_intermediates: bool = False
    """keep the `tmp/` folder of each stage"""
    clean: Annotated[Any, _StageConfig("clean")] = None
    dedup: Annotated[Any, _StageConfig("dedup")] = None
    train_tokenizer: Annotated[Any, _StageConfig("train_tokenizer")] = None
    encode: Annotated[Any, _StageConfig("encode")] = None
    group: Annotated[Any, _StageConfig("group")] = None
    corrupt: Annotated[Any, _StageConfig("corrupt")] = None

    def check_needs(self) -> None:
        """Refuse a stage whose input no other stage of the recipe writes, before any of them has run."""
        for stage in self.stages:
            for key in _NEEDS.get(stage, ()):
                if key not in self.stages:
                    raise ConfigurationError(
                        f"the recipe's key '{stage}' needs the key '{key}' too; `{key}: {{}}` takes its defaults"
                    )

    @property
    def stages(self) -> list[str]:
        """Stages of this recipe, in the order they run."""
        return [name for name in STAGES if getattr(self, name) is not None]

    def folder(self, stage: str) -> Path:
        """Where a stage writes."""
        if self.output is None:
            raise ConfigurationError("no output folder: add output=DIR to the command, or `output:` to the recipe")
        return self.output / stage

    def documents_folder(self, before: str) -> Path:
        """Folder of the nearest earlier stage of the recipe that holds documents."""
        earlier = self.stages[: self.stages.index(before)] if before in self.stages else self.stages
        for name in reversed(earlier):
            if name in _HOLDS_DOCUMENTS:
                return self.folder(name)
        raise ConfigurationError(f"'{before}' needs documents, but the recipe has no earlier stage that writes them")


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read and validate a recipe."""
    return load_config(Recipe, path, overrides)
