"""Write dialogues by the chat template of a published tokenizer, as transformers does.

Ids and answers are equal to those of transformers. Templates are rendered in a child process that
can be killed, because the jinja sandbox of transformers does not limit time.
"""

import json
import logging
import re
import resource
import signal
import sys
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.extensions.tasks.readers import Dialogue, Rejected, TaskItem, TemplatePart
from clozeline.files import read_object, read_text
from clozeline.pipeline.tokenize.tokenizers import Tokenizer, pieces_pattern, special_ids
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson
from clozeline.pipeline.vocabulary import SPECIALS
from clozeline.process import ChildLimits, python_command, run_child

_LOG: Final = logging.getLogger(__name__)
_NAME_START = "\U000f0000"
_NAME_END = "\U000f0001"
"""Characters that transformers writes around the name of a special token in a message."""
_PRIVATE_NAME: Final = re.compile(f"{_NAME_START}[0-9]+{_NAME_END}")
_ADDED_MEMORY_BYTES: Final = 1 << 30
"""Bytes of address space that rendering may add."""
_BASE_LENGTH: Final = 100_000
_GROWTH: Final = 20
"""Limit of a rendered text: `_BASE_LENGTH` characters, plus `_GROWTH` per character of its
messages."""
_GENERATION_MARK: Final = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")

Message = tuple[str, str]
"""Role and content."""


