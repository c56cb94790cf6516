"""The recipe of a pipeline run: a YAML file that names its input, its stages and its output.

A stage runs if the recipe has its key. `input` and `output` belong to the entire recipe: a stage
writes `output/<stage>/`, and reads the nearest earlier stage with the files that it needs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, SerializerFunctionWrapHandler
from pydantic.functional_serializers import model_serializer
from pydantic.functional_validators import BeforeValidator

from clozeline.configuration.added_keys import AddedKey, Extensible, add_keys
from clozeline.configuration.config import (
    HOME_EXPANDED,
    LocalPath,
    Natural,
    Positive,
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
from clozeline.configuration.overrides import fields_of
from clozeline.configuration.paths import OutputPath
from clozeline.errors import ConfigurationError
from clozeline.foreign_code import import_module
from clozeline.pipeline import all_stages, hidden_stages, is_of_extension, stage_file, stage_module
from clozeline.pipeline.block_options import StoreOptions
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.reader_options import check_options, select_options
from clozeline.pipeline.registries import EXECUTORS, READERS, ExecutorComponent
from clozeline.pipeline.text.language_codes import require_code
from clozeline.registry import options_of

if TYPE_CHECKING:  # the readers import what finds encodings, which a command line does not need
    from clozeline.pipeline.ingest.readers import Reader
    from clozeline.pipeline.ingest.readers._read_task import ReadTask

_CORPUS: Final = "default"
"""name of the corpus if a stage runs without a recipe"""


def load_stage_part(stage: str, part: str) -> Any:
    """Load a class of a stage: `DedupConfig` for the stage `dedup` and the part `Config`.

    If a stage imports large libraries, its keys are in a separate `config.py`, so that checking a
    recipe does not import them.
    """
    is_separate = part == "Config" and stage_file(stage).with_name("config.py").is_file()
    module = import_module(stage_module(stage, "config" if is_separate else "stage"))
    return getattr(module, "".join(map(str.capitalize, stage.split("_"))) + part)


@config_class
class InputEntry:
    """Files of one source, and how to read them."""

    SHORTHAND_KEY: ClassVar = "path"
    OPTIONS_OF: ClassVar = ("reader", READERS)

    path: Annotated[str | list[str], HOME_EXPANDED, Common()] = field(default_factory=list)
    """file, folder or glob (`**` descends), a URL of a file or of a glob, or a list of these"""
    reader: Annotated[str | None, Common()] = None
    """name of a reader; default: chosen by the first bytes of a file, then by its extension"""
    source: Annotated[str, Common()] = "default"
    """label of this source for filters, reports and mixtures; part of the document uid"""
    language: str | None = None
    """language code of all documents; default: identified for each document"""
    target_language: str | None = None
    """language code of the other sides of pairs; default: `und`"""
    role: Literal["compare"] | None = None
    """`compare`: `dedup` removes what equals or resembles these documents, and writes none"""
    store: StoreOptions | None = None
    """requests to the store of a URL: `{retries, timeout_s, fsspec}`"""
    options: Annotated[dict[str, Any], Field(exclude=True)] = field(default_factory=dict)
    """options of the reader; in a recipe they are next to the keys above"""

    def __post_init__(self) -> None:
        try:
            fetches = self._find_fetching_reader() is not None
            if bool(self.path) == fetches:
                expected = (
                    f"no `path`: {self.reader} reads no files" if fetches else "the key `path`"
                )
                raise ConfigurationError(f"expected {expected}")
            check_options(self.options, None if self.reader is None else [self.reader], _INPUT_KEYS)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        require_code("language", self.language)
        require_code("target_language", self.target_language)

    def _find_fetching_reader(self) -> "type[Reader] | None":
        """Return the class of a reader that fetches its documents; None if files are read."""
        reader = None if self.reader is None else READERS.load_class(self.reader)
        return None if reader is None or reader.reads_files else reader

    def read_tasks(self) -> "Sequence[ReadTask]":
        """Return the tasks of a reader that fetches its documents; empty for other readers."""
        if self.reader is None or (reader := self._find_fetching_reader()) is None:
            return ()
        keys = select_options(self.reader, self.options)
        return reader.list_tasks(validate(options_of(reader), keys, f"reader {self.reader}"))

    @property
    def paths(self) -> list[str]:
        """Paths of the files, folders, globs and URLs."""
        return [self.path] if isinstance(self.path, str) else self.path

    @property
    def keeps_documents(self) -> bool:
        """Whether the files hold exported documents, which keep their uids and `source` labels."""
        return bool(self.options.get("exported"))

    @model_serializer(mode="wrap")
    def _with_options(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        values = {**serialize(self), **self.options}
        return {
            key: value
            for key, value in values.items()
            if value is not None or key not in ("role", "store")
        }


_INPUT_KEYS: Final = tuple(fields_of(InputEntry))


def _separate_options(value: object) -> Any:
    """Return input entries whose reader options are moved to the key `options`."""
    items = value if isinstance(value, list) else [value]
    entries = [{"path": item} if isinstance(item, str) else item for item in items]
    for number, entry in enumerate(entries):
        if isinstance(entry, Mapping):
            declared = {key: value for key, value in entry.items() if key in _INPUT_KEYS}
            options = {key: value for key, value in entry.items() if key not in declared}
            entries[number] = {**declared, "options": options}
    return entries


Inputs: TypeAlias = Annotated[list[InputEntry], BeforeValidator(_separate_options)]
"""Inputs of a recipe; one, or the path of one, may stand for a list."""


@config_class
class ExecutorConfig:
    """How units of work run in processes; the output does not depend on it."""

    name: Annotated[str, IsName(), Common()] = "local"
    """`local`: processes on this machine; `slurm`: array jobs; `ray`: actors of a cluster;
    `external`: workers that you start, see `clozeline work --help`"""
    workers: Annotated[Positive | None, Common()] = None
    """processes that work at the same time, ≥ 1; default: for `local` one per core that this
    process may use, for others as many as the cluster runs"""
    tasks: Annotated[Positive | None, Common()] = None
    """`slurm`, `ray`: tasks that share the units of a pass, ≥ 1; task r of n runs units r, r + n,
    ...; default: 1"""
    retries: Natural = 1
    """retries of a unit after its process died, ≥ 0; a unit that fails because of its data is not
    retried"""
    options: dict[str, Any] = field(default_factory=dict)
    """options of the executor, such as the partition of Slurm"""

    def __post_init__(self) -> None:
        try:
            has_tasks = self.component().type.has_tasks
        except ConfigurationError as error:
            raise ValueError(f"executor.options: {error}") from error
        if self.tasks is not None and not has_tasks:
            raise ValueError(f"tasks: executor.name={self.name} has none: set executor.workers")

    def component(self) -> ExecutorComponent:
        """Return the executor with its validated options."""
        return EXECUTORS.resolve({**self.options, "name": self.name})


@config_class
class PlanConfig:
    """Sizes of the units that inputs are split into, and of shards."""

    unit_bytes: Annotated[int, Field(ge=4096)] | None = None
    """largest input of a unit in bytes, ≥ 4096, if the format can be split; many small files share
    units; default: 32 MiB, or about 1/8,192 of a large input"""
    shard_bytes: Annotated[int, Field(ge=4096)] | None = None
    """input bytes per shard, ≥ 4096; the number of shards is bytes / shard_bytes, rounded up to a
    power of two, so that it changes seldom while a corpus grows; default: 256 MiB, or about 1/8,192
    of a large input"""


@config_class
class OnError:
    """Treatment of damaged input."""

    truncated: Literal["fail", "accept"] = "accept"
    """`accept`: read a truncated file as far as possible, and count the loss; `fail`: fail its
    unit"""
    malformed: Literal["fail", "accept"] = "fail"
    """`fail`: stop at a file that loses more than half of its rows; `accept`: only count them"""


@config_class
class HeldoutConfig:
    """Held-out documents, chosen by a keyed hash of their uid."""

    fraction: Annotated[float, Field(ge=0, lt=1), Common()] = 0.01
    """share of the documents, 0 to 1; 0: no held-out set"""


_HIDDEN_STAGES: Final = hidden_stages()
_STAGE_KEYS: Final = {
    stage: AddedKey(
        stage,
        partial(load_stage_part, stage, "Config"),
        of_extension=stage in _HIDDEN_STAGES or is_of_extension(stage),
        hidden=_HIDDEN_STAGES.get(stage, ""),
    )
    for stage in sorted((*all_stages(), *_HIDDEN_STAGES))
}


@config_class
@add_keys(_STAGE_KEYS)
class Recipe(Extensible):
    """Configuration of a pipeline run, with a key for each stage."""

    PART: ClassVar = "pipeline"

    corpus: Annotated[str, Field(min_length=1), Common()]
    """name of the corpus, part of every document uid: never change it after the first run"""
    seed: Annotated[Natural, Common()] = 1
    """seed of all random choices in the pipeline"""
    input: Annotated[Inputs, Common()] = field(default_factory=list)
    """data to read: path, glob, or entries with a reader and a source"""
    output: Annotated[OutputPath | None, Common()] = None
    """output folder, with a subfolder for each stage"""
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    plan_options: Annotated[PlanConfig, Field(alias="plan")] = field(default_factory=PlanConfig)
    limits: InputLimits = field(default_factory=InputLimits)
    on_error: OnError = field(default_factory=OnError)
    heldout: HeldoutConfig = field(default_factory=HeldoutConfig)
    limit: Annotated[Positive | None, Common()] = None
    """number of documents in a preview: the first of each unit, about equally many from each unit;
    decisions are as in the complete run, which needs another `output`"""
    reuse: list[LocalPath] = field(default_factory=list)
    """outputs of other runs: units that read the same with the same options are taken from them, as
    hard links where the file system allows it"""
    keep_intermediates: bool = True
    """keep the `tmp/` folder of each stage, so that a grown corpus hashes and tokenizes documents
    once; false: remove it when a stage is complete"""

    def __post_init__(self) -> None:
        """Take finished documents as they are, if the recipe does not clean them."""
        finished = [entry.keeps_documents for entry in self.input]
        if finished and all(finished) and not self.has("clean"):
            unchanged: dict[str, object] = {"language": None, "normalize": "none", "filters": []}
            clean = validate(load_stage_part("clean", "Config"), unchanged, "clean")
            object.__setattr__(self, "clean", clean)

    def has(self, stage: str) -> bool:
        """Return whether the recipe has the key of a stage."""
        return getattr(self, stage) is not None

    def config_of(self, stage: str) -> Any:
        """Return the value of a stage's key; raise ConfigurationError if the recipe lacks it."""
        if not self.has(stage):
            raise ConfigurationError(f"the recipe has no key '{stage}'")
        return getattr(self, stage)

    @property
    def output_folder(self) -> Path:
        """Return the folder of the run."""
        if self.output is None:
            raise ConfigurationError(
                "no output folder: add output=DIR to the command, or `output:` to the recipe"
            )
        return self.output

    def folder(self, stage: str) -> Path:
        """Return the output folder of a stage."""
        return self.output_folder / stage


