import pytest

from clozeline.extensions.tasks.readers import Dialogue, TemplatePart
from clozeline.extensions.tasks.rows.lm import TurnRows
from clozeline.extensions.tasks.sets.task_rows import FRAMES, Form
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.extensions.tasks.readers.reading import (
    items_of,
    json_lines,
    read,
    reader_of,
    reasons,
    written,
)
from tests.pipeline.task_files import write_vocabulary
from tests.refusals import refused


def said(*messages):
    return json_lines(
        {"messages": [{"role": role, "content": content} for role, content in messages]}
    )


@pytest.fixture
def words(tmp_path):
    return import_tokenizer(write_vocabulary(tmp_path, further=["[EOS]"]), tmp_path / "ours")


def special(token, *, is_target=False):
    return TemplatePart("", is_target, (token,))


def test_a_dialogue_is_written_in_its_template(tmp_path, words):
    """The answers alone are learned, with the special token that ends them.

    What follows the last answer is left out.
    """
    text = said(
        ("system", "Be short."),
        ("user", "2 + 2?"),
        ("assistant", "4"),
        ("user", "{eos}?"),
        ("assistant", "</s> {content}"),
        ("user", "Thanks."),
    )

    reader = reader_of("instructions")
    (item,) = reader.complete(items_of(reader, written(tmp_path, text)), words)
    end = special(5, is_target=True)

    assert item.parts == (
        TemplatePart("Be short."),
        TemplatePart("\n"),
        TemplatePart("User:"),
        TemplatePart(" 2 + 2?"),
        TemplatePart("\n"),
        TemplatePart("Assistant:"),
        TemplatePart(" 4", is_target=True),
        end,
        TemplatePart("\n"),
        TemplatePart("User:"),
        TemplatePart(" {eos}?"),
        TemplatePart("\n"),
        TemplatePart("Assistant:"),
        TemplatePart(" </s> {content}", is_target=True),
        end,
    )
    assert item.answers == (
        ("Be short.\nUser: 2 + 2?\nAssistant:", ("4",)),
        ("Be short.\nUser: 2 + 2?\nAssistant: 4\nUser: {eos}?\nAssistant:", ("</s> {content}",)),
    )
    assert (item.overlap_texts, item.index) == (("Be short.",), 0)


def test_other_names_and_another_template(tmp_path, words):
    turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]
    line = json_lines({"chat": {"turns": turns}})
    reader = reader_of(
        "instructions",
        messages="chat.turns",
        role="from",
        content="value",
        roles={"human": "user", "gpt": "assistant"},
        template={"user": "{cls}{content}{sep}", "assistant": "{content} (end){sep}"},
    )

    (item,) = reader.complete(items_of(reader, written(tmp_path, line)), words)

    assert item.parts == (
        special(2),
        TemplatePart("Hi"),
        special(3),
        TemplatePart("Hello", is_target=True),
        TemplatePart(" (end)"),
        special(3, is_target=True),
    )

    other = reader_of("instructions", template={"user": "{bos}{content}", "assistant": "{content}"})

    with refused("the template of the task needs the special token 'bos'"):
        list(other.complete([item], words))


def test_special_tokens_of_a_template_are_ids_and_those_of_messages_texts(tmp_path, words):
    """A token that ends an answer is learned, as one that is named by its role."""
    template = {"user": "[CLS]user: {content}[SEP]\n", "assistant": "[CLS]\n{content}[EOS]\n"}
    reader = reader_of("instructions", template=template)
    text = said(("user", "[SEP] good"), ("assistant", "[EOS]"))
    (item,) = reader.complete(items_of(reader, written(tmp_path, text)), words)

    assert item.parts == (
        special(2),
        TemplatePart("user:"),
        TemplatePart(" [SEP] good"),
        special(3),
        TemplatePart("\n"),
        special(2),
        TemplatePart("\n[EOS]", is_target=True),
        special(5, is_target=True),
    )

    (row,) = TurnRows(
        reader.metadata,
        Form(FRAMES["gpt"], 64),
        words,
        "corpus",
        "f",
    ).rows([item])
    ids = row["input_ids"].tolist()

    assert [ids.count(token) for token in (2, 3, 5)] == [2, 1, 1]


def test_every_other_line_has_a_reason(tmp_path):
    user = ("user", "a")
    answer = ("assistant", "b")
    lines = [
        said(user, answer),
        said(user),
        said(answer, user),
        said(user, ("tool", "x"), answer),
        said(user, ("assistant", " ")),
        said(user, ("assistant", 3)),
        '{"messages": []}\n',
        '{"messages": ["a"]}\n',
        '{"message": 1}\n',
    ]

    items = read(tmp_path, "".join(lines), "instructions")

    assert isinstance(items[0], Dialogue)
    assert isinstance(items[2], Dialogue), "the assistant may open a dialogue"
    assert reasons(items) == {"no_answer": 1, "unknown_role": 1, "empty_text": 1, "fields": 4}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"template": {"user": "{content}"}}, "an entry for assistant"),
        ({"template": {"user": "{content}", "assistant": "{eos}"}}, "content"),
        ({"roles": {"gpt": "bot"}}, "expected system, user, assistant, got 'bot'"),
        (
            {"template": "chat", "roles": {"gpt": "bot"}},
            "expected system, user, assistant, got 'bot'",
        ),
    ],
)
def test_mistakes(options, message):
    with refused(message):
        reader_of("instructions", **options)
