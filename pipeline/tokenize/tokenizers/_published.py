"""Metadata that the model file of a tokenizer lacks: roles of pieces, padding, length, class."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import parse_json, read_text
from clozeline.pipeline.tokenize.tokenizers._pieces import PieceTable, fingerprint
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import rebuild_hint

PUBLISHED_FILE: Final = "published.json"
_FINGERPRINT_FIELDS: Final = ("specials", "sentinels", "modes", "spares", "lower_case")
"""fields that decide ids or roles, and so belong to the fingerprint"""


@dataclass(frozen=True, kw_only=True)
class PublishedMetadata:
    """Roles of pieces, and metadata of the publisher."""

    specials: Mapping[str, str] = field(default_factory=dict)
    """special pieces by role (`pad cls sep mask bos eos unk`)"""
    sentinels: Sequence[str] = ()
    """sentinel pieces in order of use"""
    modes: Mapping[str, str] = field(default_factory=dict)
    """mode pieces by mode (`R`, `S`, `X`)"""
    added: Sequence[str] = ()
    """pieces that the import added to the publisher's, in order of their ids"""
    spares: Sequence[str] = ()
    """unused pieces for later roles"""
    lower_case: bool = False
    """whether WordPiece lower-cases texts and strips accents"""
    pad_by_eos: bool = False
    """whether the publisher has no pad token, so that rows are padded with the end token"""
    padding_side: str = "right"
    max_length: int | None = None
    """`model_max_length` of the publisher, in tokens"""
    tokenizer_class: str = ""
    """class of transformers that reads the publisher's files; empty if the folder does not name it,
    or if a file must be renamed"""
    notes: Sequence[str] = ()
    """assumptions of the import, which the published files do not state"""
    source: str = ""
    """`hf://org/name@commit` of a tokenizer from a hub"""

    def save(self, folder: Path) -> None:
        """Write `published.json`."""
        text = json.dumps(add_checksum(asdict(self)), indent=1, sort_keys=True, ensure_ascii=False)
        (folder / PUBLISHED_FILE).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> PublishedMetadata:
        """Read `published.json`; raise IntegrityError if it is missing or damaged."""
        path = folder / PUBLISHED_FILE
        try:
            return PublishedMetadata(**verify_checksum(parse_json(read_text(path)), path))
        except (OSError, ValueError, TypeError) as error:
            raise IntegrityError(
                f"{path}: not the metadata of an imported tokenizer ({error}); import the "
                f"tokenizer again: {rebuild_hint(path)}"
            ) from error

    @staticmethod
    def find(folder: Path) -> PublishedMetadata:
        """Read `published.json`; a folder without it (trained by SentencePiece) has no roles."""
        return (
            PublishedMetadata.load(folder)
            if (folder / PUBLISHED_FILE).is_file()
            else PublishedMetadata()
        )

    def special_names(self) -> set[str]:
        """Return all pieces that have a role, and no text."""
        return {*self.specials.values(), *self.sentinels, *self.modes.values(), *self.spares}

    def check(self, names: Sequence[str]) -> None:
        """Raise ConfigurationError if a role names a missing piece."""
        if lacking := sorted(self.special_names() - set(names)):
            raise ConfigurationError(
                f"tokenizer: the vocabulary of {len(names)} pieces has no "
                f"{', '.join(map(repr, lacking))}; name existing pieces under `tokenizer.specials` "
                "and `tokenizer.sentinels`"
            )

    def vocabulary(self, table: PieceTable, decisive: Mapping[str, Any]) -> Vocabulary:
        """Return the vocabulary of a model; raise ConfigurationError if a role has no piece.

        `decisive` is everything in the model file that determines the ids of a text.
        """
        self.check(table.names)
        ids = {name: index for index, name in enumerate(table.names)}
        published = {name: getattr(self, name) for name in _FINGERPRINT_FIELDS}
        special = table.special.copy()
        special[[ids[name] for name in self.special_names()]] = True

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
