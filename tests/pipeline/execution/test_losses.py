"""What takes nearly all of an input is named, with its key."""

import json

import pytest

from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.miniature import write_recipe

ENGLISH = (
    "The river had been rising since the early morning, and nobody in the village slept. Men "
    "carried sacks of sand to the lower bridge while the school was being emptied."
)
FRENCH = (
    "La rivière montait depuis le matin et personne au village ne dormait. Les hommes portaient "
    "des sacs de sable vers le pont pendant que l'école était vidée de ses enfants."
)
RECIPE = """
corpus: losses
seed: 1
heldout: {fraction: 0.000001}
clean:
  language: {name: py3langid, keep: [en]}
  filters: [{name: gopher_quality, words: [10, 100]}]
dedup: {exact: {key: text}, near: null}
train_tokenizer: {name: byte_bpe, size: 500}
encode: {}
group: {}
corrupt: [{name: causal_lm, max_length: 32}]
"""


@pytest.fixture
def run(tmp_path, capsys):
    """`run(texts, *words)`: the exit code of a run, and what it said."""

    def run(texts, *words):
        lines = [json.dumps({"text": text}) for text in texts]
        (tmp_path / "texts.jsonl").write_text("\n".join(lines))
        source = [f"input={tmp_path / 'texts.jsonl'}", f"output={tmp_path / 'out'}"]
        code = main(["--config", str(write_recipe(tmp_path, RECIPE)), *source, *words])
        return code, *(" ".join(said.split()) for said in capsys.readouterr())

    return run


def numbered(count, text):
    return [f"{number} {text}" for number in range(count)]


@pytest.mark.parametrize(
    ("texts", "loss"),
    [
        ([*numbered(99, FRENCH), ENGLISH], "99 of 100 {}: language (clean.language.keep)"),
        (
            [*numbered(19, f"{ENGLISH} " * 5), ENGLISH],
            "19 of 20 {}: gopher_long_doc (gopher_quality.words)",
        ),
        ([ENGLISH] * 30, "29 of 30 {}: exact_duplicate (dedup.exact)"),
        (numbered(20, FRENCH), "20 of 20 {}: language (clean.language.keep)"),
        ([FRENCH], "1 of 1 document was dropped for one reason: language (clean.language.keep)"),
    ],
)
def test_a_run_that_ends_for_want_of_text_names_the_reason_that_took_it(run, texts, loss):
    """The last stage misses a held-out document; what to change is the key of an earlier one."""
    code, out, err = run(texts)
    loss = loss.format("documents were dropped for one reason")
    is_empty = loss.startswith(("20 of 20", "1 of 1 "))

    assert code == (69 if is_empty else 64)
    assert is_empty == (loss in err)
    assert is_empty or "heldout.fraction" in err
    assert (loss in out) != is_empty


@pytest.mark.parametrize("french", [9, 20])
def test_a_rule_that_drops_a_fifth_is_named_with_its_texts(run, french):
    texts = numbered(french, FRENCH) + numbered(100 - french, ENGLISH)
    code, out, _ = run(texts, "heldout.fraction=0.1")
    # the table breaks lines inside a path
    loss = "language(clean.language.keep);see`clozelinefilter-report"

    assert code == 0
    assert (loss in out.replace(" ", "")) == (french == 20)
