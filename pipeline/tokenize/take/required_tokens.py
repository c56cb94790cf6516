"""Find the special tokens that the rows of a recipe need and a vocabulary lacks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.tokenize.tokenizers._pieces import foreseen_vocabulary
from clozeline.pipeline.vocabulary import SENTINELS, SPECIALS, SentinelError, Vocabulary

_SIZE: Final = 1024

User: TypeAlias = Callable[[Vocabulary], object]
"""Checks a vocabulary; raises ConfigurationError if it lacks a token."""


def users_of(recipe: Recipe) -> list[User]:
    """Return the users of special tokens: each objective, the template of a task, and padding.

    Padding is always checked: rows are padded only when they are read, so a missing pad would fail first in training.
    """
    users: list[User] = [entry.check_tokens for entry in (recipe.config_of("corrupt") if recipe.has("corrupt") else ())]
    if recipe.has("tasks"):
        users.append(recipe.config_of("tasks").check_tokens)
    if recipe.has("group") or recipe.has("tasks"):
        users.append(check_pad)
    return users


def check_pad(vocabulary: Vocabulary) -> None:
    """Raise ConfigurationError if the vocabulary has no pad."""
    vocabulary.id_of("pad", "padding of rows")


def find_missing_roles(users: Sequence[User], vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the roles (specials, `sentinels`, `modes`) that some user needs and the vocabulary lacks.

    Each user checks a complete vocabulary, then one without the role: a role is needed if the second check fails.

    Raises:
        SentinelError: a user needs more sentinels than can be added.
    """
    complete = foreseen_vocabulary(_SIZE, 0)
    lacking: dict[str, Vocabulary] = {
        role: replace(complete, specials={name: token for name, token in complete.specials.items() if name != role})
        for role in SPECIALS
        if role not in vocabulary.specials
    }
    lacking["sentinels"] = replace(complete, sentinels=complete.sentinels[: len(vocabulary.sentinels)])
    lacking["modes"] = replace(complete, modes={name: complete.modes[name] for name in vocabulary.modes})
    able = [user for user in users if _accepts(user, complete)]
    yield from (role for role, partial in lacking.items() if not all(_accepts(user, partial) for user in able))


def _accepts(user: User, vocabulary: Vocabulary) -> bool:
    try:
        user(vocabulary)
    except SentinelError:
        if len(vocabulary.sentinels) == SENTINELS:
            raise
        return False
    except ConfigurationError:
        return False
    return True
