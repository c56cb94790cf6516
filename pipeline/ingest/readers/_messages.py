"""Write a dialogue (a list of messages with roles) as one text."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeGuard

from clozeline.configuration.config import config_class

_NAME_CHARACTERS: Final = 40
_MOST_NAMES: Final = 10
"""Maximum characters of a name, and maximum names, in an error message."""
_CONTENT_FIELD: Final = "{content}"
_DEFAULT_TEMPLATE: Final = {
    "system": "{content}\n",
    "user": "User: {content}\n",
    "assistant": "Assistant: {content}\n",
    "tool": "Tool: {content}\n",
}
_DEFAULT_ROLES: Final = {
    "human": "user",
    "gpt": "assistant",
    "developer": "system",
    "function": "tool",
}


@config_class
class MessageOptions:
    """The fields of messages, and the template that writes them."""

    role: str = "role"
    """field of a message with its role; `from` in ShareGPT's files"""
    content: str = "content"
    """field of a message with its text, or with a list of parts of the type `text`; `value` in
    ShareGPT's files"""
    roles: dict[str, str] = field(default_factory=lambda: dict(_DEFAULT_ROLES))
    """other names of roles"""
    template: dict[str, str] = field(default_factory=lambda: dict(_DEFAULT_TEMPLATE))
    """text of each role, with `{content}` once; messages of a role without an entry are an error"""

    def __post_init__(self) -> None:
        for role, text in self.template.items():
            if text.count(_CONTENT_FIELD) != 1:
                raise ValueError(f"template.{role}: expected {_CONTENT_FIELD} once, got {text!r}")
        if unknown := sorted(
            set(self.roles.values()) - set(self.template) - set(_DEFAULT_TEMPLATE)
        ):
            raise ValueError(f"roles: template has no entry for {unknown[0]!r}")


class DialogueError(ValueError):
    """The template cannot write a dialogue; the text of the error says why."""


def is_dialogue(value: object) -> TypeGuard[list[Mapping[str, Any]]]:
    """Return whether a value is a list of messages, whatever their fields are called."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(message, Mapping) for message in value)
    )


def write_dialogue(messages: Sequence[Mapping[str, object]], options: MessageOptions) -> str:
    """Return the text of a dialogue.

    Raises:
        DialogueError: a message has no text, or a role without a template.
    """
    return "".join(_write_message(message, options) for message in messages)


def _write_message(message: Mapping[str, object], options: MessageOptions) -> str:
    for option, name in (("role", options.role), ("content", options.content)):
        if message.get(name) is None:
            keys = ", ".join(sorted(str(key)[:_NAME_CHARACTERS] for key in message)[:_MOST_NAMES])
            why = (
                f"{name!r} is null in a message"
                if name in message
                else f"a message has no {name!r}, but {keys}"
            )
            raise DialogueError(f"{why}; name it by messages: {{{option}: KEY}}")

    stated_role = str(message[options.role])
    role = options.roles.get(stated_role, stated_role)[:_NAME_CHARACTERS]
    if role not in options.template:
        raise DialogueError(
            f"a message has the role {role!r}; give its text by messages: {{template: {{{role}: "
            "...}}"
        )

    before, _, after = options.template[role].partition(_CONTENT_FIELD)
    return before + _join_content(message[options.content]) + after


def _join_content(content: object) -> str:
    """Return the text of a message, or of all of its parts."""
    parts = content if isinstance(content, list) else [content]
    return "\n".join(map(_read_part, parts))


def _read_part(part: object) -> str:
    text = part.get("text") if isinstance(part, Mapping) else part
    if isinstance(text, str):
        return text
    part_type = part.get("type", "unknown") if isinstance(part, Mapping) else type(part).__name__
    raise DialogueError(f"a message has a part of the type {part_type!r}, which is not text")
