"""Read what a user chooses to corrupt: `[4: mask, 7: hat, 9: keep]`, `[2-3, 6]`, `[2, 1]`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import Objective
from clozeline.pipeline.corrupt.objectives._choice import KEEP, MASK, WORD, Choice, ChosenSpan
from clozeline.pipeline.corrupt.preview.words import TextCodec

ChoiceEntry: TypeAlias = int | str | Mapping[Any, Any]
"""`4`, `2-3`, `before 3`, `yes`, `no`, or a mapping from tokens to what becomes of them"""

_ANSWERS: Final = {"yes": True, "no": False}
_SPAN: Final = re.compile(r"(before )?([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?")


def chosen_words(entries: Sequence[ChoiceEntry]) -> Iterator[str]:
    """Yield the words that replace tokens."""
    return (role for _, role in _parts(entries) if role not in ("", MASK, KEEP))


def read_choice(entries: Sequence[ChoiceEntry], objective: Objective, codec: TextCodec) -> Choice:
    """Return the choice of a user for this objective.

    Raises:
        ConfigurationError: an entry is malformed, or the objective cannot do it.
    """
    choices = objective.choices
    if choices is None:
        raise objective.refuse_options("choose: it draws nothing that you could choose")
    spans = []
    follows = None
    for text, role in _parts(entries):
        if text in _ANSWERS and not role:
            follows = _ANSWERS[text]
            continue
        match = _SPAN.fullmatch(text)
        if match is None or (match[3] and (match[1] or int(match[3]) < int(match[2]))):
            raise ConfigurationError(
                f"choose: {text!r} does not say which tokens; write, for example, "
                f"choose='{choices.example}'; tokens of the text count from 1"
            )
        first = int(match[2])
        last = first - 1 if match[1] else int(match[3] or first)
        if role in ("", MASK, KEEP):
            spans.append(ChosenSpan(first, last, role))
        else:
            spans.append(ChosenSpan(first, last, WORD, codec.word_id(role)))
    return Choice(spans, follows, choices)


def _parts(entries: Sequence[ChoiceEntry]) -> Iterator[tuple[str, str]]:
    """Yield the tokens of each entry, and what becomes of them; empty if it does not say."""
    for entry in entries:
        if isinstance(entry, Mapping):
            yield from ((str(tokens), str(role)) for tokens, role in entry.items())
        else:
            yield str(entry), ""
