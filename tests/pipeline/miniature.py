"""A small corpus with everything a pipeline meets, and the recipe that runs all stages on it."""

import json

from clozeline.pipeline import all_stages
from clozeline.seeding import hash64

WORDS = (
    "the a of and to in that is was for it with as his on be at by had not are but from "
    "or have an they which one you were her all she there would their we him been has "
    "when who will more no if out so said what up its about into than them can only other "
    "new some could time these two may then do first any my now such like our over man me "
    "even most made after also did many before must through back years where much your "
    "way well down should because each just those people how too little state good very "
    "make world still own see men work long get here between both life being under never "
    "day same another know while last might us great old year off come since against go"
).split()


def sentence(seed, place):
    """A sentence of 6 to 16 words, the same for the same arguments."""
    length = 6 + hash64(seed, place) % 11
    picked = [WORDS[hash64(seed, place, i) % len(WORDS)] for i in range(length)]
    return " ".join(picked).capitalize() + "."


def text(seed, sentences=8):
    parts = [sentence(seed, place) for place in range(sentences)]
    return " ".join(parts[: sentences // 2]) + "\n\n" + " ".join(parts[sentences // 2 :])


def write_corpus(folder, documents=120):
    """Three JSON-lines files with good documents, copies, near-copies, broken lines and rejects."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"text": text(i, 6 + i % 20), "url": f"http://x.example/{i}"})
        for i in range(documents)
    ]
    lines += [
        lines[3],
        json.dumps({"text": text(5, 11).replace(".", " indeed.", 1)}),
        '{"text": ""}',
        "{broken",
        "[1]",
    ]

    lines += [
        json.dumps({"text": "too short"}),
        json.dumps({"text": text(900, 400)}),
        json.dumps({"title": "no text"}),
    ]

    for part in range(3):
        (folder / f"part{part}.jsonl").write_text("\n".join(lines[part::3]) + "\n")

    return folder / "*.jsonl"


RECIPE = """
corpus: miniature
seed: 7
heldout: {fraction: 0.1}
plan: {unit_bytes: 20000, shard_bytes: 60000}
clean:
  language: null
  filters: [{name: gopher_quality, words: [10, 100000]}]
dedup: {}
train_tokenizer: {name: byte_bpe, size: 700}
encode: {sentences: regex}
group: {}
corrupt:
  - {name: masked_lm, max_length: 64, variants: 2}
  - {name: span_corruption, input_length: 64, container: tar}
  - {name: causal_lm, max_length: 64}
  - name: composition
    label: bart
    max_length: 64
    steps: [{name: sentence_reordering}, {name: text_infilling}]
"""


COMPLETE = """
corpus: miniature
seed: 7
heldout: {fraction: 0.3}
plan: {unit_bytes: 8192, shard_bytes: 40000}
input:
  - {path: FOLDER/crawl/*.jsonl}
  - {path: FOLDER/pairs.tsv, source: pairs, language: en, target_language: de}
clean: {language: null, filters: [{name: gopher_quality, words: [10, 100000]}]}
dedup: {lines: {min_letters: 8}, spans: {}}
decontaminate: {against: [FOLDER/items.txt]}
train_tokenizer: {name: byte_bpe, size: 450}
encode: {sentences: regex}
balance: {alpha: 0.5}
group: {}
corrupt:
  - {name: masked_lm, max_length: 64, variants: 2}
  - {name: translation_lm, max_length: 48}
"""
PAIRS = 40
APART = ("tokenizer", "tasks")
"""Stages of other recipes: instead of `train_tokenizer`, and of files with labels."""
STAGES = [name for name in all_stages() if name not in APART]


def write_recipe(folder, recipe=RECIPE):
    path = folder / "recipe.yaml"
    path.write_text(recipe)
    return path


def german(number):
    """The other side of a pair."""
    return sentence(number, 1).upper()


def write_complete(folder):
    """Write a recipe with all stages for documents, and 30 documents and more, on which each step
    finds something."""
    write_corpus(folder / "crawl", 30)
    rows = [text(700 + number, 9) for number in range(6)]
    # two documents share a line, two a span of sentences, two a part of a long sentence
    rows[:2] = [f"{row}\n\n{sentence(800, 0)}" for row in rows[:2]]
    rows[2:4] = [
        f"{row} {' '.join(sentence(801, place) for place in range(4))}" for row in rows[2:4]
    ]
    long = " ".join(sentence(802, place).lower().strip(".") for place in range(12))
    rows[4:] = [f"{row[:-1]} {long} {row}" for row in rows[4:]]
    lines = "".join(json.dumps({"text": row}) + "\n" for row in rows)
    (folder / "crawl" / "repeats.jsonl").write_text(lines)
    pairs = [f"{sentence(number, 0)}\t{german(number)}" for number in range(PAIRS)]
    (folder / "pairs.tsv").write_text("\n".join([*pairs, pairs[0], "half a pair"]) + "\n")
    leaked = [" ".join(text(number, 6 + number % 20).split()[8:30]) for number in (4, 9, 23)]
    (folder / "items.txt").write_text("\n".join(leaked) + "\n")
    return ["--config", str(write_recipe(folder, COMPLETE.replace("FOLDER", str(folder))))]


def only_part(stage, kind="documents"):
    """Return the only file of documents, or of rejections, in the folder of a stage."""
    (path,) = (stage / kind).glob("*.arrow")
    return path
