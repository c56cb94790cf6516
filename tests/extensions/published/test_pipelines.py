"""Pipelines of transformers on exported models read texts as our own tools do, with byte-level
tokenizers above all."""

import json
import re
from functools import cache

import pytest
import torch
import transformers
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

from clozeline.extensions.published.commands.export_model import main as export_model
from clozeline.extensions.tasks.commands import predict
from clozeline.pipeline.tokenize.tokenizers import save_tokenizer
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe
from tests.extensions.tasks.task_runs import start
from tests.pipeline.task_files import run as run_recipe
from tests.pipeline.task_files import write_recipe_of

BODY = (
    "family: encoder, dim: 32, layers: 2, attention_heads: 2, ffn_dim: 64, type_vocab_size: 2, "
    "norm_place: post,"
)
BODY += " final_norm: false, emb_norm: true, eps: 1.0e-12, position: {kind: learned, maximum: 64},"
BODY += " dropout: {hidden: 0.0, attention: 0.0, embedding: 0.0}"
NAMES = ["Ada - Byron", "Karl ( Marx )", "Mary", "Jean , Paul"]
PLACES = ["Rome", "New York", "Aix - en - Provence"]


def tokenizer_of(folder, size):
    """Byte-level BPE of prose, in which no blank stands before a mark: there a blank is a token of
    its own."""
    prose = [
        f"the {name} lives in {place}, near the sea."
        for name in ("Ada", "Mary", "Paul")
        for place in PLACES
    ]

    prose += [
        f"In {place}, the man {name} (a poet) lives."
        for name in ("Karl", "Marx", "Byron", "Jean")
        for place in PLACES
    ]

    prose = [text.replace(" - ", "-") for text in prose]
    save_tokenizer(ByteBpe.train(prose * 5, ByteBpe.Options(size=size), folder), "byte_bpe", folder)
    return folder


def write_rows(folder, name, rows):
    """JSON lines, or SQuAD's layout."""
    if "question" not in rows[0]:
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
        return

    articles = []

    for row in rows:
        asked = {name: row[name] for name in ("id", "question", "answers")}
        articles.append(
            {
                "title": row["id"],
                "paragraphs": [{"context": row["context"], "qas": [asked]}],
            }
        )

    (folder / f"{name}.json").write_text(json.dumps({"version": "1.1", "data": articles}))


def trained(ranks, folder, reader, rows, head, steps=150, size=480):
    """Make sets of the rows, train a small model on them until it knows them, and export it."""
    (folder / "files").mkdir(parents=True)
    for name in ("train", "dev"):
        write_rows(folder / "files", name, rows)
    write_recipe_of(folder, reader, max_length=48)
    sets = run_recipe(folder, tokenizer_of(folder / "words", size))
    config = folder / "train.yaml"
    config.write_text(
        f"{{model: {{{BODY}, heads: {{{head}}}}}, steps: {steps}, output: {folder}/run, data: "
        f"{{shards: {sets}/train, global_batch: 16, micro_batch: 16, lanes: 4}}, optimizer: "
        "{name: adamw, learning_rate: 0.005}, schedule: {name: constant}, log: {tensorboard: "
        "false}}"
    )

    assert ranks.run(start, config) == [0]
    assert export_model([f"{folder}/run", f"{folder}/exported"]) == 0

    return folder


def predicted(folder, rows):
    source = folder / "asked.jsonl"
    output = folder / "predicted.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    output.unlink(missing_ok=True)

    assert predict.main([f"{folder}/run", f"input={source}", f"output={output}"]) == 0

    return [json.loads(line) for line in output.read_text().splitlines()]


def tagged(number):
    name = NAMES[number % 4]
    place = PLACES[number % 3]
    parts = [
        ("the", None),
        (name, "PER"),
        ("lives in", None),
        (place, "LOC"),
        (", near the sea .", None),
    ]

    if number % 2:
        parts = [
            ("In", None),
            (place, "LOC"),
            (", the man", None),
            (name, "PER"),
            ("( a poet ) lives .", None),
        ]

    words = []
    tags = []

    for text, kind in parts:
        for place_in, word in enumerate(text.split()):
            words.append(word)
            tags.append("O" if kind is None else f"{'I' if place_in else 'B'}-{kind}")

    return {"words": words, "tags": tags}


SENTENCES = [tagged(number) for number in range(12)]


@pytest.fixture(scope="module")
def taggers(one_rank, tmp_path_factory):
    """By the size of the vocabulary: one has words of several tokens."""

    @cache
    def tagger_of(size):
        reader = "{name: labeled, task: toy, words: words, label: tags}"
        return trained(
            one_rank, tmp_path_factory.mktemp("tags"), reader, SENTENCES, "tagging: 1.0", size=size
        )

    return tagger_of


def spans(words, tags):
    """Entities by the tags of words, as characters of the words joined by single blanks."""
    found = []
    at = 0

    for word, tag in zip(words, tags, strict=True):
        if tag[0] == "B":
            found.append([tag[2:], at, at + len(word)])
        elif tag[0] == "I":
            found[-1][2] = at + len(word)
        at += len(word) + 1

    return [tuple(span) for span in found]


def entities_of(read, text):
    return [
        (each["entity_group"], text[each["start"] : each["end"]].replace("  ", " "))
        for each in read(text)
    ]


