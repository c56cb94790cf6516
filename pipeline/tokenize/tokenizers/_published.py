"""Metadata of an imported tokenizer that its model file lacks: roles of pieces, and appended pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import parse_json
from clozeline.pipeline.tokenize.tokenizers._pieces import PieceTable, fingerprint
from clozeline.pipeline.tokenize.tokenizers._preprocessing import DIGIT_COMMAS, STEPS
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import repair_of
from clozeline.sealed_json import seal, unseal

FACTS_FILE: Final = "published.json"


@dataclass(frozen=True, kw_only=True)
class Published:
    """Roles and layout of the ids."""

    specials: Mapping[str, str] = field(default_factory=dict)
    """piece by role (`pad cls sep mask bos eos unk`)"""
    sentinels: Sequence[str] = ()
    """pieces in order of use"""
    modes: Mapping[str, str] = field(default_factory=dict)
    """piece by mode (`R`, `S`, `X`)"""
    behind: Sequence[str] = ()
    """pieces without text after the model's, in order of their ids"""
    added: Sequence[str] = ()
    """pieces of `behind` that the publisher does not have"""
    spares: Sequence[str] = ()
    """unused pieces for later roles"""
    lower_case: bool = False
    """WordPiece lower-cases its text and strips accents"""
    fairseq: bool = False
    """a SentencePiece model has the ids of fairseq: `<s> <pad> </s> <unk>`, then piece i as i + 1"""
    steps: Sequence[str] = ()
    """preprocessing before a SentencePiece model, in order, and post-processing of its pieces"""
    layout: str = ""
    """order of the ids of a SentencePiece model: of `camembert` or `pegasus`; empty: its own, or that of fairseq"""
    source: str = ""
    """`hf://org/name@commit` of a tokenizer from a hub"""

    def save(self, folder: Path) -> None:
        """Write `published.json`."""
        facts = {key: value for key, value in asdict(self).items() if key not in ("layout", "source") or value}
        text = json.dumps(seal(facts), indent=1, sort_keys=True, ensure_ascii=False)
        (folder / FACTS_FILE).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> Published:
        """Read `published.json`; IntegrityError if it is missing or damaged."""
        path = folder / FACTS_FILE
        try:
            return Published(**unseal(parse_json(path.read_text(encoding="utf-8")), path))
        except (OSError, ValueError, TypeError) as error:
            raise IntegrityError(
                f"{path}: not the facts of an imported tokenizer ({error}); import the tokenizer again: "
                f"{repair_of(path)}"
            ) from error

    def bare(self) -> set[str]:
        """Return all pieces without text."""
        return {*self.specials.values(), *self.sentinels, *self.modes.values(), *self.behind, *self.spares}

    def check(self, names: Sequence[str]) -> None:
        """Raise ConfigurationError if a role names a missing piece, or a step is unknown."""
        if unknown := sorted(set(self.steps) - {*STEPS, DIGIT_COMMAS}):
            raise ConfigurationError(
                f"tokenizer: expected steps among {', '.join((*STEPS, DIGIT_COMMAS))}, got {', '.join(unknown)}; "
                "import the tokenizer again"
            )
        if lacking := sorted(self.bare() - set(names)):
            raise ConfigurationError(
                f"tokenizer: the vocabulary of {len(names)} pieces has no {', '.join(map(repr, lacking))}; name pieces "
                "that it has under `tokenizer.specials` and `tokenizer.sentinels`"
            )

    def vocabulary(self, table: PieceTable, decisive: Mapping[str, Any]) -> Vocabulary:
        """Return the vocabulary of a model; ConfigurationError if a role names a missing piece.

        The table includes `behind`; `decisive` is everything in the model file that determines the ids of a text.
        """
        self.check(table.names)
        ids = {name: index for index, name in enumerate(table.names)}
        # earlier versions had no steps and layouts: leave them out if empty, so that fingerprints stay
        facts = {name: value for name, value in asdict(self).items() if name not in ("steps", "layout") or value}
        published = {name: value for name, value in facts.items() if name != "source"}  # the origin decides no id
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
            fingerprint=fingerprint({**decisive, "published": published}),
        )


def check_distinct(names: Sequence[str], where: str) -> None:
    """Raise ConfigurationError if two ids have the same piece: the earlier id would be a gap."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names):
        if name in seen:
            raise ConfigurationError(
                f"{where}: expected a piece of its own for each id, got {name!r} for {seen[name]} and {number}; a "
                "vocabulary with holes would give a new token an id that is taken: remove the repeated line"
            )
        seen[name] = number
