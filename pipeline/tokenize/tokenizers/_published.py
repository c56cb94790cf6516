"""Facts about a published tokenizer that its model file does not hold: roles of pieces, and further pieces."""

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
    """Roles and layout of the ids.

    Args:
        specials: role (`pad cls sep mask bos eos unk`) to piece.
        sentinels: pieces in order of use.
        modes: mode (`R`, `S`, `X`) to piece.
        behind: pieces without text after those of the model, in the order of their ids.
        added: those of `behind` that the publisher does not have.
        spares: pieces kept free for later roles.
        lower_case: WordPiece lowers its text and strips accents.
        fairseq: ids of a SentencePiece model are those of fairseq: `<s> <pad> </s> <unk>`, then piece i as i + 1.
        steps: what a SentencePiece model's publisher does to a text before the model, in order, and to its pieces.
    """

    specials: Mapping[str, str] = field(default_factory=dict)
    sentinels: Sequence[str] = ()
    modes: Mapping[str, str] = field(default_factory=dict)
    behind: Sequence[str] = ()
    added: Sequence[str] = ()
    spares: Sequence[str] = ()
    lower_case: bool = False
    fairseq: bool = False
    steps: Sequence[str] = ()

    def save(self, folder: Path) -> None:
        """Write `published.json`."""
        text = json.dumps(seal(asdict(self)), indent=1, sort_keys=True, ensure_ascii=False)
        (folder / FACTS_FILE).write_text(text + "\n", encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> Published:
        """Read what `save` wrote.

        Raises:
            IntegrityError: the file is missing or damaged.
        """
        path = folder / FACTS_FILE
        try:
            return Published(**unseal(parse_json(path.read_text(encoding="utf-8")), path))
        except (OSError, ValueError, TypeError) as error:
            raise IntegrityError(
                f"{path}: not the facts of an imported tokenizer ({error}); import the tokenizer again: "
                f"{repair_of(path)}"
            ) from error

    def _decisive(self) -> dict[str, Any]:
        """Return the facts; without steps those of versions that knew none, so that fingerprints stay."""
        return {name: value for name, value in asdict(self).items() if name != "steps" or value}

    def bare(self) -> set[str]:
        """Return the pieces without text that these facts name."""
        return {*self.specials.values(), *self.sentinels, *self.modes.values(), *self.behind, *self.spares}

    def check(self, names: Sequence[str]) -> None:
        """Raise ConfigurationError where a role is given to a piece that does not exist, or a step is not known."""
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
        """Return the vocabulary of a model's pieces.

        Args:
            table: the pieces of all ids, those of `behind` included.
            decisive: everything in the model file that decides the ids of a text.

        Raises:
            ConfigurationError: a role is given to a piece that does not exist.
        """
        self.check(table.names)
        ids = {name: index for index, name in enumerate(table.names)}
        special = table.special.copy()
        special[[ids[name] for name in self.bare()]] = True
        return Vocabulary(
            size=len(table.names),
            specials={role: ids[piece] for role, piece in self.specials.items()},
            sentinels=tuple(ids[piece] for piece in self.sentinels),
            modes={mode: ids[piece] for mode, piece in self.modes.items()},
            special=special,
            word_start=table.word_starts() & ~special,
            ends_in_space=table.ends_in_space() & ~special,
            fingerprint=fingerprint({**decisive, "published": self._decisive()}),
        )


def check_distinct(names: Sequence[str], where: str) -> None:
    """Raise ConfigurationError where two ids have one piece: the earlier one would be a hole."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names):
        if name in seen:
            raise ConfigurationError(
                f"{where}: expected a piece of its own for each id, got {name!r} for {seen[name]} and {number}; a "
                "vocabulary with holes would give a new token an id that is taken: remove the repeated line"
            )
        seen[name] = number
