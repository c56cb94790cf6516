from __future__ import annotations

import subprocess
import sys

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.chat_template import Rendering, render_dialogues
from tests.pipeline.tasks.chat_folders import PLAIN

PAIR = [("user", "a"), ("assistant", "b")]


@pytest.mark.parametrize(
    "template",
    ["{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "{{ 7 ** (7 ** 10) % 10 }}"],
    ids=["loops", "integers"],
)
def test_a_template_cannot_hold_a_worker(template: str) -> None:
    with pytest.raises(ConfigurationError, match=r"used 0\.5 s of CPU time .* begins with 'a'"):
        render_dialogues(Rendering(template, {}, [], cpu_s=0.5, message_s=0), [PAIR])


def test_dialogues_share_the_time() -> None:
    """No dialogue uses all of the time, but all of them together do."""
    template = "{% for a in range(9999) %}{% for b in range(9) %}{% endfor %}{% endfor %}"
    with pytest.raises(ConfigurationError, match="CPU time"):
        render_dialogues(Rendering(template, {}, [], cpu_s=0.5, message_s=0), [PAIR] * 10_000)


def test_memory_is_bounded_and_the_process_goes_on() -> None:
    template = "{% if messages[0].content == 'b' %}b{% else %}{{ 'a' * 10 ** 10 }}{% endif %}"
    first, second = render_dialogues(Rendering(template, {}, []), [PAIR, [("user", "b"), ("assistant", "b")]])
    assert first["refused"] == "template"
    assert second["text"] == "b"


@pytest.mark.parametrize(
    "template",
    ["{{ messages[0].content * 200000 }}", "{{ ''.__class__.__mro__[1].__subclasses__() }}",
     "{{ cycler.__init__.__globals__.os.system('true') }}", "{% include '/etc/passwd' %}", "{{ messages.append(1) }}"],
    ids=["length", "classes", "globals", "file", "change"],
)  # fmt: skip
def test_a_template_is_in_the_sandbox_of_transformers(template: str) -> None:
    with pytest.raises(Exception, match=r"unsafe|at most|no loader|not safely callable|undefined"):
        Rendering(template, {}, []).render(PAIR)


def test_neither_worker_nor_sandbox_import_torch() -> None:
    """The worker does not even import transformers."""
    code = (
        "import sys, clozeline.pipeline.tasks.chat_template, clozeline.pipeline.tasks.readers.instructions\n"
        "assert 'transformers' not in sys.modules\n"
        "from clozeline.pipeline.tasks.chat_template import Rendering\n"
        "Rendering('', {}, []).render([('user', 'a'), ('assistant', 'b')])\n"
        "assert 'transformers' in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_answers_of_a_template_without_marks() -> None:
    """Characters that each answer adds; a template that drops earlier thoughts has no such text."""
    rendering = Rendering(PLAIN["thinking"], {}, [])
    chat = [*PAIR, ("user", "c"), ("assistant", "thought</think>d")]
    found = rendering.render(chat)
    assert [found["text"][begin:end] for begin, end in found["spans"]] == [
        "b<|im_end|>\n",
        "thought</think>d<|im_end|>\n",
    ]
    assert rendering.render([*chat, *PAIR])["refused"] == "no_prefix"
    assert Rendering("{{ messages | length }}", {}, []).render(PAIR)["refused"] == "no_prefix"
