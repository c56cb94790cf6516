"""Roles of special tokens that the rows of a recipe need and a vocabulary lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.tokenize.tokenizers._pieces import foreseen_vocabulary
from clozeline.pipeline.vocabulary import SPECIALS, Vocabulary

_SIZE: Final = 1024

User: TypeAlias = Callable[[Vocabulary], object]
"""A maker of rows with a vocabulary, which raises ConfigurationError where it lacks a token."""


def users_of(recipe: Recipe) -> list[User]:
    """Return the users of special tokens: each objective, the frame of a task, and padding.

    Rows of unequal length are padded when they are read, whatever made them, so that a vocabulary without a pad would
    be refused by the training alone.
    """
    entries: Sequence[Any] = recipe.config_of("corrupt") if recipe.has("corrupt") else ()
    users: list[User] = [entry.check_tokens for entry in entries]
    if recipe.has("tasks"):
        users.append(recipe.config_of("tasks").check_tokens)
    if recipe.has("group") or recipe.has("tasks"):
        users.append(check_pad)
    return users


def check_pad(vocabulary: Vocabulary) -> None:
    """Raise ConfigurationError where rows cannot be padded."""
    vocabulary.id_of("pad", "padding of rows")


def find_missing_roles(users: Sequence[User], vocabulary: Vocabulary) -> Iterator[str]:
    """Yield roles (specials, `sentinels`, `modes`) without which rows cannot be made.

    Each user gets a vocabulary that has everything, then one that lacks the role: so users tell what they need by what
    they refuse.

    Args:
        users: of the special tokens, as `users_of` gives them.
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
    able = [user for user in users if _takes(user, whole)]
    yield from (role for role, less in lacking.items() if not all(_takes(user, less) for user in able))


def _takes(user: User, vocabulary: Vocabulary) -> bool:
    try:
        user(vocabulary)
    except ConfigurationError:
        return False
    return True
