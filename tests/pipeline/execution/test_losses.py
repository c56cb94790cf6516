"""What takes nearly all of an input is named, with its key.

And each character is handed on or cut by a step.
"""

import json

import pytest

from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.ingest.documents.files import read_documents
from tests.pipeline.miniature import only_part, write_recipe

ENGLISH = (
    "The river had been rising since the early morning, and nobody in the village slept. Men "
    "carried sacks of sand to the lower bridge while the school was being emptied. By noon the "
    "water stood at the second step of the church."
)
FRENCH = (
    "La rivière montait depuis le matin et personne au village ne dormait. Les hommes portaient "
    "des sacs de sable vers le pont pendant que l'école était vidée de ses enfants et de ses "
    "livres. À midi l'eau touchait la deuxième marche."
)
RECIPE = """
corpus: losses
seed: 1
heldout: {fraction: 0.1}
clean:
  language: {name: py3langid, keep: [en]}
  filters: [{name: gopher_quality, words: [10, 100000]}]
dedup: {exact: {key: text}, near: null}
train_tokenizer: {name: byte_bpe, size: 500}
encode: {}
group: {}
corrupt: [{name: causal_lm, max_length: 32}]
"""


def run(folder, texts, *words):
    lines = [json.dumps({"text": text}) for text in texts]
    (folder / "texts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    source = [f"input={folder / 'texts.jsonl'}", f"output={folder / 'out'}"]
    return main(["--config", str(write_recipe(folder, RECIPE)), *source, *words])


@pytest.mark.parametrize(
    ("texts", "words", "loss"),
    [
        (
            [f"{number} {FRENCH}" for number in range(99)] + [ENGLISH],
            (),
            "99 of 100 documents were dropped for one reason: language (clean.language.keep)",
        ),
        (
            [f"{number} {ENGLISH}" for number in range(19)] + [f"{ENGLISH} {ENGLISH} {ENGLISH}"],
            ("clean.language=null", "clean.filters=[{name: gopher_quality, words: [60, 1000]}]"),
            "19 of 20 documents were dropped for one reason: gopher_short_doc "
            "(gopher_quality.words)",
        ),
        (
            [ENGLISH] * 30,
            (),
            "29 of 30 documents were dropped for one reason: exact_duplicate (dedup.exact)",
        ),
    ],
    ids=["another language", "short", "copies"],
)
def test_a_run_that_ends_for_want_of_text_names_the_reason_that_took_it(
    tmp_path, capsys, texts, words, loss
):
    """The last stage misses a held-out document; what to change is the key of an earlier one."""
    assert run(tmp_path, texts, *words, "heldout.fraction=0.000001") == 64
    out, err = capsys.readouterr()
    assert loss in " ".join(err.split())
    assert "heldout.fraction" in err
    assert loss in " ".join(out.split()), "the table says it, too"


def test_a_stage_that_leaves_nothing_names_the_reason_and_its_key(tmp_path, capsys):
    assert run(tmp_path, [f"{number} {FRENCH}" for number in range(20)]) != 0
    assert (
        "20 of 20 documents were dropped for one reason: language (clean.language.keep)"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("french", [9, 20])
def test_a_rule_that_drops_a_fifth_is_named_with_its_texts(tmp_path, capsys, french):
    texts = [f"{number} {FRENCH if number < french else ENGLISH}" for number in range(100)]
    assert run(tmp_path, texts) == 0
    out = " ".join(capsys.readouterr().out.split())
    loss = (
        "20 of 100 documents were dropped for one reason: language (clean.language.keep); see "
        f"`clozeline filter-report {tmp_path / 'out'}`"
    )
    # the table breaks lines inside a path
    assert (loss.replace(" ", "") in out.replace(" ", "")) == (french == 20)


def test_the_table_and_the_page_say_how_many_characters_each_step_cut(tmp_path, capsys):
    menu = "Home\nAbout us\nContact\n"
    texts = [menu + f"{number} is the number of this page. " + ENGLISH for number in range(60)]
    texts += [FRENCH, "Too short.", texts[0], texts[1]]
    filters = "[{name: c4_quality, sentences: 1}, {name: gopher_quality, words: [10, 1000]}, pii]"
    mails = [
        f"{number} was the house. {ENGLISH} Write to ann{number}@example.org now."
        for number in range(40)
    ]

    assert (
        run(tmp_path, texts + mails, f"clean.filters={filters}", "clean.language.threshold=0") == 0
    )

    out = " ".join(capsys.readouterr().out.split())
    report = json.loads((tmp_path / "out/report.json").read_text(encoding="utf-8"))["stages"]
    clean = report["clean"]["counts"]
    dedup = report["dedup"]["counts"]
    handed_on = [
        len(document.text) for document in read_documents(only_part(tmp_path / "out/clean"))
    ]

    assert (
        clean["characters_in"] - sum(clean["cut"].values())
        == sum(handed_on)
        == dedup["characters_in"]
    )
    assert clean["cut"]["c4_quality"] == 62 * len(menu)
    assert clean["cut"]["language"] == len(FRENCH) + len("Too short.")
    assert clean["cut"]["pii"] == sum(
        len(f"ann{number}@example.org") - len("<email>") for number in range(40)
    )
    assert dedup["cut"] == {"exact_duplicate": 2 * (len(texts[0]) - len(menu))}

    for step, characters in clean["cut"].items():
        assert f"{characters:,} {step}" in out
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    last = [len(document.text) for document in read_documents(only_part(tmp_path / "out/dedup"))]

    assert f"{sum(last):,} of {clean['characters_in']:,} characters are left" in page
    assert f"{len(texts) + len(mails):,} documents became " in page
    assert f"clean · c4_quality removed most: {62 * len(menu):,} characters." in page
