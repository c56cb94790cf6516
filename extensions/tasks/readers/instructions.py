"""Read instructions and dialogues; the loss covers the assistant's messages (arXiv 2203.02155)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final, Literal

from clozeline.configuration.config import config_class
from clozeline.extensions.tasks.readers import (
    Dialogue,
    Rejected,
    Row,
    RowFile,
    TaskItem,
    TaskMetadata,
    TaskReader,
    TemplatePart,
    Unfit,
)
from clozeline.extensions.tasks.readers._reader import KEYS
from clozeline.extensions.tasks.readers.text_to_text import Metric
from clozeline.pipeline.ingest.readers._rows import value_at
from clozeline.pipeline.tables import open_table
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, pieces_pattern, special_ids

_ROLES: Final = ("system", "user", "assistant")
_CHAT_NAME: Final = "chat"
_TEMPLATE_FIELD: Final = r"(?P<space>\s*)\{content\}|\{(?P<special>\w+)\}"
_TEMPLATE: Final = {
    "system": "{content}\n",
    "user": "User: {content}\n",
    "assistant": "Assistant: {content}{eos}\n",
}


class InstructionsReader(TaskReader):
    r"""JSON lines with a list of messages (role and content), and a template per role.

    A template is text with `{content}` and special tokens: by role, such as `{eos}`, or by their
    tokenizer writes them, such as `<|end|>`. The loss covers the contents of the assistant and the
    special tokens after them. White space before `{content}` belongs to the content. Nothing in a
    message becomes a special token.

    `template: chat` uses the chat template of a published tokenizer. The loss covers what it marks
    with `{% generation %}`, else what each answer adds to the text before it.

    Messages after the last answer are dropped. Reasons for rejection: `fields`, no messages or a
    malformed one; `unknown_role`; `empty_text`; `no_answer`, no message of the assistant. A chat
    template also
    rejects: `template`, it raises an error; `no_prefix`, an answer changes the text
    before it; `private_use`.

    Example:
        `{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content":
        "4"}]}` is
        `User: 2 + 2?\nAssistant: 4</s>`, with the loss on ` 4</s>`
    """

    VERSION = 2

    @config_class
    class Options:
        task: str = "instructions"
        """name of the task and of its folder"""
        messages: str = "messages"
        """path of the list of messages, with dots between nested fields"""
        role: str = "role"
        """field of a message with its role"""
        content: str = "content"
        """field of a message with its text"""
        roles: dict[str, str] = field(default_factory=dict)
        """other names of roles: {human: user, gpt: assistant}"""
        template: dict[str, str] | Literal["chat"] = field(default_factory=lambda: dict(_TEMPLATE))
        """text of a message of each role: {user: "User: {content}\\n", assistant: "Assistant:
        {content}{eos}\\n"}; or chat, the chat template of the tokenizer's folder"""
        metrics: list[Metric] = field(default_factory=lambda: ["exact_match"])
        """metrics of the last answer of each dialogue, main metric first: exact_match, bleu, chrf,
        rouge1, rouge2, rougeL, rougeLsum"""

        def __post_init__(self) -> None:
            template = (
                dict.fromkeys(_ROLES, "{content}") if self.template == _CHAT_NAME else self.template
            )
            if unknown := sorted({*template, *self.roles.values()} - set(_ROLES)):
                raise ValueError(
                    f"template, roles: expected {', '.join(_ROLES)}, got {unknown[0]!r}"
                )

            if missing := sorted({"user", "assistant"} - set(template)):
                raise ValueError(f"template: expected an entry for {' and '.join(missing)}")
            for role, text in template.items():
                if text.count("{content}") != 1:
                    raise ValueError(f"template.{role}: expected {{content}} once, got {text!r}")

    options: Options

    @property
    def metadata(self) -> TaskMetadata:
        return TaskMetadata(name=self.options.task, head="lm", metrics=tuple(self.options.metrics))

    def open(self, path: Path) -> RowFile:
        file = open_table(path, self.limits)
        file.require(self.options.messages, keys=KEYS)
        return file

    def read_unlabeled(self, path: Path) -> Iterator[tuple[TaskItem | Rejected, Any]] | None:
        return self.read_with_placeholders(path, self._with_placeholder_answer)

    def _with_placeholder_answer(self, row: Row, index: int) -> Dialogue:
        """Return the dialogue of a row whose last answer may be missing; any text replaces it."""
        messages = self._messages(row)
        if messages[-1][0] != "assistant":
            messages.append(("assistant", messages[-1][1]))
        return Dialogue(tuple(messages), index)

    def _messages(self, row: Row) -> list[tuple[str, str]]:
        entries = value_at(row, self.options.messages)
        messages = [*map(self._message, entries)] if isinstance(entries, list) else []
        if not messages:
            raise Unfit("fields")
        return messages

    def item(self, row: Row, index: int) -> Dialogue:
        messages = self._messages(row)
        answers = [number for number, (role, _) in enumerate(messages) if role == "assistant"]
        if not answers:
            raise Unfit("no_answer")
        return Dialogue(tuple(messages[: answers[-1] + 1]), index)

    def _message(self, message: object) -> tuple[str, str]:
        """Return role and content of a message."""
        role, content = (
            message.get(name) if isinstance(message, Mapping) else None
            for name in (self.options.role, self.options.content)
        )
        if not isinstance(role, str) or not isinstance(content, str):
            raise Unfit("fields")
        role = self.options.roles.get(role, role)
        if role not in (_ROLES if self.options.template == _CHAT_NAME else self.options.template):
            raise Unfit("unknown_role")
        if not content.strip():
            raise Unfit("empty_text")
        return role, content

    def complete(
        self, items: Iterable[TaskItem | Rejected], tokenizer: Tokenizer
    ) -> Iterable[TaskItem | Rejected]:
        """Return the dialogues with template parts.

        ConfigurationError if a special token is missing.
        """
        if isinstance(templates := self.options.template, str):
            from clozeline.extensions.tasks.sets.chat_template import write_dialogues

            return write_dialogues(items, tokenizer)

        specials = special_ids(tokenizer)
        id_of = tokenizer.vocabulary.id_of
        fields = re.compile(f"{_TEMPLATE_FIELD}|(?P<piece>{pieces_pattern(specials)})")

        def fill(role: str, content: str) -> Iterator[TemplatePart]:
            template = templates[role]
            position = 0
            is_target = False

            for match in fields.finditer(template):
                if template[position : match.start()]:
                    yield TemplatePart(template[position : match.start()])
                if match["piece"]:
                    yield TemplatePart("", is_target, (specials[match["piece"]],))
                elif match["special"]:
                    yield TemplatePart(
                        "", is_target, (id_of(match["special"], "the template of the task"),)
                    )
                else:
                    is_target = role == "assistant"
                    yield TemplatePart(match["space"] + content, is_target)
                position = match.end()

            if template[position:]:
                yield TemplatePart(template[position:])

        return (
            _fill_messages(item, fill) if isinstance(item, Dialogue) else item for item in items
        )


def _fill_messages(item: Dialogue, fill: Callable[[str, str], Iterator[TemplatePart]]) -> Dialogue:
    parts: list[TemplatePart] = []
    for role, content in item.messages:
        parts += fill(role, content)
    while not parts[-1].is_target:
        parts.pop()
    return replace(item, parts=tuple(parts))