@dataclass(frozen=True)
class Rendering:
    """A template with its variables, and the names of special tokens, marked in messages."""

    template: str
    variables: Mapping[str, str]
    specials: Sequence[str]
    cpu_s: float = 10.0
    """CPU seconds allowed for all dialogues together, before `message_s` is added"""
    message_s: float = 0.02
    """CPU seconds allowed in addition for each message"""

    def render(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the `text` of a dialogue and the character `spans` of the answers, or a refusal.

        The template marks answers with `{% generation %}`. Without such marks, an answer is the
        text that its message adds to the rendering of the messages before it. The complete text
        must begin with that rendering.
        """
        from transformers.utils import chat_template_utils

        chats: Any = chat_template_utils
        control, _ = chats._get_control_token_patterns(tuple(self.specials))
        chat = [{"role": role, "content": content} for role, content in messages]
        marked = bool(_GENERATION_MARK.search(self.template))
        write = partial(chats.render_jinja_template, chat_template=self.template, **self.variables)
        chat = chats.mark_control_tokens(chat, control)
        (text,), spans = write([chat], return_assistant_tokens_mask=marked)
        limit = _BASE_LENGTH + _GROWTH * sum(len(content) for _, content in messages)
        if len(text) > limit:
            raise ValueError(
                f"the template writes {len(text):,} characters, expected at most {limit:,}"
            )

        if marked:
            return {"text": text, "spans": spans[0], "marked": True}

        answers = []

        for number, (role, _) in enumerate(messages):
            if role == "assistant":
                (before,), _ = write([chat[:number]], add_generation_prompt=True)
                (after,), _ = write([chat[: number + 1]])
                if not (after.startswith(before) and text.startswith(after)):
                    return {
                        "refused": "no_prefix",
                        "detail": f"message {number + 1} changes the text before it",
                    }
                answers.append((len(before), len(after)))

        return {"text": text, "spans": answers, "marked": False}


def render_dialogues(
    rendering: Rendering, dialogues: Sequence[Sequence[Message]]
) -> list[dict[str, object]]:
    """Return the results of `Rendering.render`.

    ConfigurationError if the template ends its process.
    """
    lines = "".join(f"{json.dumps(value)}\n" for value in (asdict(rendering), *dialogues))
    code = f"from {__name__} import serve; serve()"
    child = run_child(
        python_command("-c", code), limits=ChildLimits(), input=lines.encode(), stderr=None
    )
    answers = [json.loads(line) for line in child.stdout.split(b"\n")[:-1]]

    if len(answers) < len(dialogues):
        status = child.returncode
        content = dialogues[len(answers)][0][1]
        reason = (
            f"used {rendering.cpu_s:g} s of CPU time"
            if status == -signal.SIGPROF
            else "ended its process"
        )
        raise ConfigurationError(
            f"tasks.reader.template: the chat template {reason} ({status}) at the dialogue that "
            f"begins with {content[:60]!r}: correct the template, or give one for each role"
        )

    return answers


def serve() -> None:
    """Run in the child process: read a `Rendering`, then answer each line of messages."""
    setup, *dialogues = map(json.loads, sys.stdin)
    rendering = Rendering(**setup)
    import psutil
    from transformers.utils import chat_template_utils  # noqa: F401 (its import has no bound)

    memory = psutil.Process().memory_info().vms + _ADDED_MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # the default action of SIGPROF ends the process even inside a product of huge integers
    signal.setitimer(
        signal.ITIMER_PROF, rendering.cpu_s + rendering.message_s * sum(map(len, dialogues))
    )

    for messages in dialogues:
        try:
            answer = rendering.render(messages)
        except (Exception, MemoryError) as error:  # a failing template rejects the row
            answer = {"refused": "template", "detail": f"{type(error).__name__}: {error}"[:500]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def write_dialogues(
    items: Iterable[TaskItem | Rejected], tokenizer: Tokenizer
) -> Iterable[TaskItem | Rejected]:
    """Return the dialogues, with parts written by the chat template of the tokenizer's folder.

    Reasons for rejection: `template`, it raises an error or writes too much; `no_prefix`, it marks
    no answers, and an answer changes the text before it; `no_answer`, no token is an answer;
    `private_use`, a message holds U+F0000 or U+F0001.

    Raises:
        ConfigurationError: the folder has no chat template, or the template ends the child process,
            for example by too much CPU time.
    """
    specials = special_ids(tokenizer)
    template, variables = read_chat_template(tokenizer)

    if "strftime_now" in template:
        _LOG.warning(
            "tasks.reader.template: the chat template writes the date: on another day, the rows "
            "are different"
        )

    encoder = _ChatEncoder(tokenizer, specials)
    rows = list(items)
    dialogues = [item.messages for item in rows if isinstance(item, Dialogue)]
    answers = iter(render_dialogues(Rendering(template, variables, list(specials)), dialogues))
    return (
        _write(item, next(answers), encoder) if isinstance(item, Dialogue) else item
        for item in rows
    )


def read_chat_template(tokenizer: Tokenizer) -> tuple[str, dict[str, str]]:
    """Return the chat template of a tokenizer's folder, and variables such as `bos_token`.

    Raises:
        ConfigurationError: the folder has no chat template, or several without a default.
    """
    vocabulary = tokenizer.vocabulary
    variables = {
        f"{role}_token": tokenizer.piece(token) for role, token in vocabulary.specials.items()
    }
    own_folder = vocabulary.folder
    for folder in () if own_folder is None else (own_folder / "source", own_folder):
        config, of_map = (
            read_object(folder / name)
            for name in ("tokenizer_config.json", "special_tokens_map.json")
        )
        template = _read_text(folder / "chat_template.jinja") or config.get("chat_template")
        if isinstance(template, list):  # several by name
            template = next(
                (entry.get("template") for entry in template if entry.get("name") == "default"),
                None,
            )

        if isinstance(template, str):
            # transformers reads the map only next to older configurations
            tokens = {**config, **({} if "added_tokens_decoder" in config else of_map)}
            for name, token in tokens.items():
                if name.removesuffix("_token") in SPECIALS:
                    variables[name] = token["content"] if isinstance(token, dict) else token
            return template, {name: token for name, token in variables.items() if token is not None}

    raise ConfigurationError(
        "tasks.reader.template: chat uses the chat template of a published tokenizer, but "
        f"{vocabulary.folder} has none: expected chat_template.jinja, or chat_template in "
        "tokenizer_config.json; give a template for each role instead"
    )


def _read_text(path: Path) -> str:
    try:
        return read_text(path) if path.is_file() else ""
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: expected text in UTF-8, got {error}") from error


def _write(item: Dialogue, answer: dict[str, Any], encoder: "_ChatEncoder") -> Dialogue | Rejected:
    """Return a dialogue with the parts of its rendered text."""
    contents = tuple(content for _, content in item.messages)
    if any(mark in content for content in contents for mark in (_NAME_START, _NAME_END)):
        return Rejected("private_use", item.index, texts=contents)
    if "text" not in answer:
        return Rejected(answer["refused"], item.index, answer["detail"], contents)
    parts = encoder.parts(answer)
    if parts is None or not any(part.is_target for part in parts):
        return Rejected("no_prefix" if parts is None else "no_answer", item.index, texts=contents)
    return replace(item, parts=tuple(parts), is_framed=True)


class _ChatEncoder:
    """Encodes rendered texts as transformers does, but messages never become special tokens.

    Its special tokens have private names, which replace the names that the template writes.
    """

    def __init__(self, tokenizer: object, specials: dict[str, int]) -> None:
        if not isinstance(tokenizer, TokenizerJson):
            raise ConfigurationError(
                "tasks.reader.template: chat needs a published tokenizer with a tokenizer.json"
            )

        names = pieces_pattern(specials)
        self._names = re.compile(
            f"{_NAME_START}({names}){_NAME_END}|[{_NAME_START}{_NAME_END}]|({names})"
        )
        self._specials = specials
        self._library = tokenizer.rename_specials(
            {token: _private_name(token) for token in specials.values()}
        )
        self._ids = np.arange(self._library.get_vocab_size() + 1)
        for token in specials.values():
            self._ids[self._library.token_to_id(_private_name(token))] = token

    def parts(self, answer: dict[str, Any]) -> list[TemplatePart] | None:
        """Return the parts of a rendered dialogue.

        None if a token crosses the edge of an unmarked answer.
        """
        text, olds, news = self._rename(answer["text"])
        row = self._library.encode(text, add_special_tokens=False)
        if not (ids := self._ids[row.ids]).size:
            return []
        starts, ends = np.array(row.offsets, np.int64).reshape(-1, 2).T
        has_loss = np.zeros(len(ids), np.bool_)  # [T]

        for span in answer["spans"]:
            begin, end = (news[at := bisect(olds, edge) - 1] + edge - olds[at] for edge in span)
            first = int(np.searchsorted(ends, begin, "right"))
            stop = int(np.searchsorted(starts, end))
            # like transformers, up to the first token of the last character; if that character has
            # no token, up to the previous one, where transformers would continue to the end of the
            # row
            if answer["marked"]:
                stop = min(stop, int(np.searchsorted(ends, end - 1, "right")) + 1)
            elif first < stop and (starts[first] < begin or ends[stop - 1] > end):
                return None
            has_loss[first:stop] = True

        # split the row where the loss starts or ends
        edges = [*np.flatnonzero(np.diff(has_loss, prepend=~has_loss[:1])).tolist(), len(ids)]
        cuts = [0, *starts[edges[1:-1]].tolist(), len(text)]
        return [
            TemplatePart(
                _PRIVATE_NAME.sub("", text[cut:stop]),
                bool(has_loss[begin]),
                tuple(ids[begin:end].tolist()),
            )
            for (begin, end), (cut, stop) in zip(pairwise(edges), pairwise(cuts), strict=True)
        ]

    def _rename(self, text: str) -> tuple[str, list[int], list[int]]:
        """Return a text with private names, and old and new offsets from which it is unchanged."""
        pieces = []
        olds = [0]
        news = [0]
        for match in self._names.finditer(text):
            written = match[1] or (_private_name(self._specials[match[2]]) if match[2] else "")
            pieces += [text[olds[-1] : match.start()], written]
            news.append(news[-1] + match.start() - olds[-1] + len(written))
            olds.append(match.end())
        return "".join((*pieces, text[olds[-1] :])), olds, news


def _private_name(token: int) -> str:
    return f"{_NAME_START}{token}{_NAME_END}"
