import json

import pytest
from transformers import AutoTokenizer

from clozeline.extensions.tasks.readers import Dialogue, Rejected
from clozeline.extensions.tasks.sets import chat_template
from clozeline.extensions.tasks.sets.chat_template import (
    Rendering,
    read_chat_template,
    render_dialogues,
    write_dialogues,
)
from clozeline.pipeline.tokenize.tokenizers import special_ids
from tests.extensions.tasks.sets.chat_folders import MARKED, PLAIN, import_folder, write_folder
from tests.refusals import refused

KINDS = ("bytes", "metaspace", "llama")
CHATS = [
    [("user", "2 + 2?"), ("assistant", "four")],
    [
        ("user", "  The\n\nriver "),
        ("assistant", "runs 😀"),
        ("user", "é<think>中文\r\n"),
        ("assistant", " says\tfour "),
    ],
    [
        ("system", "The small"),
        ("user", "{{ 1 }} {% if %} Ünï"),
        ("assistant", "a" * 300),
        ("user", "?"),
        ("assistant", "\u00a0."),
    ],
    [
        ("user", "user\nassistant\n"),
        ("assistant", "👩\u200d👧 e\u0301</think>"),
        ("user", "x"),
        ("assistant", "[INST] y [/INST]"),
    ],
]


def ids_and_answers(item):
    """The ids of a dialogue, and which of them are answers."""
    ids = [token for part in item.parts for token in part.ids]
    return ids, [int(part.is_target) for part in item.parts for _ in part.ids]


def write_all(chats, tokenizer):
    return list(
        write_dialogues(
            (Dialogue(tuple(chat), index) for index, chat in enumerate(chats)), tokenizer
        )
    )


def peer_ids(peer, messages, **options):
    chat = [{"role": role, "content": content} for role, content in messages]
    return peer.apply_chat_template(chat, **{"return_dict": False, **options})


@pytest.fixture
def rendered_here(monkeypatch):
    """Without a process for each template, whose start takes a second."""
    monkeypatch.setattr(
        chat_template, "render_dialogues", lambda rendering, chats: [*map(rendering.render, chats)]
    )


@pytest.mark.usefixtures("rendered_here")
@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_answers_are_those_of_transformers(kind, tmp_path):
    """Of templates without marks, an answer is what its message adds to the ids of the messages
    before it."""
    for name, template in {**PLAIN, **MARKED}.items():
        source = write_folder(tmp_path / name / "source", kind, template)
        peer = AutoTokenizer.from_pretrained(source)
        ours = import_folder(source, tmp_path / name / "ours")
        chats = CHATS if name != "gemma" else [chat for chat in CHATS if chat[0][0] != "system"]
        for messages, item in zip(chats, write_all(chats, ours), strict=True):
            expected = peer_ids(peer, messages)

            if name in MARKED:
                whole = peer_ids(
                    peer, messages, return_dict=True, return_assistant_tokens_mask=True
                )
                assert ids_and_answers(item) == (expected, whole["assistant_masks"])
                continue

            mask = [0] * len(expected)
            is_prefix = True

            for number in (n for n, (role, _) in enumerate(messages) if role == "assistant"):
                before = peer_ids(peer, messages[:number], add_generation_prompt=True)
                after = peer_ids(peer, messages[: number + 1])
                is_prefix &= after[: len(before)] == before and expected[: len(after)] == after
                mask[len(before) : len(after)] = [1] * (len(after) - len(before))

            assert isinstance(item, Rejected) != is_prefix

            if is_prefix:
                assert ids_and_answers(item) == (expected, mask)


@pytest.mark.usefixtures("rendered_here")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("template", [PLAIN["chatml"], MARKED["end outside"]])
def test_nothing_in_a_message_becomes_a_special_token(kind, template, tmp_path):
    """The special tokens are those of a dialogue without such names.

    The text is what the template writes.
    """
    ours = import_folder(write_folder(tmp_path / "source", kind, template), tmp_path / "ours")
    specials = special_ids(ours)
    reserved = {*specials.values()} - {specials["<unk>"]}
    names = [
        *specials,
        *(f"\0{name}" for name in specials),
        "<|im_<|im_end|>",
        "</s></s>",
        "<|im_end|>\n<|im_start|>user",
    ]

    contents = ["a", *(text for name in names for text in (name, f"a {name} b", f"{name}\n"))]
    items = write_all([[("user", text), ("assistant", text)] for text in contents], ours)
    found = [[token for token in ids_and_answers(item)[0] if token in reserved] for item in items]

    assert found[0]
    assert found == [found[0]] * len(items)

    for content, item in zip(contents, items, strict=True):
        text = "".join(part.text for part in item.parts)
        assert text.replace("\n", "") == f"user{content}assistant{content}".replace("\n", "")


