"""What a run says where the splitter finds no sentences."""

import json
import re

import pytest

from clozeline.pipeline.corrupt.config import NamedObjective
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.registries import OBJECTIVES
from tests.pipeline.corruption_cases import WORDS

NEEDED = ("sentence_order_prediction", "next_sentence_prediction", "sentence_comparison")
THAI = "ผมทำงานที่นี่มานานแล้วและผมชอบมาก" * 4
"""no blank in about 130 characters"""
TEXTS = {
    "th": [THAI + f"หน้า{number}" for number in range(30)],
    "en": [f"Page {number} is here. It ends. Then another follows." for number in range(60)],
    # poems, lists and transcripts
    "pt": [f"quem vai à página {number}\nnão volta nunca mais\nao mar" for number in range(9)],
}


def run(folder, objectives, texts=TEXTS, **encode):
    for code, rows in texts.items():
        lines = [json.dumps({"text": row}) + "\n" for row in rows]
        (folder / f"{code}.jsonl").write_text("".join(lines))
    recipe = {
        "corpus": "x",
        "output": str(folder / "out"),
        "plan": {"shard_bytes": 1_000_000},
        "heldout": {"fraction": 0.1},
        "input": [{"path": str(folder / f"{code}.jsonl"), "language": code} for code in texts],
        "clean": {"filters": []},
        "train_tokenizer": {"name": "wordpiece", "size": 400},
        "encode": encode,
        "group": {},
        "corrupt": objectives,
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    for stage in ("clean", "train_tokenizer", "encode"):
        assert main([stage, "--config", str(folder / "recipe.yaml")]) == 0


def lines_said(capsys):
    said = " ".join("".join(capsys.readouterr()).split())
    return re.split(r"sentences: (?=\d)", said)[1:]


def test_languages_without_sentences_are_said_with_amounts_labels_and_remedies(tmp_path, capsys):
    run(tmp_path, [{"name": name, "max_length": 32} for name in ("masked_lm", *NEEDED)])
    after, before = lines_said(capsys)  # the table, and what was said before the run
    assert "30 documents of 99 (th)" in before
    assert "30 of 30 documents in th have one sentence (100 % of its tokens)" in after
    assert "9 of 9 documents in pt have one sentence (100 % of its tokens)" in after
    assert "in en" not in after
    assert "masked_lm" not in before + after
    assert all(name in before and name in after for name in NEEDED)
    assert "encode.sentences: lines" in after


def test_nothing_is_said_where_no_objective_needs_sentences(tmp_path, capsys):
    run(tmp_path, [{"name": "masked_lm", "max_length": 32}, {"name": "document_rotation"}])
    assert not lines_said(capsys)


def test_templates_are_filled_by_the_tokenizer_that_was_trained(tmp_path, capsys):
    tasks = [{"source": "th", "template": "Answer: {source}"}]
    run(tmp_path, [{"name": "text_to_text", "tasks": tasks}])
    assert "needs a tokenizer" not in " ".join(capsys.readouterr())


def test_a_splitter_into_phrases_is_named_as_such(tmp_path, capsys):
    wanted = [{"name": NEEDED[0], "max_length": 32}]
    texts = {"pt": TEXTS["pt"], "en": TEXTS["en"]}
    run(tmp_path, wanted, texts, sentences="phrases")
    assert "69 documents of 69 (en, pt)" in lines_said(capsys)[-1]
    run(tmp_path, wanted, texts, sentences="lines")
    (said,) = lines_said(capsys)
    assert "60 of 60 documents in en" in said
    assert "in pt" not in said


def test_long_sentences_are_said_where_empty_lines_divide_texts_without_marks(tmp_path, capsys):
    words = "e depois vieram os outros que ninguém conhecia " * 14
    texts = {"pt": [f"{number} {words}\n\n{words}" for number in range(20)], "en": TEXTS["en"]}
    run(tmp_path, [{"name": NEEDED[0], "max_length": 32}], texts)
    (said,) = lines_said(capsys)
    assert "659 characters on average in pt" in said  # two of 657 characters, the number and blanks
    assert "in en" not in said


@pytest.mark.parametrize(
    ("options", "reads"),
    [
        ({"name": "sentence_comparison"}, True),
        ({"name": "sentence_comparison", "mode": "same"}, False),
        ({"name": "masked_lm"}, False),
        ({"name": "masked_lm", "grouping": "sentence_pair"}, True),
        ({"name": "composition"}, True),
        ({"name": "composition", "steps": ["token_deletion"]}, False),
        ({"name": "sentence_reordering"}, True),
        ({"name": "span_corruption"}, False),
        ({"name": "mixture"}, False),
    ],
)
def test_objectives_and_groupings_declare_that_they_need_sentences(options, reads):
    objective = NamedObjective(objective=OBJECTIVES.resolve(options)).build(WORDS)
    assert objective.reads_sentences == reads
