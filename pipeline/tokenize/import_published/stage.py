"""The stage `tokenizer`: import a published tokenizer instead of training one."""

import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from clozeline.configuration.config import to_data
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.arguments import Versioned, describe_algorithms
from clozeline.pipeline.execution.equations import StageRow
from clozeline.pipeline.execution.stages import ExpectedTokenizer, Pass, Stage, Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Counts, Output
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.registries import TOKENIZERS
from clozeline.pipeline.tokenize.import_published.config import TokenizerConfig
from clozeline.pipeline.tokenize.published.importing import import_tokenizer, source_files
from clozeline.pipeline.tokenize.tokenizers._pieces import expected_vocabulary, special_pieces
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.vocabulary import SENTINELS, SPECIALS, SentinelError, Vocabulary
from clozeline.seeding import hash64

_LOG: Final = logging.getLogger(__name__)
_PLACEHOLDER_SIZE: Final = 1024
"""size of the placeholder vocabulary that checks which special tokens are needed"""
_MOST_LISTED_PIECES: Final = 12
"""added pieces that the log lists; the report lists all"""


TokenUser: TypeAlias = Callable[[Vocabulary], object]
"""Raises ConfigurationError if a vocabulary lacks a token that it uses."""


@runtime_checkable
class ChecksTokens(Protocol):
    """A part of a recipe that uses special tokens."""

    def check_tokens(self, vocabulary: Vocabulary) -> None:
        """Raise ConfigurationError if the vocabulary lacks one of them."""


class TokenizerCounts(Counts, total=False):
    """Counts of the unit."""

    vocabulary: dict[str, int]
    """number of ids: `published` and `added`"""
    added: dict[str, int]
    """id of each added piece"""


class TokenizerStage(Stage[TokenizerConfig, TokenizerCounts]):
    """Import a tokenizer into the same folder layout as `train_tokenizer`."""

    name = "tokenizer"
    after = ("train_tokenizer",)
    in_heldout = True
    writes_tokenizer = True

    def _add(self) -> tuple[str, ...]:
        """Return the roles to add, in the order of their ids."""
        if not self.config.add:
            return ()
        return tuple(
            find_missing_roles(special_token_users(self.recipe), self._import_once().vocabulary)
        )

    def _import_once(self, add: tuple[str, ...] = ()) -> "_ImportedTokenizer":
        state = tuple(
            (file.name, file.stat().st_mtime_ns) for file in source_files(self.config.path)
        )
        return _import(
            str(self.config.path), json.dumps(to_data(self.config), sort_keys=True), add, state
        )

    def expected_tokenizer(self) -> ExpectedTokenizer:
        """Return the vocabulary itself: its files exist before the run."""
        return ExpectedTokenizer(
            self._import_once(self._add()).vocabulary, int(self._algorithm().VERSION)
        )

    def _algorithm(self) -> type[Versioned]:
        """Return the class that reads the tokenizer."""
        name = self._import_once(self._add()).files["name"].decode().strip()
        algorithm: type[Versioned] = TOKENIZERS.load_class(name)
        return algorithm

    def validate(self) -> Iterator[str]:
        """Yield errors of the import and of padding; later stages check other tokens."""
        vocabulary = self.expected_tokenizer().vocabulary
        if check_pad in special_token_users(self.recipe):
            try:
                check_pad(vocabulary)
            except ConfigurationError as error:
                yield (
                    f"tokenizer.path {self.config.path}: {error}; or give the role to a piece of "
                    "the vocabulary by tokenizer.specials='{pad: PIECE}'"
                )

    def passes(self) -> Sequence[Pass[TokenizerCounts]]:
        files = self._import_once(self._add()).files
        contents = {name: f"{hash64(content):016x}" for name, content in files.items()}
        versions = describe_algorithms([self._algorithm()])
        unit = ImportTokenizer(self.config.path.name, files, contents, versions)
        return [Pass("main", {"000000": unit})]

    def row(self, counts: TokenizerCounts) -> StageRow:
        return StageRow(self.config.path.name, f"{sum(counts['vocabulary'].values()):,} ids")


