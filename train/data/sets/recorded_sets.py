"""Record the training sets and the tokenizer in the run directory, and plan the number of steps.

`sets.json` describes each set and its rows; `tokenizer/` is a copy of their tokenizer. With
them, inference and export need no shards.
"""

import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.configuration.config import config_class, to_data, validate
from clozeline.configuration.paths import as_url, local_path
from clozeline.configuration.redaction import redact
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import publish_json, read_json, replacing
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.set_kinds import kind_of
from clozeline.pipeline.shards import DamagedBlock, Manifest, ShardSet
from clozeline.pipeline.shards.manifest import ObjectiveRecord, TokenizerRecord, manifest_path
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.report.charts import short
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.sets.finetuning import hold_labeled_rows, plan_task_steps
from clozeline.train.data.stream.mixture import Phase
from clozeline.train.data.stream.phases import Input, set_labels

SETS_FILE: Final = "sets.json"
TOKENIZER_FOLDER: Final = "tokenizer"
_FORMAT: Final = 1


@config_class
class RecordedSet:
    """Metadata of a training set that inference and export need."""

    path: str
    """absolute path, or URL, at the time of the training"""
    name: str
    digest: str
    """SHA-256 (hex) of the rows and their order"""
    checksum: str
    """SHA-256 (hex) of the manifest"""
    objective: ObjectiveRecord
    """objective of the stored or streamed examples"""
    columns: tuple[str, ...]
    """column names of the examples"""
    tokenizer: TokenizerRecord
    max_length: int
    """tokens of the longest row"""
    languages: tuple[str, ...]


def describe_set(path: Path | str, source: Input) -> RecordedSet:
    """Return the record of a training set; `path` is the configured one."""
    manifest = source.manifest
    stored_manifest = source.shards.manifest

    assert manifest.objective is not None, "a start refuses a set without an objective"

    return RecordedSet(
        path=redact(as_url(path) or str(local_path(path).absolute())),
        name=stored_manifest.name,
        digest=source.shards.digest,
        checksum=stored_manifest.checksum,
        objective=manifest.objective,
        columns=tuple(column.name for column in manifest.columns),
        tokenizer=manifest.tokenizer,
        max_length=manifest.max_length,
        languages=manifest.languages,
    )


def record_sets(
    run: Path, data: DataConfig, phases: Sequence[Phase[Input]], fingerprint: str
) -> str:
    """Write `sets.json`, and `tokenizer/` with this fingerprint, to a run directory.

    Training does not read the tokenizer: if it is missing or damaged, it is not copied. A damaged
    or different copy is replaced.

    Returns:
        what is wrong with the tokenizer of the sets; empty if it is valid or missing.
    """
    publish_json(
        run / SETS_FILE,
        add_checksum({"format": _FORMAT, "sets": to_data(_describe_phases(data, phases))}),
    )

    # copy the tokenizer, unless the run has a copy
    shards = phases[0].sources[0].shards
    with suppress(IntegrityError):
        if fingerprint_of(run / TOKENIZER_FOLDER) == fingerprint:
            return ""

    try:
        source = find_tokenizer(shards.path, fingerprint)
        load_tokenizer(source)
    except ConfigurationError:  # the sets came without their tokenizer
        return ""
    except IntegrityError as error:
        return str(error)

    _copy(source, run / TOKENIZER_FOLDER)
    return ""


def read_sets(run: Path) -> tuple[RecordedSet, ...]:
    """Return the training sets of a run, each once, in the order of its phases.

    Raises:
        IntegrityError: sets.json is missing or damaged.
    """
    path = run / SETS_FILE

    try:
        data = verify_checksum(read_json(path) or {}, path, _FORMAT)
        sets: tuple[RecordedSet, ...] = validate(
            tuple[RecordedSet, ...], data.get("sets"), str(path)
        )
    except (OSError, ValueError, ConfigurationError) as error:
        raise IntegrityError(
            f"{path} is missing or damaged: {error}; a start of the run writes it again"
        ) from error

    return sets


def tokenizer_of_run(run: Path, recorded: RecordedSet, fingerprint: str) -> Path:
    """Return the folder of a run's tokenizer: its copy, or the one above a set."""
    copy = run / TOKENIZER_FOLDER
    if fingerprint_of(copy) == fingerprint:
        return copy
    return find_tokenizer(manifest_path(recorded.path), fingerprint)


def add_meanings(
    known: Mapping[str, str],
    sets: Iterable[Manifest | RecordedSet],
    languages: int,
    owner: object,
    *,
    labels: bool = True,
) -> dict[str, str]:
    """Return the names of numbers as weights know them that also learn the rows of some sets.

    Example: `{"language 0": "de", "class 0 of the head classification": "negative"}`.

    Args:
        known: names of numbers that the weights have learned.
        sets: further sets.
        languages: number of languages of which the model reads codes.
        owner: what has learned the known names, for messages.
        labels: also compare the classes of labeled rows.

    Raises:
        ConfigurationError: a number has another name in a set.
    """
    meanings = dict(known)
    for rows in sets:
        found = {f"language {code}": name for code, name in enumerate(rows.languages[:languages])}
        if labels and (kind := kind_of(rows.objective)) is not None:
            found |= {f"class {n} of the head {kind.head}": x for n, x in enumerate(kind.labels)}
            found[f"the number of classes of the head {kind.head}"] = str(len(kind.labels))

        for number, name in found.items():
            if (before := meanings.setdefault(number, name)) != name:
                raise ConfigurationError(
                    f"data: {number} is {name!r} in the set {rows.name}, but {before!r} in {owner}:"
                    " a number must keep its meaning; make the set with the names in the order "
                    "that they have there"
                )
    return meanings


