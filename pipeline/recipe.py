"""A recipe: the one YAML file that says what a pipeline run reads, does and writes.

A stage runs if the recipe has its key. `input` and `output` belong to the entire recipe: a stage
writes `output/<stage>/` and reads the nearest earlier stage that wrote what it needs.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import field, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, GetCoreSchemaHandler, SerializerFunctionWrapHandler
from pydantic.functional_serializers import model_serializer
from pydantic.functional_validators import BeforeValidator
from pydantic_core import CoreSchema, core_schema

from clozeline.configuration.config import (
    HOME_EXPANDED,
    adapter_of,
    config_class,
    load_config,
    load_keys,
    read_mapping,
    to_data,
    validate,
    yaml_text,
)
from clozeline.configuration.described_keys import Common
from clozeline.configuration.named_algorithms import IsName
from clozeline.errors import ConfigurationError
from clozeline.pipeline import all_stages, stage_module
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.ingest.documents.chapters import ChapterSplit
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.reader_options import check_options
from clozeline.pipeline.registries import EXECUTORS, ExecutorComponent
from clozeline.pipeline.text.language_codes import require_code

_CORPUS: Final = "default"
"""Name of the corpus of a stage that runs without a recipe."""


def load_stage_part(stage: str, part: str) -> Any:
    """Return what a stage holds under its own name: `DedupConfig` for `dedup` and `Config`.

    A stage whose work imports large libraries has its keys in a `config.py`, so that a recipe is
    checked without them.
    """
    light = stage_module(stage, "config")
    apart = part == "Config" and find_spec(light) is not None
    module = importlib.import_module(light if apart else stage_module(stage))
    return getattr(module, "".join(map(str.capitalize, stage.split("_"))) + part)


@config_class
class InputEntry:
    """Files of one source and how to read them."""

    WORD: ClassVar = "path"

    path: Annotated[str | list[str], HOME_EXPANDED, Common()]
    """file, folder or glob (`**` descends), a URL of a file or of a glob, or a list of them"""
    reader: Annotated[Annotated[str, IsName()] | None, Common()] = None
    """name of a reader; default: found by magic bytes, then by extension"""
    source: Annotated[str, Common()] = "default"
    """label of this source: filters, reports and mixtures go by it; part of the document uid"""
    language: str | None = None
    """language code of all documents; default: identified per document"""
    target_language: str | None = None
    """language code of the other sides of pairs; default: `und`"""
    split: ChapterSplit | None = None
    """chapters of books as documents of their own: `{pattern: "^CHAPTER ", min_words: 50}`"""
    store: StoreOptions | None = None
    """requests to the store of a URL: `{retries, timeout_s, fsspec}`"""
    options: Annotated[dict[str, Any], Field(exclude=True)] = field(default_factory=dict)
    """options of the reader; a recipe gives them next to the keys above"""

    def __post_init__(self) -> None:
        try:
            check_options(self.options, None if self.reader is None else [self.reader], _INPUT_KEYS)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        require_code("language", self.language)
        require_code("target_language", self.target_language)

    @model_serializer(mode="wrap")
    def _with_options(self, plain: SerializerFunctionWrapHandler) -> dict[str, object]:
        values = {**plain(self), **self.options}
        return {
            key: value
            for key, value in values.items()
            if value is not None or key not in ("split", "store")
        }


_INPUT_KEYS: Final = tuple(name for name in InputEntry.__dataclass_fields__ if name != "options")


@config_class
class ExecutorConfig:
    """Distribution of units over processes; the output does not depend on it."""

    name: Annotated[str, IsName(), Common()] = "local"
    """executor of tasks: `local`, processes of this machine; `slurm`, array jobs; `ray`, actors of
    a cluster"""
    tasks: Annotated[int, Field(ge=1), Common()] = 1
    """tasks that a pass is dealt to, ≥ 1; task r of n runs units r, r + n, ..."""
    workers: Annotated[Annotated[int, Field(ge=1)] | None, Common()] = None
    """tasks at a time, ≥ 1; default: min(tasks, CPU cores) for `local`, all that the cluster lets
    run for the others"""
    retries: Annotated[int, Field(ge=0)] = 1
    """times that a unit is tried again after its process died, ≥ 0; a unit whose data is at fault
    is not tried again"""
    options: dict[str, Any] = field(default_factory=dict)
    """options of the executor, such as the partition of Slurm"""

    def __post_init__(self) -> None:
        try:
            self.chosen()
        except ConfigurationError as error:
            raise ValueError(f"executor.options: {error}") from error

    def chosen(self) -> ExecutorComponent:
        """Return the executor with its validated options."""
        return EXECUTORS.resolve({**self.options, "name": self.name})


@config_class
class PlanConfig:
    """Sizes of units, into which inputs are cut, and of shards."""

    unit_bytes: Annotated[int, Field(ge=4096)] | None = None
    """largest input range of a unit in bytes, where the format can be split; consecutive small
    files share a unit up to it; ≥ 4096; default: the larger one of 256 MiB and 1/8,192 of the
    input"""
    shard_bytes: Annotated[int, Field(ge=4096)] | None = None
    """input bytes per shard; the number of shards is ceil(bytes / shard_bytes); ≥ 4096; default: as
    for `unit_bytes`"""


@config_class
class OnError:
    """Treatment of damaged input."""

    truncated: Literal["fail", "accept"] = "accept"
    """`accept` keeps what a truncated file still gives and counts the loss; `fail` fails its
    unit"""


@config_class
class HeldoutConfig:
    """Held-out documents, chosen by a keyed hash of their uid."""

    fraction: Annotated[float, Field(ge=0, lt=1), Common()] = 0.01
    """share of documents, 0 to 1; 0 makes no held-out set"""


class _StageConfig:
    """Annotation of a stage's key. Its config class is imported when the key is read."""

    def __init__(self, stage: str) -> None:
        self.stage = stage

    def schema(self) -> Any:
        return load_stage_part(self.stage, "Config")

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        serializer = core_schema.plain_serializer_function_ser_schema(self._plain)
        return core_schema.no_info_plain_validator_function(
            self._validate, serialization=serializer
        )

    def _validate(self, value: object) -> object:
        try:
            return None if value is None else validate(self.schema(), value, "", f"{self.stage}.")
        except ConfigurationError as error:
            raise ValueError(str(error)) from error

    def _plain(self, value: Any) -> Any:
        return (
            None
            if value is None
            else adapter_of(self.schema()).dump_python(value, mode="json", by_alias=True)
        )