@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")
@pytest.mark.parametrize("blank", [" ", "  "])
@pytest.mark.parametrize(
    ("size", "strategy"),
    [(480, "first"), (700, "average"), (700, "max"), (700, "simple")],
)
def test_entities_are_those_of_predict(taggers, size, strategy, blank):
    """Blanks stand before marks, and several between words, which are tokens, or with 480 pieces
    several tokens."""
    folder = taggers(size)
    found = predicted(folder, [{"words": row["words"]} for row in SENTENCES])

    assert [row["tags"] for row in found] == [row["tags"] for row in SENTENCES], (
        "the model knows its rows"
    )

    read = pipeline("token-classification", f"{folder}/exported", aggregation_strategy=strategy)

    for row in SENTENCES:
        joined = " ".join(row["words"])
        expected = [
            (kind, joined[start:end]) for kind, start, end in spans(row["words"], row["tags"])
        ]
        assert entities_of(read, blank.join(row["words"])) == expected


def test_tokens_without_aggregation(taggers):
    """Each token of an entity that is more than a blank has the tag of its word."""
    read = pipeline("token-classification", str(taggers(700) / "exported"))

    for row in SENTENCES:
        text = " ".join(row["words"])
        found = [(each["entity"], text[each["start"] : each["end"]]) for each in read(text)]
        expected = [
            (tag, word) for word, tag in zip(row["words"], row["tags"], strict=True) if tag != "O"
        ]
        assert [pair for pair in found if pair[1]] == expected


@pytest.mark.parametrize("size", [480, 700])
def test_the_card_reads_words_as_predict(taggers, size):
    """The lines of the card, on words that the model has seen, and on others, whose tags are
    any."""
    folder = taggers(size)
    lines = (folder / "exported/README.md").read_text().partition("## Words")[2]
    (code,) = re.findall(r"```python\n(.*?)```", lines, re.DOTALL)
    tokenizer = AutoTokenizer.from_pretrained(folder / "exported")
    model = AutoModelForTokenClassification.from_pretrained(folder / "exported")
    sentences = [row["words"] for row in SENTENCES] + [
        ["Rome", ",", "(", "Karl", "Byron", ")", "York", "."]
    ]
    for words, record in zip(
        sentences, predicted(folder, [{"words": words} for words in sentences]), strict=True
    ):
        names = {"tokenizer": tokenizer, "model": model, "words": words}
        with torch.no_grad():
            exec(code, names)
        if words in [row["words"] for row in SENTENCES]:
            assert names["tags"] == record["tags"]
        else:
            assert len(names["tags"]) == len(words)


def test_numbers_are_not_squashed(one_rank, tmp_path):
    rows = [
        {"text": f"  {name} lives  in {place} .", "score": float(3 * number)}
        for number, name in enumerate(NAMES)
        for place in PLACES
    ]

    reader = "{name: labeled, task: toy, text: text, score: score}"
    folder = trained(one_rank, tmp_path, reader, rows, "regression: {hidden: tanh}", 30)
    read = pipeline("text-classification", f"{folder}/exported")
    theirs = [each["score"] for each in read([row["text"] for row in rows])]

    assert theirs == pytest.approx([row["score"] for row in predicted(folder, rows)], abs=1e-4)


@pytest.mark.parametrize("several", [False, True])
def test_classes(one_rank, tmp_path, several):
    """Texts with blanks at their ends, before marks, and several in a row; and one that is cut."""
    rows = [
        {
            "text": f" {name} lives  in {place} . " + "far " * 40 * (number == 3),
            "label": "ab"[number % 2],
            "labels": ["a", "b"][: 1 + number % 2],
        }
        for number, name in enumerate(NAMES)
        for place in PLACES
    ]

    key = "labels: labels" if several else "label: label"
    reader = f"{{name: labeled, task: toy, text: text, {key}}}"
    folder = trained(one_rank, tmp_path, reader, rows, "classification: {hidden: tanh}", 30)
    read = pipeline("text-classification", f"{folder}/exported", top_k=None)
    given = read([row["text"] for row in rows], truncation=True)
    records = predicted(folder, rows)
    for own, record in zip(given, records, strict=True):
        assert {each["label"]: each["score"] for each in own} == pytest.approx(
            record["probabilities"], abs=1e-4
        )


def test_answers(one_rank, tmp_path):
    """transformers has no pipeline any more: the answer is read by the offsets of the best
    tokens."""
    rows = []

    for number in range(12):
        name = NAMES[number % 4]
        place = PLACES[number % 3]
        text = f"the {name} lives  in {place} , near the sea ."

        for question, answer in (("Who lives ?", name), ("Where ?", place)):
            accepted = [{"text": answer, "answer_start": text.index(answer)}]
            rows.append(
                {
                    "question": question,
                    "context": text,
                    "answers": accepted,
                    "id": f"{number}{question[2]}",
                }
            )

    folder = trained(one_rank, tmp_path, "{name: squad, task: toy}", rows, "span: 1.0", 200)
    tokenizer = AutoTokenizer.from_pretrained(folder / "exported")
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder / "exported")
    right = 0

    for row, record in zip(rows, predicted(folder, rows), strict=True):
        encoded = tokenizer(
            row["question"], row["context"], return_offsets_mapping=True, return_tensors="pt"
        )
        offsets = encoded.pop("offset_mapping")[0].tolist()
        inside = torch.tensor([number == 1 for number in encoded.sequence_ids(0)])
        with torch.no_grad():
            scores = model(**encoded)
        first, last = (
            int(part[0].masked_fill(~inside, -torch.inf).argmax())
            for part in (scores.start_logits, scores.end_logits)
        )

        assert row["context"][offsets[first][0] : offsets[last][1]] == record["answer"]

        right += record["answer"] == row["answers"][0]["text"]

    assert right == len(rows)