def load_recipe(path: Path, overrides: Sequence[str] = (), *, is_users: bool = False) -> Recipe:
    """Read and validate a recipe, the user's own or that of a run; see `load_config`."""
    return load_config(Recipe, path, overrides, is_users=is_users)


def load_default_recipe(stage: str, overrides: Sequence[str]) -> tuple[Recipe, str]:
    """Return the default recipe of a single stage, with overrides, and a line that describes it.

    If an earlier stage ran in the output folder, its recipe is used, because uids and digests
    depend on its keys.

    Raises:
        ConfigurationError: the stage has a key without a default, and no override sets it.
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

    if (path := _find_stored_recipe(recipe, stage)) is not None:
        keys = read_mapping(path)
        has_stage = keys.get(stage) is not None
        recipe = load_keys(Recipe, keys if has_stage else {**keys, **defaults}, overrides)
        note = f"the recipe of {path}{'' if has_stage else f', and the defaults of {stage}'}"

    if not recipe.has(stage):
        raise ConfigurationError(
            f"{stage}: this stage has no defaults: list its algorithms, such as {stage}=[NAME], or "
            "give --config"
        )

    return recipe, f"no --config: {note}"


def _find_stored_recipe(recipe: Recipe, stage: str) -> Path | None:
    """Return the recipe in the output folder with which the nearest earlier stage ran."""
    if recipe.output is None:
        return None
    before = all_stages()[: all_stages().index(stage)]
    stored = [recipe.folder(name) / "config.yaml" for name in reversed(before)]
    return next((path for path in stored if path.is_file()), None)


def explain_missing_stage(recipe: Recipe, stage: str, needed: str) -> str:
    """Return that a recipe lacks a stage that another one needs, and what to do.

    If another recipe has already run in the output folder, the answer is to continue with it.
    """
    lack = f"the key '{stage}' of the recipe also needs the key '{needed}'"
    if (path := _find_stored_recipe(recipe, stage)) is None:
        return f"{lack}; `{needed}: {{}}` uses defaults"
    return (
        f"{lack}: {recipe.output} was made with another recipe, {path}: copy that one, set "
        f"'{stage}' in the copy, and give it as --config"
    )


def recipe_text(recipe: Recipe) -> str:
    """Return a recipe as YAML without secrets; the keys of stages come last, in their order."""
    keys = to_data(recipe)
    stages = {name: keys.pop(name) for name in all_stages() if name in keys}
    return yaml_text({**keys, **stages})
