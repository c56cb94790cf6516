"""Roles of special tokens that the objectives of a recipe need and a vocabulary lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from pipeline.errors import ConfigurationError
from pipeline.groupings import build_grouping
from pipeline.tokenizers._pieces import foreseen_vocabulary
from pipeline.vocabulary import SPECIALS, Vocabulary

__all__ = ["needed_roles"]

_SIZE: Final = 1024


def needed_roles(entries: Sequence[Any], vocabulary: Vocabulary) -> Iterator[str]:
    """Yield roles (specials, `sentinels`, `modes`) without which an objective cannot be made.

    Each objective is made with a vocabulary that has everything, then with one that lacks the role: so objectives tell
    what they need by what they refuse.

    Args:
        entries: the recipe's objectives.
        vocabulary: the vocabulary that may lack some.
    """
    whole = foreseen_vocabulary(_SIZE, 0)
    lacking: dict[str, Vocabulary] = {
        role: replace(whole, specials={name: token for name, token in whole.specials.items() if name != role})
        for role in SPECIALS
        if role not in vocabulary.specials
    }
    lacking["sentinels"] = replace(whole, sentinels=whole.sentinels[: len(vocabulary.sentinels)])
    lacking["modes"] = replace(whole, modes={name: whole.modes[name] for name in vocabulary.modes})
    makable = [entry for entry in entries if _can_be_made(entry, whole)]
    yield from (role for role, less in lacking.items() if not all(_can_be_made(entry, less) for entry in makable))


def _can_be_made(entry: Any, vocabulary: Vocabulary) -> bool:
    try:
        build_grouping(entry.build(vocabulary).grouping, vocabulary)
    except ConfigurationError:
        return False
    return True
