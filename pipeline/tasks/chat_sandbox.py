"""Render chat templates in a child process that can be killed: the jinja sandbox of transformers bounds no time."""

import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from clozeline.errors import ConfigurationError

_MEMORY: Final = 1 << 30
"""Bytes of address space that rendering may add."""
_ROOM: Final = 100_000
_GROWTH: Final = 20
"""A text may have `_ROOM` characters, and `_GROWTH` for each character of its messages."""
_MARKED: Final = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")

Message = tuple[str, str]
"""Role and content."""


@dataclass(frozen=True)
class Rendering:
    """A template, its variables, and the names of special tokens, which are marked where a message holds them."""

    template: str
    variables: Mapping[str, str]
    specials: Sequence[str]
    cpu_s: float = 10.0
    """CPU seconds for all dialogues"""
    message_s: float = 0.02
    """CPU seconds that each message adds"""

    def render(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the `text` of a dialogue and the character `spans` of its answers, or why it is `refused`.

        The spans are what the template marks with `{% generation %}`. Without such marks, an answer is what its
        message adds to the rendering of the messages before it, of which the text must be a continuation.
        """
        from transformers.utils import chat_template_utils

        chats: Any = chat_template_utils
        control, _ = chats._get_control_token_patterns(tuple(self.specials))
        chat = [{"role": role, "content": content} for role, content in messages]
        marked = bool(_MARKED.search(self.template))
        write = partial(chats.render_jinja_template, chat_template=self.template, **self.variables)
        chat = chats.mark_control_tokens(chat, control)
        (text,), spans = write([chat], return_assistant_tokens_mask=marked)
        if len(text) > (most := _ROOM + _GROWTH * sum(len(content) for _, content in messages)):
            raise ValueError(f"the template writes {len(text):,} characters, expected {most:,} at most")
        if marked:
            return {"text": text, "spans": spans[0], "marked": True}
        answers = []
        for number, (role, _) in enumerate(messages):
            if role == "assistant":
                (before,), _ = write([chat[:number]], add_generation_prompt=True)
                (after,), _ = write([chat[: number + 1]])
                if not (after.startswith(before) and text.startswith(after)):
                    return {"refused": "no_prefix", "detail": f"message {number + 1} changes the text before it"}
                answers.append((len(before), len(after)))
        return {"text": text, "spans": answers, "marked": False}


def render_dialogues(rendering: Rendering, dialogues: Sequence[Sequence[Message]]) -> list[dict[str, Any]]:
    """Return what `Rendering.render` returns of each dialogue; ConfigurationError if the template ends its process."""
    lines = "".join(f"{json.dumps(value)}\n" for value in (asdict(rendering), *dialogues))
    code = f"from {__name__} import serve; serve()"
    child = subprocess.run([sys.executable, "-c", code], input=lines.encode(), stdout=subprocess.PIPE, check=False)
    answers = [json.loads(line) for line in child.stdout.split(b"\n")[:-1]]
    if len(answers) < len(dialogues):
        status, content = child.returncode, dialogues[len(answers)][0][1]
        reason = f"used {rendering.cpu_s:g} s of CPU time" if status == -signal.SIGPROF else "ended its process"
        raise ConfigurationError(
            f"tasks.reader.template: the chat template {reason} ({status}) at the dialogue that begins with "
            f"{content[:60]!r}: correct the template, or give one for each role"
        )
    return answers


def serve() -> None:
    """Run the child's side: read a `Rendering`, then answer each line of messages with a line."""
    setup, *dialogues = map(json.loads, sys.stdin)
    rendering = Rendering(**setup)
    import psutil
    from transformers.utils import chat_template_utils  # noqa: F401 (its import has no bound)

    memory = psutil.Process().memory_info().vms + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # the default action of SIGPROF ends the process even inside a product of huge integers
    signal.setitimer(signal.ITIMER_PROF, rendering.cpu_s + rendering.message_s * sum(map(len, dialogues)))
    for messages in dialogues:
        try:
            answer = rendering.render(messages)
        except (Exception, MemoryError) as error:  # whatever a template raises is about its row
            answer = {"refused": "template", "detail": f"{type(error).__name__}: {error}"[:500]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
