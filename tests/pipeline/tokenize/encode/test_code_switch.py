"""Translated words in the token set: texts of a run against a substitution of words, rates, and
what is redone."""

import json
import re

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_documents
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer

RECIPE = """
corpus: mixed
seed: 5
heldout: {fraction: 0.2}
plan: {unit_bytes: 5000, shard_bytes: 40000}
clean: {language: null, filters: []}
train_tokenizer: {name: byte_bpe, size: 500}
encode: {code_switch: {dictionaries: [DICTIONARY], SETTINGS}}
group: {}
corrupt:
  - {name: masked_lm, max_length: 64}
  - {name: translation_lm, max_length: 128}
"""
WORDS = {"river": "Fluss", "house": "großes Haus", "the": "der", "red": "rot"}


def translate(text):
    """Return the text with each word of the dictionary translated, in the capitalization of the
    word."""

    def new(match):
        other = WORDS.get(match[0].lower(), match[0])
        return other[0].upper() + other[1:] if match[0][0].isupper() else other

    return re.sub(r"[A-Za-z]+", new, text)


def write_once(path, text):
    """Write a file that is missing; another time would make another input of it."""
    if not path.exists():
        path.write_text(text)


def run(folder, settings, words=WORDS):
    """Run all stages; return the output, and both sides of each document as they were tokenized."""
    folder.mkdir(exist_ok=True)
    (folder / "en-de.txt").write_text("".join(f"{word} {new}\n" for word, new in words.items()))
    lines = [f"The red house {n} is near.\tthe river {n}, Red\n" for n in range(60)]
    write_once(folder / "pairs.tsv", "".join(lines))
    rows = [
        {"text": f"The river of {n}. A red_house3! " * 6 + "\n\nIts river's END."}
        for n in range(60)
    ]
    write_once(folder / "texts.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    recipe = RECIPE.replace("DICTIONARY", str(folder / "en-de.txt")).replace("SETTINGS", settings)
    (folder / "recipe.yaml").write_text(recipe)
    pairs = (
        "{path: " + str(folder / "pairs.tsv") + ", reader: tsv, language: en, target_language: fr}"
    )
    inputs = f"input=[{folder / 'texts.jsonl'}, {pairs}]"

    assert main(["--config", str(folder / "recipe.yaml"), inputs, f"output={folder / 'out'}"]) == 0

    shards = open_shards(folder / "out/encode")
    tokenizer = load_tokenizer(folder / "out/train_tokenizer/tokenizer")
    tokenized = {}

    for block in range(len(shards.index)):
        rows_of_block = shards.read_block(block)
        for row, uid in enumerate(rows_of_block.fixed["document_uid"]):
            sides = (rows_of_block.columns[name][row] for name in ("token_ids", "target_ids"))
            text, target = (tokenizer.decode(side) for side in sides)
            tokenized[uid.tobytes()] = (text, target)

    return folder / "out", tokenized


def test_words_are_translated_and_another_dictionary_makes_encode_again(tmp_path, capsys):
    """Of training documents alone."""
    output, tokenized = run(tmp_path, "word_rate: 1.0")
    held_out = 0

    for path in sorted((output / "clean/documents").glob("*")):
        for document in read_documents(path):
            sides = (document.text, document.target_text or "")
            heldout = is_heldout(document.uid, 0.2, 5)
            held_out += heldout
            assert tokenized[document.uid] == (sides if heldout else tuple(map(translate, sides)))

    assert 10 < held_out < 40

    counts = json.loads((output / "encode/report.json").read_text())["counts"]
    words = " ".join(
        side for uid, sides in tokenized.items() if not is_heldout(uid, 0.2, 5) for side in sides
    )
    expected = sum(
        len(re.findall(new, words, re.IGNORECASE)) for new in ("Fluss", "großes", "der", "rot")
    )

    assert counts["code_switch"]["replaced"] == expected
    assert {path.name for path in (output / "corrupt").iterdir()} >= {"masked_lm", "translation_lm"}

    capsys.readouterr()
    _, after = run(tmp_path, "word_rate: 1.0", {**WORDS, "red": "röter"})
    shown = capsys.readouterr().err

    assert "clean: already complete" in shown
    assert "encode: done" in shown
    assert any("röter" in text for text, _ in after.values())

    words = ["--config", str(tmp_path / "recipe.yaml"), f"output={tmp_path / 'out'}"]
    (tmp_path / "en-de.txt").write_text("river\n")

    assert main([*words, f"input={tmp_path / 'texts.jsonl'}"]) == 64
    assert "line 1: expected a word and its translation, got 'river'" in capsys.readouterr().err

    (tmp_path / "en-de.txt").unlink()

    assert main([*words, f"input={tmp_path / 'texts.jsonl'}"]) == 64
    assert "encode.code_switch.dictionaries" in capsys.readouterr().err