def _describe_phases(data: DataConfig, phases: Sequence[Phase[Input]]) -> tuple[RecordedSet, ...]:
    sets = [
        describe_set(path, source)
        for configured, phase in zip(data.all_phases.values(), phases, strict=True)
        for path, source in zip(configured.sets, phase.sources, strict=True)
    ]
    return tuple(source for number, source in enumerate(sets) if source not in sets[:number])


def fingerprint_of(folder: Path) -> str | None:
    """Return the fingerprint of the tokenizer in a folder; None without one."""
    path = folder / VOCABULARY_FILE
    return Vocabulary.load(path).fingerprint if path.is_file() else None


def _copy(source: Path, folder: Path) -> None:
    """Copy a tokenizer's folder with the publisher's files; the file that completes it is last."""
    for path in sorted(source.rglob("*"), key=lambda path: path == source / VOCABULARY_FILE):
        if path.is_file():
            target = folder / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as temporary:
                shutil.copyfile(path, temporary)


LEARNED: Final = 4_000_000
"""Tokens after which a small model is well below the unigram entropy; half as many for
encoder-decoders, which read each token twice, in inputs and targets."""
_MIN_STEPS: Final = 100
"""Fewer steps would leave no time for a warm-up."""
_MAX_PASSES: Final = {"new": 16, "fixed": 4}
"""Most passes over rows that are corrupted anew in each pass, and over fixed rows. Up to about 4
passes, repeated tokens are worth as much as new ones, and after about 16 nearly nothing (arXiv
2305.16264)."""
_MAX_READS_PER_VARIANT: Final = 2
"""Most times that reading the same stored corruption helps."""


def plan_steps(
    data: DataConfig, phases: Sequence[Phase[Input]], passes: float | None = None
) -> int:
    """Return the number of steps of some passes; None: those that `steps: auto` stands for."""
    sources = phases[0].sources
    if passes is None and hold_labeled_rows(sources):
        return plan_task_steps(
            sum(source.manifest.totals.samples for source in sources), data.global_batch
        )

    # one pass: each sample once, whatever the number of its stored corruptions
    totals = [(source.manifest.totals, source.manifest.variants) for source in sources]
    rows = sum(total.samples / variants for total, variants in totals)
    tokens = sum(total.tokens / variants for total, variants in totals)
    objective = sources[0].manifest.objective
    enough = LEARNED // (
        2 if objective is not None and objective.architecture == "encoder_decoder" else 1
    )
    least = _MIN_STEPS if passes is None else 1
    passes = passes or min(max(1.0, enough / tokens), *map(_most_passes, sources))
    # batches are joined until they have enough tokens: the last one may be as many too many
    joined_rows = data.global_batch + (data.batch_tokens or 0) * rows / tokens
    return max(least, math.ceil(passes * rows / joined_rows))


def read_first_block(shards: ShardSet, *, skip_damaged: bool) -> RowBatch:
    """Return the first block that training would read."""
    problem: DamagedBlock | None = None

    for block in range(len(shards.index)):
        try:
            return shards.read_block(block)
        except DamagedBlock as error:
            if not skip_damaged:
                raise
            problem = problem or error

    raise problem or ConfigurationError(
        f"{shards.path} holds no rows: give the pipeline more documents"
    )


def _most_passes(source: Input) -> int:
    if not _is_random(source):
        return _MAX_PASSES["fixed"]
    if source.corruption is not None:
        return _MAX_PASSES["new"]
    return _MAX_READS_PER_VARIANT * source.manifest.variants


def _is_random(source: Input) -> bool:
    """Return whether another variant of a row would be corrupted differently."""
    objective = source.manifest.objective
    return objective is not None and not objective.frame.is_fixed


def describe_rereading(phases: Sequence[Phase[Input]], rows: Mapping[str, float]) -> list[str]:
    """Return a line for each set that is read too often.

    `rows`: the rows that the run reads of each set, by its label.
    """
    sources = {
        label: source
        for phase in phases
        for label, source in zip(
            set_labels([each.shards for each in phase.sources]), phase.sources, strict=True
        )
    }

    # compare the reads of each set with its stored variants
    lines = []

    for label, source in sources.items():
        reads = round(rows[label] / len(source.shards), 1)
        variants = source.manifest.variants

        if reads > _MAX_READS_PER_VARIANT and source.corruption is None and _is_random(source):
            samples = [
                parent.name for parent in source.manifest.parents if parent.role == "samples"
            ]
            lines.append(
                f"note: {label}: each stored variant (of {variants}) is read {short(reads)} times, "
                "and the model learns these corruptions by heart. Store "
                f"{math.ceil(reads * variants):,} (`variants` in the recipe), or corrupt anew in "
                "each pass: the recipe's entry as data.corrupt, and "
                f"group/{(samples or ['...'])[0]} as data.shards"
            )
        elif reads > max(_most_passes(source), _MAX_PASSES["new"] * hold_labeled_rows([source])):
            chosen = "; steps=auto schedule.warmup=0.1 follow its size" if len(phases) == 1 else ""
            lines.append(
                f"note: {label} is read {short(reads)} times: so many steps are for a larger corpus"
                f"{chosen}"
            )

    return lines
