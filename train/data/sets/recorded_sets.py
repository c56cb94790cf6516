"""Record the training sets and the tokenizer in the run directory, so that inference and export need no shards.

`sets.json` says of each set where it was and what its rows are; `tokenizer/` is a copy of the tokenizer that they were
made with.
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from clozeline.configuration.config import config_class, to_plain, validate
from clozeline.configuration.redaction import redact_text
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import publish_json, read_json, replacing
from clozeline.pipeline.shards.manifest import ObjectiveFacts, TokenizerFacts
from clozeline.pipeline.shards.store import as_url, local_path
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.sealed_json import seal, unseal
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.stream.mixture import Phase
from clozeline.train.data.stream.phases import Input

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
    objective: ObjectiveFacts
    """objective of the stored or streamed examples"""
    columns: tuple[str, ...]
    """column names of the examples"""
    tokenizer: TokenizerFacts
    max_length: int
    """tokens of the longest row"""
    languages: tuple[str, ...]


def describe_set(path: Path | str, source: Input) -> RecordedSet:
    """Return the record of a training set; `path` is the configured one."""
    manifest, stored = source.manifest, source.shards.manifest
    assert manifest.objective is not None, "a start refuses a set without an objective"
    return RecordedSet(
        path=redact_text(as_url(path) or str(local_path(path).absolute())),
        name=stored.name,
        digest=source.shards.digest,
        checksum=stored.checksum,
        objective=manifest.objective,
        columns=tuple(column.name for column in manifest.columns),
        tokenizer=manifest.tokenizer,
        max_length=manifest.max_length,
        languages=manifest.languages,
    )


def record_sets(run: Path, data: DataConfig, phases: Sequence[Phase[Input]]) -> str:
    """Write `sets.json` and `tokenizer/` to a run directory; return what is wrong with the tokenizer of the sets.

    Training reads no tokenizer, so a missing or damaged one is not copied. A damaged or different copy is replaced.
    """
    publish_json(run / SETS_FILE, seal({"format": _FORMAT, "sets": to_plain(_describe_phases(data, phases))}))
    shards = phases[0].sources[0].shards
    fingerprint = shards.manifest.tokenizer.fingerprint
    with suppress(IntegrityError):
        if _fingerprint(run / TOKENIZER_FOLDER) == fingerprint:
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
    """Return the training sets of a run, each once, in the order of its phases; IntegrityError if they are damaged."""
    path = run / SETS_FILE
    try:
        plain = unseal(read_json(path) or {}, path, _FORMAT)
        sets: tuple[RecordedSet, ...] = validate(tuple[RecordedSet, ...], plain.get("sets"), str(path))
    except (OSError, ValueError, ConfigurationError) as error:
        raise IntegrityError(f"{path}: is missing or damaged: {error}; a start of the run writes it again") from error
    if not sets:
        raise IntegrityError(f"{path}: is damaged: it lists no set; a start of the run writes it again")
    return sets


def tokenizer_of_run(run: Path, recorded: RecordedSet) -> Path:
    """Return the folder of a run's tokenizer: its copy, or the one above the set."""
    own = run / TOKENIZER_FOLDER
    if _fingerprint(own) == recorded.tokenizer.fingerprint:
        return own
    return find_tokenizer(Path(recorded.path) / "manifest.json", recorded.tokenizer.fingerprint)


def _describe_phases(data: DataConfig, phases: Sequence[Phase[Input]]) -> tuple[RecordedSet, ...]:
    sets = [
        describe_set(path, source)
        for configured, phase in zip(data.all_phases.values(), phases, strict=True)
        for path, source in zip(configured.sets, phase.sources, strict=True)
    ]
    return tuple(source for number, source in enumerate(sets) if source not in sets[:number])


def _fingerprint(folder: Path) -> str | None:
    path = folder / VOCABULARY_FILE
    return Vocabulary.load(path).fingerprint if path.is_file() else None


def _copy(source: Path, folder: Path) -> None:
    """Copy a tokenizer's folder with the publisher's files in it; the file that marks it as complete is last."""
    for path in sorted(source.rglob("*"), key=lambda path: path == source / VOCABULARY_FILE):
        if path.is_file():
            target = folder / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as temporary:
                shutil.copyfile(path, temporary)