@plain_dataclass(frozen=True)
class ImportTokenizer(Unit[TokenizerCounts]):
    """Write a tokenizer that the driver has imported."""

    source: str = field(compare=False)
    files: Mapping[str, bytes] = field(compare=False)
    contents: Mapping[str, str]
    """hashes of the files"""
    described: Mapping[str, Any]
    """versions of the class that reads it, as JSON data"""

    def run(self, inputs: UnitInputs, output: Output) -> TokenizerCounts:
        """Write the model file, `published.json`, `vocabulary.json` and `name` to `tokenizer/`."""
        for relative, content in self.files.items():
            with output.file(f"tokenizer/{relative}") as path:
                path.write_bytes(content)

        published = PublishedMetadata.find(output.folder / "tokenizer")
        for note in published.notes:
            _LOG.warning("tokenizer: assumed: %s", note)

        # list the added pieces with their ids
        first = Vocabulary.load(output.folder / "tokenizer" / VOCABULARY_FILE).size - len(
            published.added
        )
        ids = {piece: first + number for number, piece in enumerate(published.added)}
        if ids:
            listed = [f"{piece} {token}" for piece, token in ids.items()]
            shown = ", ".join(listed[:_MOST_LISTED_PIECES])
            shown += " …" * (len(ids) > _MOST_LISTED_PIECES)
            _LOG.warning("tokenizer: added after the vocabulary of %s: %s", self.source, shown)

        return {"vocabulary": {"published": first, "added": len(ids)}, "added": ids}


@plain_dataclass(frozen=True)
class _ImportedTokenizer:
    """A tokenizer that the driver imports once, for all stages that need it."""

    vocabulary: Vocabulary
    files: Mapping[str, bytes]


@lru_cache(maxsize=4)
def _import(
    path: str, config: str, add: tuple[str, ...], _state: tuple[object, ...]
) -> _ImportedTokenizer:
    options = {
        name: value for name, value in json.loads(config).items() if name not in ("path", "add")
    }
    options |= {"pad_by_eos": not json.loads(config)["add"], "add": add}

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        try:
            tokenizer = import_tokenizer(Path(path), folder, **options)
        except OSError as error:
            raise ConfigurationError(f"tokenizer.path {path}: cannot be read ({error})") from error

        files = {
            str(file.relative_to(folder)): file.read_bytes()
            for file in folder.rglob("*")
            if file.is_file()
        }

        return _ImportedTokenizer(
            replace(tokenizer.vocabulary, folder=None), dict(sorted(files.items()))
        )


def special_token_users(recipe: Recipe) -> list[TokenUser]:
    """Return the users of special tokens: objectives, templates of other stages, and padding.

    Padding is always checked: rows are padded only when they are read, so a missing pad token would
    otherwise fail in training.
    """
    entries = recipe.config_of("corrupt") if recipe.has("corrupt") else ()
    users: list[TokenUser] = [
        each.check_tokens for each in (*entries, *recipe.parts()) if isinstance(each, ChecksTokens)
    ]
    return [*users, check_pad] if users or recipe.has("group") else []


def check_pad(vocabulary: Vocabulary) -> None:
    """Raise ConfigurationError if the vocabulary has no pad token."""
    vocabulary.id_of("pad", "padding of rows")


def find_missing_roles(users: Sequence[TokenUser], vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the roles that the vocabulary lacks and some user needs.

    Roles are those of special tokens, `sentinels` and `modes`. Each user checks a complete
    vocabulary, then one without the role: the role is needed if the second check fails.

    Raises:
        SentinelError: a user needs more sentinels than can be added.
    """
    complete = expected_vocabulary(_PLACEHOLDER_SIZE, special_pieces(0))

    # the complete vocabulary without each role that is missing
    lacking: dict[str, Vocabulary] = {
        role: replace(
            complete,
            specials={name: token for name, token in complete.specials.items() if name != role},
        )
        for role in SPECIALS
        if role not in vocabulary.specials
    }

    lacking["sentinels"] = replace(
        complete, sentinels=complete.sentinels[: len(vocabulary.sentinels)]
    )
    lacking["modes"] = replace(
        complete, modes={name: complete.modes[name] for name in vocabulary.modes}
    )

    able = [user for user in users if _accepts(user, complete)]
    for role, partial in lacking.items():
        if not all(_accepts(user, partial) for user in able):
            yield role


def _accepts(user: TokenUser, vocabulary: Vocabulary) -> bool:
    try:
        user(vocabulary)
    except SentinelError:
        if len(vocabulary.sentinels) == SENTINELS:
            raise
        return False
    except ConfigurationError:
        return False
    return True
