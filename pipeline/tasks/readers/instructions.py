"""Instructions and dialogues: messages of several roles, of which the assistant's are learnt (arXiv 2203.02155)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic.dataclasses import dataclass

from clozeline.configuration.config import STRICT
from clozeline.pipeline.tasks.readers import Dialogue, Layout, Part, Rejected, TaskFacts, TaskFile, TaskReader
from clozeline.pipeline.tasks.readers._json_lines import (
    OBJECT_REASONS,
    Object,
    field_of,
    json_objects,
    require_fields,
)
from clozeline.pipeline.tasks.readers.text_to_text import Metric

_ROLES: Final = ("system", "user", "assistant")
_FIELD: Final = re.compile(r"(?P<space>\s*)\{content\}|\{(?P<special>\w+)\}")
_TEMPLATE: Final = {
    "system": "{content}\n",
    "user": "User: {content}\n",
    "assistant": "Assistant: {content}{eos}\n",
}


class Instructions(TaskReader):
    r"""Lines of JSON with a list of messages, each with a role and a content, and a template for each role.

    A template is text with `{content}`, where the message goes, and names of special tokens, such as `{eos}`. What is
    learnt are the contents of the assistant, and the special tokens after them. White space before `{content}` belongs
    to the content, whose first word is then a token of its own. Nothing in a message becomes a special token, whatever
    it spells.

    A line without messages, or with one that has another form, is refused as `fields`; other roles as `unknown_role`,
    an empty content as `empty_text`. Messages after the last of the assistant are left out; a line that has none of
    it, or where it speaks first, is refused as `no_answer`.

    Example:
        `{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}` is
        `User: 2 + 2?\nAssistant: 4</s>`, of which ` 4</s>` is learnt
    """

    VERSION: ClassVar[int] = 1
    reasons: ClassVar[tuple[str, ...]] = (*OBJECT_REASONS, "unknown_role", "empty_text", "no_answer")

    @dataclass(frozen=True, kw_only=True, config=STRICT)
    class Options:
        """The task, its fields and its template."""

        task: str = "instructions"
        """name of the task, and of the folder of its sets"""
        messages: str = "messages"
        """field of the list of messages, with dots between the names of nested ones"""
        role: str = "role"
        """field of a message with its role"""
        content: str = "content"
        """field of a message with its text"""
        roles: dict[str, str] = field(default_factory=dict)
        """other names of roles: {human: user, gpt: assistant}"""
        template: dict[str, str] = field(default_factory=lambda: dict(_TEMPLATE))
        """text of a message of each role: {user: "User: {content}\\n", assistant: "Assistant: {content}{eos}\\n"}"""
        metrics: list[Metric] = field(default_factory=lambda: ["exact_match"])
        """metrics of the last answer of each dialogue, the first decides: exact_match, bleu, chrf, rouge1, rouge2,
        rougeL, rougeLsum"""

        def __post_init__(self) -> None:
            """Check that each role has a place for its message."""
            if unknown := sorted({*self.template, *self.roles.values()} - set(_ROLES)):
                raise ValueError(f"template, roles: expected {', '.join(_ROLES)}, got {unknown[0]!r}")
            if missing := sorted({"user", "assistant"} - set(self.template)):
                raise ValueError(f"template: expected an entry for {' and '.join(missing)}")
            for role, text in self.template.items():
                if text.count("{content}") != 1:
                    raise ValueError(f"template.{role}: expected {{content}} once, got {text!r}")

    options: Options

    @property
    def facts(self) -> TaskFacts:
        """Facts of the task."""
        return TaskFacts(name=self.options.task, head="lm", metrics=tuple(self.options.metrics))

    def open(self, path: Path) -> TaskFile:
        """Return a file whose first line has messages."""
        require_fields(path, self.limits, self.options.messages)
        return TaskFile(path, Layout("JSON lines"))

    def read(self, file: TaskFile) -> Iterator[Dialogue | Rejected]:
        """Yield every line of a file."""
        for index, row in json_objects(file.path, self.limits):
            yield row if isinstance(row, Rejected) else self._dialogue(row, index)

    def _dialogue(self, row: Object, index: int) -> Dialogue | Rejected:
        given = field_of(row, self.options.messages)
        found = [self._message(one) for one in given] if isinstance(given, list) else []
        messages = [one for one in found if not isinstance(one, str)]
        if not found or len(messages) < len(found):
            return Rejected(next((one for one in found if isinstance(one, str)), "fields"), index)
        answers = [number for number, (role, _) in enumerate(messages) if role == "assistant"]
        if not answers or answers[0] == 0:
            return Rejected("no_answer", index)
        parts = tuple(part for role, text in messages[: answers[-1] + 1] for part in self._parts(role, text))
        while not parts[-1].is_target:
            parts = parts[:-1]
        return Dialogue(parts, messages[0][1], index)

    def _message(self, message: Any) -> tuple[str, str] | str:
        """Return role and content of a message, or the reason for which it has none."""
        if not isinstance(message, Mapping):
            return "fields"
        role, content = message.get(self.options.role), message.get(self.options.content)
        if not isinstance(role, str) or not isinstance(content, str):
            return "fields"
        role = self.options.roles.get(role, role)
        if role not in self.options.template:
            return "unknown_role"
        return (role, content) if content.strip() else "empty_text"

    def _parts(self, role: str, content: str) -> Iterator[Part]:
        """Yield the parts of a message."""
        template, at, is_target = self.options.template[role], 0, False
        for found in _FIELD.finditer(template):
            if template[at : found.start()]:
                yield Part(template[at : found.start()])
            if found["special"] is None:
                is_target = role == "assistant"
                yield Part(found["space"] + content, is_target=is_target)
            else:
                yield Part(found["special"], special=True, is_target=is_target)
            at = found.end()
        if template[at:]:
            yield Part(template[at:])
