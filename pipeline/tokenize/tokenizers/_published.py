"""Metadata of a tokenizer that its model file lacks: roles of pieces, and what transformers says of its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import parse_json
from clozeline.pipeline.tokenize.tokenizers._pieces import PieceTable, fingerprint
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import rebuild_hint

PUBLISHED_FILE: Final = "published.json"
_DECISIVE: Final = ("specials", "sentinels", "modes", "spares", "lower_case")
"""Fields that decide ids or roles, and so the fingerprint."""


@dataclass(frozen=True, kw_only=True)
class PublishedMetadata:
    """Roles and layout of the ids."""

    specials: Mapping[str, str] = field(default_factory=dict)
    """piece by role (`pad cls sep mask bos eos unk`)"""
    sentinels: Sequence[str] = ()
    """pieces in order of use"""
    modes: Mapping[str, str] = field(default_factory=dict)
    """piece by mode (`R`, `S`, `X`)"""
    added: Sequence[str] = ()
    """pieces that the publisher does not have, in order of their ids"""
    spares: Sequence[str] = ()
    """unused pieces for later roles"""
    lower_case: bool = False
    """WordPiece lower-cases its text and strips accents"""
    pad_by_eos: bool = False
    """true if the publisher has no pad, and rows are filled up with the end token"""
    padding_side: str = "right"
    max_length: int | None = None
    """`model_max_length` of the publisher, in tokens"""
    tokenizer_class: str = ""
    """class of transformers that reads the publisher's files; empty if it needs another name for
    one, or for itself"""
    notes: Sequence[str] = ()
    """assumptions of the import that the published files do not state, one per line"""
    source: str = ""
    """`hf://org/name@commit` of a tokenizer from a hub"""

    def save(self, folder: Path) -> None:
        """Write `published.json`."""
        text = json.dumps(add_checksum(asdict(self)), indent=1, sort_keys=True, ensure_ascii=False)
        (folder / PUBLISHED_FILE).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> PublishedMetadata:
        """Read `published.json`; IntegrityError if it is missing or damaged."""
        path = folder / PUBLISHED_FILE
        try:
            return PublishedMetadata(
                **verify_checksum(parse_json(path.read_text(encoding="utf-8")), path)
            )
        except (OSError, ValueError, TypeError) as error:
            raise IntegrityError(
                f"{path}: not the metadata of an imported tokenizer ({error}); import the tokenizer "
                "again: "
                f"{rebuild_hint(path)}"
            ) from error

    @staticmethod
    def find(folder: Path) -> PublishedMetadata:
        """Read `published.json`, without roles if a folder has none: a SentencePiece model that was trained here."""
        return (
            PublishedMetadata.load(folder)
            if (folder / PUBLISHED_FILE).is_file()
            else PublishedMetadata()
        )

    def bare(self) -> set[str]:
        """Return all pieces without text."""
        return {*self.specials.values(), *self.sentinels, *self.modes.values(), *self.spares}

    def check(self, names: Sequence[str]) -> None:
        """Raise ConfigurationError if a role names a missing piece."""
        if lacking := sorted(self.bare() - set(names)):
            raise ConfigurationError(
                f"tokenizer: the vocabulary of {len(names)} pieces has no "
                f"{', '.join(map(repr, lacking))}; name pieces "
                "that it has under `tokenizer.specials` and `tokenizer.sentinels`"
            )

    def vocabulary(self, table: PieceTable, decisive: Mapping[str, Any]) -> Vocabulary:
        """Return the vocabulary of a model; ConfigurationError if a role names a missing piece.

        `decisive` is everything in the model file that determines the ids of a text.
        """
        self.check(table.names)
        ids = {name: index for index, name in enumerate(table.names)}
        published = {name: getattr(self, name) for name in _DECISIVE}
        special = table.special.copy()
        special[[ids[name] for name in self.bare()]] = True
        return Vocabulary(
            size=len(table.names),
            specials={role: ids[piece] for role, piece in self.specials.items()},
            sentinels=tuple(ids[piece] for piece in self.sentinels),
            modes={mode: ids[piece] for mode, piece in self.modes.items()},
            special=special,
            word_start=table.word_starts() & ~special,
            word_end=table.word_ends() & ~special,
            byte_piece=table.byte_pieces() & ~special,
            fingerprint=fingerprint({**decisive, "published": published}),
        )