def test_what_a_template_refuses_is_rejected_with_its_words(tmp_path):
    """The rows around it stay."""
    ours = import_folder(
        write_folder(tmp_path / "source", "bytes", PLAIN["gemma"]), tmp_path / "ours"
    )
    pair = [("user", "x"), ("assistant", "y")]
    first, system, order, last = write_all(
        [pair, [("system", "s"), *pair], [("user", "x"), *pair], pair], ours
    )

    assert (system.reason, system.index, order.reason) == ("template", 1, "template")
    assert "System role not supported" in system.detail
    assert "roles must alternate" in order.detail
    assert ids_and_answers(first) == ids_and_answers(last)


def test_a_row_that_could_write_marks_is_rejected(tmp_path, caplog):
    """The private names are made of these characters. A template that writes the date is named."""
    template = PLAIN["chatml"] + "{% if false %}{{ strftime_now('%d') }}{% endif %}"
    ours = import_folder(write_folder(tmp_path / "source", "bytes", template), tmp_path / "ours")
    forged = f"\U000f0000{special_ids(ours)['<|im_end|>']}\U000f0001"
    forger = Dialogue((("user", forged), ("assistant", "b")), 0)
    items = write_dialogues([forger, Rejected("fields", 1)], ours)

    assert list(items) == [Rejected("private_use", 0), Rejected("fields", 1)]
    assert "on another day, the rows are different" in caplog.text


@pytest.mark.parametrize("layout", ["config", "list", "jinja", "map"])
def test_the_template_and_its_variables_are_found_where_transformers_finds_them(layout, tmp_path):
    text = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    source = write_folder(tmp_path / "source", "bytes", text)
    config = json.loads((source / "tokenizer_config.json").read_text())

    if layout == "list":
        config["chat_template"] = [
            {"name": "tool_use", "template": "no"},
            {"name": "default", "template": text},
        ]

    if layout == "jinja":
        config["chat_template"] = "no"
        (source / "chat_template.jinja").write_text(text)

    if layout == "map":
        config |= {"eos_token": None}
        roles = {"eos_token": {"content": "<|im_end|>"}}

        (source / "special_tokens_map.json").write_text(json.dumps(roles))

    (source / "tokenizer_config.json").write_text(json.dumps(config))
    ours = import_folder(source, tmp_path / "ours")
    template, variables = read_chat_template(ours)
    found = Rendering(template, variables, []).render([("user", "a"), ("assistant", "b")])
    peer = AutoTokenizer.from_pretrained(source)

    assert found["text"] == peer_ids(peer, [("user", "a"), ("assistant", "b")], tokenize=False)


def test_a_folder_without_a_template_is_named(tmp_path):
    source = write_folder(tmp_path / "source", "bytes", "")
    (source / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    with refused(f"{tmp_path}/ours has none"):
        read_chat_template(import_folder(source, tmp_path / "ours"))


PAIR = [("user", "a"), ("assistant", "b")]


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 7 ** (7 ** 10) % 10 }}",
    ],
)
def test_a_template_cannot_hold_a_worker(template):
    with refused(r"used 0\.5 s of CPU time .* begins with 'a'"):
        render_dialogues(Rendering(template, {}, [], cpu_s=0.5, message_s=0), [PAIR])


def test_memory_is_bounded_and_the_process_goes_on():
    """No dialogue uses all of the time, but all of them together do."""
    template = "{% if messages[0].content == 'b' %}b{% else %}{{ 'a' * 10 ** 10 }}{% endif %}"
    first, second = render_dialogues(
        Rendering(template, {}, []), [PAIR, [("user", "b"), ("assistant", "b")]]
    )

    assert (first["refused"], second["text"]) == ("template", "b")

    template = "{% for a in range(9999) %}{% for b in range(9) %}{% endfor %}{% endfor %}"
    with refused("CPU time"):
        render_dialogues(Rendering(template, {}, [], cpu_s=0.5, message_s=0), [PAIR] * 10_000)


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[0].content * 200000 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
    ],
)
def test_a_template_is_in_the_sandbox_of_transformers(template):
    with pytest.raises(Exception, match=r"unsafe|at most"):
        Rendering(template, {}, []).render(PAIR)
