"""A small task in files, a vocabulary that cuts its words, and the sets that the stage makes of
them."""

import json

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.shards import open_shards

WORDS = (*"a film good bad very not truly plot with no heart fine dull one .".split(),)
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_vocabulary(folder, *, further=(), last=()):
    """A WordPiece vocabulary of whole words; every other word is [UNK]."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in (*SPECIALS, *further, *WORDS, *last)))
    return path


def sentences(count, first=0):
    """Sentences of 3 to 7 words, and 1 where they hold `good`, never `bad` beside it."""
    found = []

    for number in range(first, first + count):
        label = number % 2
        words = [WORDS[(number * 5 + place * 3) % len(WORDS)] for place in range(2 + number % 5)]
        words = [word for word in words if word not in ("good", "bad")]
        found.append((" ".join([*words, "good" if label else "bad"]), label))

    return found


def write_task(folder, *, train=60, dev=21):
    """SST-2's official files: train, dev, and a test file without labels."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = sentences(train + dev)
    for name, part in (("train", rows[:train]), ("dev", rows[train:])):
        lines = ["sentence\tlabel", *(f"{text}\t{label}" for text, label in part)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")

    (folder / "test.tsv").write_text("index\tsentence\n0\ta good film\n")
    return folder


def write_recipe(folder, task="sst2", **options):
    return write_recipe_of(folder, f"{{name: glue, task: {task}}}", **options)


def write_recipe_of(folder, reader, **options):
    more = "".join(f"  {name}: {value}\n" for name, value in options.items())
    path = folder / "recipe.yaml"
    path.write_text(f"corpus: toy\nseed: 1\ntasks:\n  reader: {reader}\n{more}")
    return path


def run(folder, vocabulary, *words):
    """Run the recipe of a folder over its files; return the folder of the sets."""
    given = [
        f"input={folder / 'files'}",
        f"tokenizer.path={vocabulary}",
        f"output={folder / 'out'}",
        *words,
    ]

    assert main(["--config", str(folder / "recipe.yaml"), *given]) == 0

    (train,) = (folder / "out" / "tasks").glob("*/train")
    return train.parent


def write_lines(folder, rows, train):
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", rows[:train]), ("dev", rows[train:])):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in part))


def make_sets(folder, *words, train=60, dev=21):
    write_task(folder / "files", train=train, dev=dev)
    write_recipe(folder)
    return run(folder, write_vocabulary(folder / "words"), *words)


def texts_of(shards):
    """The labels of each text, by its words as the vocabulary has them."""
    pieces = (*SPECIALS, *WORDS)
    found = {}

    for block in range(len(shards.index)):
        for row in shards.read_block(block):
            text = " ".join(pieces[token] for token in row["input_ids"][1:-1].tolist())
            found.setdefault(text, []).append(int(row["label"][0]))

    return found


def open_split(sets, split):
    return open_shards(sets / split)


def write_tagged(folder, *, train=60, dev=21):
    """CoNLL's columns: `film` and `plot` begin an X, and `heart` continues one where it follows
    them."""
    folder.mkdir(parents=True, exist_ok=True)

    for name, first, count in (("train", 0, train), ("dev", train, dev)):
        lines = []

        for number in range(first, first + count):
            before = ""

            for place in range(3 + number % 4):
                word = WORDS[(number * 7 + place * (1 + number % 3)) % len(WORDS)]
                inside = word in ("film", "plot") or (
                    word == "heart" and before in ("film", "plot")
                )
                lines.append(f"{word} {'I-X' if inside else 'O'}")
                before = word

            lines.append("")

        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")

    return folder


def make_tagged_sets(folder, *words, reader="{name: conll, task: toy, entities: [X]}"):
    write_tagged(folder / "files")
    write_recipe_of(folder, reader, max_length=16)
    return run(folder, write_vocabulary(folder / "words"), *words)


def write_questions(folder, *, train=60, dev=21):
    """SQuAD's layout: the answer is the word after `very`."""
    folder.mkdir(parents=True, exist_ok=True)

    for name, first, count in (("train", 0, train), ("dev", train, dev)):
        articles = []

        for number in range(first, first + count):
            words = [
                WORDS[(number * 5 + place * 3) % len(WORDS)] for place in range(6 + number % 5)
            ]
            words = [word for word in words if word not in ("very", ".")]
            words[number % 4 : number % 4] = ["very"]
            before = " ".join(words[: number % 4 + 1]) + " "
            answer = {"text": words[number % 4 + 1], "answer_start": len(before)}
            asked = {"id": f"q{number}", "question": "one film", "answers": [answer]}
            paragraph = {"context": " ".join(words), "qas": [asked]}
            articles.append({"title": f"article {number}", "paragraphs": [paragraph]})

        (folder / f"{name}.json").write_text(json.dumps({"version": "1.1", "data": articles}))

    return folder


def make_question_sets(folder, *words):
    write_questions(folder / "files")
    write_recipe_of(folder, "{name: squad, task: toy}", max_length=14)
    return run(folder, write_vocabulary(folder / "words"), *words)


def make_text_sets(folder, *words):
    """Texts that become one word, by the sentiment of the small task.

    Return the folder of its sets.
    """
    rows = [
        {
            "source": text,
            "target": ("dull", "fine")[label],
        }
        for text, label in sentences(81)
    ]
    write_lines(folder / "files", rows, 60)
    write_recipe_of(folder, "{name: text_to_text, task: toy}", frame="t5", max_length=16)
    return run(folder, write_vocabulary(folder, further=["[EOS]"]), *words)


def stories(count, first=0):
    """Texts of two to four choices.

    The right one has the last word of the context, any other has another.
    """
    found = []

    for number in range(first, first + count):
        marks = [WORDS[2 + (number + place) % 4] for place in range(2 + number % 3)]
        right = number * 7 % len(marks)
        choices = [f"{WORDS[8 + (number + place) % 6]} {mark}" for place, mark in enumerate(marks)]
        found.append({"context": f"a film {marks[right]}", "choices": choices, "label": right})

    return found


def make_choice_sets(folder, *words):
    write_lines(folder / "files", [*stories(60), *stories(21, 60)], 60)
    write_recipe_of(folder, "{name: multiple_choice, task: toy}", max_length=16)
    return run(folder, write_vocabulary(folder / "words"), *words)


def make_chat_sets(folder, *words):
    """Dialogues of two turns: each answer is the sentiment of the small task.

    Return the folder of its sets.
    """
    texts = sentences(82)
    rows = []

    for pair in zip(texts[::2], texts[1::2], strict=True):
        order = pair if len(rows) % 2 else pair[::-1]
        turns = [(("user", text), ("assistant", ("dull", "fine")[label])) for text, label in order]
        rows.append(
            {
                "messages": [
                    {"role": role, "content": content} for turn in turns for role, content in turn
                ]
            }
        )

    write_lines(folder / "files", rows, 30)
    template = "{user: '{content}', assistant: '. {content}{eos}'}"
    write_recipe_of(
        folder,
        f"{{name: instructions, task: toy, template: {template}}}",
        frame="gpt",
        max_length=32,
    )

    return run(folder, write_vocabulary(folder, further=["[EOS]"]), *words)


def make_labeled_sets(folder, reader, *words, train=120, dev=40):
    """Run the stage on JSON lines of a user, with labels of every type, by the reader `labeled`."""
    write_lines(folder / "files", [labeled_row(number) for number in range(train + dev)], train)
    write_recipe_of(folder, f"{{name: labeled, {reader}}}")
    return run(folder, write_vocabulary(folder / "words"), *words)


def labeled_row(number):
    """A text with the classes that its words name, of which there may be none, one of them, and a
    number."""
    words = [
        WORDS[(number * 7 + place * (1 + number % 4)) % len(WORDS)]
        for place in range(3 + number % 4)
    ]
    tags = sorted({"good", "bad", "film"}.intersection(words))
    return {
        "text": " ".join(words),
        "tags": tags,
        "label": "good" if "good" in words else "other",
        "score": words.count("film") + len(tags) / 2,
        "words": words,
        "marks": ["B-X" if word == "film" else "O" for word in words],
    }
