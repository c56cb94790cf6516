"""Import a published tokenizer instead of training one."""

import json
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final

from clozeline import registry
from clozeline.configuration.config import to_plain
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.stages import ForeseenTokenizer, Pass, Row, Stage
from clozeline.pipeline.execution.unit_record import TEMPORARY, Counts, Output
from clozeline.pipeline.tokenize.published.importing import guesses, import_tokenizer
from clozeline.pipeline.tokenize.published.local_tokenizers import OwnTokenizer, own_tokenizer
from clozeline.pipeline.tokenize.published.source_libraries import Source, find_source
from clozeline.pipeline.tokenize.take.config import TokenizerConfig
from clozeline.pipeline.tokenize.take.required_tokens import check_pad, find_missing_roles, users_of
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.seeding import hash64

_LOG: Final = logging.getLogger(__name__)
_LISTED: Final = 12
"""Added pieces listed in the log; the report lists all."""


class TokenizerCounts(Counts, total=False):
    """Counts of the unit."""

    vocabulary: dict[str, int]
    """ids of the vocabulary: `published` and `added`"""
    added: dict[str, int]
    """id of each added piece"""


class TokenizerStage(Stage[TokenizerConfig, TokenizerCounts]):
    """Imports a tokenizer into the folder layout of `train_tokenizer`."""

    name: ClassVar[str] = "tokenizer"
    order: ClassVar[int] = 51
    writes_tokenizer: ClassVar[bool] = True
    made_when_needed: ClassVar[bool] = True
    shared: ClassVar[tuple[str, ...]] = ()
    added: ClassVar[tuple[str, ...]] = ("pattern", "special_tokens")

    def _add(self) -> tuple[str, ...]:
        """Return the roles to add, in the order of their ids."""
        if not self.config.add:
            return ()
        return tuple(find_missing_roles(users_of(self.recipe), _import_vocabulary(*self._cache_key(), ())))

    def _source(self) -> Source | OwnTokenizer:
        return own_tokenizer(self.config.path) or find_source(self.config.path)

    def _cache_key(self) -> tuple[str, str, int]:
        """Return what determines the vocabulary, as a hashable cache key."""
        newest = max(path.stat().st_mtime_ns for path in self._source().files)
        return str(self.config.path), json.dumps(to_plain(self.config), sort_keys=True), newest

    def foreseen_tokenizer(self) -> ForeseenTokenizer:
        """Return the vocabulary itself: its files exist before the run."""
        kind = registry.find("clozeline.pipeline.tokenize.tokenizers", self._source().kind)
        return ForeseenTokenizer(_import_vocabulary(*self._cache_key(), self._add()), kind.VERSION)

    def mistakes(self) -> Iterator[str]:
        """Yield what prevents importing the tokenizer or padding rows; later stages check the rest."""
        vocabulary = self.foreseen_tokenizer().vocabulary
        if check_pad in users_of(self.recipe):
            try:
                check_pad(vocabulary)
            except ConfigurationError as error:
                role = "tokenizer.specials='{pad: PIECE}'"
                yield f"tokenizer.path {self.config.path}: {error}; {role} gives the role to a piece that it has"

    def expansion(self) -> float:
        return 0.0  # no documents

    def version(self) -> int:
        """Return a hash of everything in the tokenizer's files that determines ids."""
        return hash64(self.foreseen_tokenizer().vocabulary.fingerprint)

    def passes(self) -> Sequence[Pass[TokenizerCounts]]:
        return [ImportTokenizer("main", 1, self.config.path, _options(to_plain(self.config)), self._add())]

    def row(self, counts: TokenizerCounts) -> Row:
        return Row(self.config.path.name, f"{sum(counts['vocabulary'].values()):,} ids")


@plain_dataclass(frozen=True)
class ImportTokenizer(Pass[TokenizerCounts]):
    """Import a tokenizer and publish it."""

    name: str
    units: int
    path: Path
    options: Mapping[str, Any]
    add: tuple[str, ...]

    def run(self, unit: int, output: Output) -> TokenizerCounts:
        """Publish the model file, `published.json`, `vocabulary.json` and `name` in `tokenizer/`."""
        (output.folder / TEMPORARY).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.folder / TEMPORARY) as temporary:
            tokenizer = import_tokenizer(self.path, Path(temporary), **self.options, add=self.add)
            output.copy(Path(temporary), "tokenizer")
        for guess in guesses(self.path, output.folder / "tokenizer") if self.options["lower_case"] is None else ():
            _LOG.warning("tokenizer: guessed: %s", guess)
        facts = output.folder / "tokenizer" / "published.json"  # a tokenizer trained here has none
        added = json.loads(facts.read_text(encoding="utf-8"))["added"] if facts.is_file() else []
        first = tokenizer.vocabulary.size - len(added)
        ids = {piece: first + number for number, piece in enumerate(added)}
        if ids:
            listed = ", ".join(f"{piece} {token}" for piece, token in list(ids.items())[:_LISTED])
            listed += f" and {len(ids) - _LISTED} more up to {max(ids.values())}" if len(ids) > _LISTED else ""
            _LOG.warning("tokenizer: added after the vocabulary of %s: %s", self.path.name, listed)
        return {"vocabulary": {"published": first, "added": len(ids)}, "added": ids}


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in config.items() if name not in ("path", "add")}
    return {**own, "pad_by_eos": not config["add"]}


@lru_cache(maxsize=4)
def _import_vocabulary(path: str, config: str, _written: int, add: tuple[str, ...]) -> Vocabulary:
    """Import the vocabulary in a temporary folder; cached because every stage of a run needs it."""
    with tempfile.TemporaryDirectory() as temporary:
        try:
            tokenizer = import_tokenizer(Path(path), Path(temporary), **_options(json.loads(config)), add=add)
        except OSError as error:
            raise ConfigurationError(f"tokenizer.path {path}: cannot be read ({error})") from error
        return replace(tokenizer.vocabulary, folder=None)
