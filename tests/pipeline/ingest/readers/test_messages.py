"""Dialogues in tables and JSON are written as texts, or counted with what they lack."""

import json
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.configuration.config import validate
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_rejections
from clozeline.pipeline.ingest.readers._messages import (
    DialogueError,
    MessageOptions,
    is_dialogue,
    write_dialogue,
)
from tests.pipeline.clean.cleaning import run_clean
from tests.refusals import refused

CHAT = [
    {"role": "user", "content": "Is it {content}?"},
    {"role": "assistant", "content": "Yes.\nIt is."},
]
SHAREGPT = [
    {"from": "human", "value": "Is it {content}?"},
    {"from": "gpt", "value": "Yes.\nIt is."},
]
PARTS = [
    {
        **message,
        "content": [
            {
                "type": "text",
                "text": message["content"],
            }
        ],
    }
    for message in CHAT
]
WRITTEN = "User: Is it {content}?\nAssistant: Yes.\nIt is."


def texts_of(done):
    return [document.text for document in done.documents]


@pytest.mark.parametrize(
    ("key", "messages", "options"),
    [
        ("messages", CHAT, {}),
        ("messages", PARTS, {}),
        ("conversations", SHAREGPT, {"messages": {"role": "from", "content": "value"}}),
    ],
)
@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
def test_a_dialogue_is_a_text(tmp_path, key, messages, options, suffix):
    """The hints went in a circle: no text among the keys: messages; then: messages is a list."""
    path = tmp_path / f"chat{suffix}"

    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([{key: messages, "id": 7}]), path)
    else:
        row = {key: messages, "id": 7}
        path.write_text(json.dumps([row] if suffix == ".json" else row))

    done = run_clean({"path": str(path), "text_key": key, **options}, tmp_path / "out")

    assert texts_of(done) == [WRITTEN]
    assert done.documents[0].extra == {"id": 7}


def test_hints_lead_to_a_run(tmp_path, capsys):
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps({"messages": CHAT, "tags": ["a"]}) + "\n")
    words = ["clean", f"input={path}", "clean.filters=[]", "clean.language=null"]

    assert main([*words, f"output={tmp_path / 'a'}"]) == 64

    said = capsys.readouterr().err

    assert "no 'text' among the keys: messages, tags; did you mean 'messages'" in said
    assert "input.text_key=KEY" in said
    template = """input.messages.template={user: "Q: {content}\\n", assistant: "A: {content}\\n"}"""

    assert main([*words, f"output={tmp_path / 'c'}", "input.text_key=messages", template]) == 0


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"role": "narrator", "content": "x"}, "a message has the role 'narrator'"),
        (
            {"role": "assistant", "content": None, "tool_calls": []},
            "'content' is null in a message",
        ),
        (
            {"from": "gpt", "value": "x"},
            "a message has no 'role', but from, value; name it by messages: {role: KEY}",
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": "x"}]},
            "a part of the type 'image_url'",
        ),
        ({"role": "user", "content": 5}, "a part of the type 'int'"),
    ],
)
def test_what_cannot_be_written_is_counted_and_told(tmp_path, message, why):
    path = tmp_path / "chat.jsonl"
    path.write_text(
        "".join(json.dumps({"messages": each}) + "\n" for each in ([*CHAT, message], CHAT)),
    )
    done = run_clean({"path": str(path), "text_key": "messages"}, tmp_path / "out")

    assert texts_of(done) == [WRITTEN]
    assert done.nonzero("malformed") == {"text_type": 1}

    (listed,) = read_rejections(next(done.folder.glob("rejects/*")))

    assert why in listed.detail


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"template": {"user": "x"}}, "expected {content} once"),
        ({"template": {"user": "{content}{content}"}}, "expected {content} once"),
        ({"roles": {"bot": "robot"}}, "template has no entry for 'robot'"),
        ({"rol": "x"}, "unknown key 'rol'"),
    ],
)
def test_mistakes_of_options_are_named(options, said):
    with refused(said.replace("{", r"\{")):
        validate(MessageOptions, options, "messages")


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["role", "content", "x"]), VALUES, max_size=3), max_size=4
    )
)
def test_any_list_is_written_or_refused(messages):
    assert is_dialogue(messages) == bool(messages)
    with suppress(DialogueError):
        assert isinstance(write_dialogue(messages, MessageOptions()), str)


@given(
    st.lists(
        st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), st.text(max_size=30)),
        max_size=6,
    )
)
def test_every_content_is_in_the_text_in_order(messages):
    text = write_dialogue(
        [{"role": role, "content": content} for role, content in messages], MessageOptions()
    )
    at = 0
    for _, content in messages:
        at = text.index(content, at) + len(content)