def _entries(value: object) -> Any:
    """Return entries with the options of their readers apart."""
    items = value if isinstance(value, list) else [value]
    entries = [{"path": item} if isinstance(item, str) else item for item in items]
    for number, entry in enumerate(entries):
        if isinstance(entry, Mapping):
            declared = {key: value for key, value in entry.items() if key in _INPUT_KEYS}
            options = {key: value for key, value in entry.items() if key not in declared}
            entries[number] = {**declared, "options": options}
    return entries


@config_class
class Recipe:
    """Configuration of a pipeline run."""

    PART: ClassVar = "pipeline"

    corpus: Annotated[str, Common()]
    """name of the corpus; part of every document uid: never change it after the first run"""
    seed: Annotated[int, Field(ge=0, lt=1 << 63), Common()] = 1
    """seed of every random choice of the pipeline"""
    input: Annotated[list[InputEntry], BeforeValidator(_entries), Common()] = field(
        default_factory=list
    )
    """data to read: path, glob, or entries with a reader and a source"""
    output: Annotated[Path | None, HOME_EXPANDED, Common()] = None
    """folder to write; each stage has its own below it"""
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    plan_options: Annotated[PlanConfig, Field(alias="plan")] = field(default_factory=PlanConfig)
    limits: InputLimits = field(default_factory=InputLimits)
    on_error: OnError = field(default_factory=OnError)
    heldout: HeldoutConfig = field(default_factory=HeldoutConfig)
    limit: Annotated[Annotated[int, Field(ge=1)] | None, Common()] = None
    """documents of a preview: the first of each unit, about as many of each; the same decisions as
    in the complete run, which needs another `output`"""
    keep_intermediates: bool = False
    """keep the `tmp/` folder of each stage"""
    # A key for each stage, null where the recipe leaves the stage out; its class is in the stage's
    # folder.
    __annotations__.update(
        {stage: Annotated[Any, _StageConfig(stage)] for stage in sorted(all_stages())}
    )
    locals().update(dict.fromkeys(sorted(all_stages())))

    def has(self, stage: str) -> bool:
        return getattr(self, stage) is not None

    def config_of(self, stage: str) -> Any:
        """Return the value of a stage's key; ConfigurationError if the recipe does not have the key."""
        if not self.has(stage):
            raise ConfigurationError(f"the recipe has no key '{stage}'")
        return getattr(self, stage)

    @property
    def output_folder(self) -> Path:
        """The folder of the run."""
        if self.output is None:
            raise ConfigurationError(
                "no output folder: add output=DIR to the command, or `output:` to the recipe"
            )
        return self.output

    def folder(self, stage: str) -> Path:
        return self.output_folder / stage


def load_recipe(path: Path, overrides: Sequence[str] = (), *, is_users: bool = False) -> Recipe:
    """Read and validate a recipe, the user's own or that of a run; see `load_config`."""
    return load_config(Recipe, path, overrides, is_users=is_users)


def load_default_recipe(stage: str, overrides: Sequence[str]) -> tuple[Recipe, str]:
    """Return the recipe of one stage on its defaults, with overrides, and a line that says what it is.

    An output folder in which an earlier stage ran has a recipe: its keys stay, for uids and digests
    depend on them. ConfigurationError if the stage has a key without a default that the overrides
    do not give.
    """
    # a list of algorithms has no defaults
    defaults: dict[str, object] = (
        {stage: {}} if is_dataclass(load_stage_part(stage, "Config")) else {}
    )
    recipe = load_keys(Recipe, {"corpus": _CORPUS, **defaults}, overrides)
    note = (
        f"{stage} runs on its defaults, corpus={recipe.corpus}; `clozeline {stage} --help` lists "
        "them"
    )
    before = all_stages()[: all_stages().index(stage)]
    stored = (
        [recipe.folder(name) / "config.yaml" for name in reversed(before)]
        if recipe.output is not None
        else []
    )
    if (path := next((path for path in stored if path.is_file()), None)) is not None:
        keys = read_mapping(path)
        has_stage = keys.get(stage) is not None
        recipe = load_keys(Recipe, keys if has_stage else {**keys, **defaults}, overrides)
        note = f"the recipe of {path}{'' if has_stage else f', and the defaults of {stage}'}"
    if not recipe.has(stage):
        raise ConfigurationError(
            f"{stage}: has no defaults: name what it makes, such as {stage}=[NAME], or give "
            "--config"
        )
    return recipe, f"no --config: {note}"


def recipe_text(recipe: Recipe) -> str:
    """Return a recipe as YAML without its secrets: the keys of stages last, in the order they run."""
    plain = to_data(recipe)
    stages = {name: plain.pop(name) for name in all_stages()}
    return yaml_text({**plain, **stages})
