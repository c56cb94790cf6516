"""Continuations of texts and fillings of masks, with untrained models over real sets."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from clozeline import plugins
from clozeline.extensions.inference.commands.fill_mask import main as fill_mask
from clozeline.extensions.inference.commands.generate import main as generate
from clozeline.extensions.inference.filled_text import fill_text, parts_of
from clozeline.extensions.inference.generation import (
    blank_after,
    find_language_token,
    parts_note,
    prompt_ids,
    split_prompt,
)
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate_beams
from clozeline.model.heads.masked_lm import MaskedLMHead
from clozeline.model.scoring.causal import log_likelihoods
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.row_form import RowForm, join_forms
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.runs.inference.masked_text import encode_masked_text, guesses
from tests.pipeline.corruption_cases import one_sample
from tests.pipeline.tokenize.tokenizers.word_marks import KINDS, ROLES
from tests.refusals import refused
from tests.tools.small_run import compute_row_scores, example_sets
from tests.train.written_runs import write_run


def test_a_beam_prints_its_best_rows_and_their_scores(decoder, capsys):
    run, trained = decoder
    tokenizer = trained.tokenizer
    prompt = tokenizer.encode(["the page"])[0].ids.tolist()
    end = {tokenizer.vocabulary.specials["eos"]}
    settings = Decoding(
        mode="beam", width=3, max_tokens=5, length_penalty=0.6, length_form="gnmt", min_tokens=2
    )
    first = generate_beams(trained.model, [prompt], settings, end_ids=end)[0][0]
    word = next(text for token in first.ids if (text := tokenizer.decode([token])).strip())
    banned = [tokenizer.encode([form])[0].ids.tolist() for form in (word, f" {word}")]
    (wanted,) = generate_beams(trained.model, [prompt], settings, end_ids=end, banned=banned)

    assert wanted[0].ids != first.ids

    keys = "mode=beam width=3 max_tokens=5 length_penalty=0.6 length_form=gnmt min_tokens=2".split()

    assert generate([str(run), "the page", *keys, "samples=2", f"ban={json.dumps([word])}"]) == 0

    lines = [
        f"the page{tokenizer.decode(one.ids)} (stopped at {one.stop}, log-probability {one.score:.3f})\n"
        for one in wanted[:2]
    ]

    assert printable(capsys.readouterr().out) == printable("".join(lines))


ALLOWED = [" of", " of the book", " a page", "s"]


def test_only_allowed_texts_are_written(decoder, capsys, tmp_path):
    """A beam ranks all of them by the probability of the text and its end.

    Blanks may be on either side.
    """
    run, trained = decoder
    tokenizer = trained.tokenizer
    texts = ["the page", *(f"the page{each}" for each in ALLOWED)]
    prompt, *joined = (encoding.ids.tolist() for encoding in tokenizer.encode(texts))
    end = tokenizer.vocabulary.specials["eos"]
    rows = log_likelihoods(trained.model, [[*ids, end] for ids in joined])
    sums = {
        each: float(scores[len(prompt) - 1 :].sum())
        for each, scores in zip(ALLOWED, rows, strict=True)
    }
    wanted = [
        f"the page{each} (stopped at end, log-probability {sums[each]:.3f})\n"
        for each in sorted(sums, key=lambda each: -sums[each])
    ]
    keys = ["mode=beam", "width=4", "samples=4", "length_penalty=0"]

    assert generate([str(run), "the page", *keys, f"allowed={json.dumps(ALLOWED)}"]) == 0
    assert capsys.readouterr().out == "".join(wanted)

    (tmp_path / "allowed.txt").write_text("of\nof the book\n\na page\n")

    assert (
        generate([str(run), "the page ", *keys, f"allowed={tmp_path}/allowed.txt", "samples=3"])
        == 0
    )
    assert capsys.readouterr().out == "".join(
        line for line in wanted if not line.startswith("the pages")
    )
    assert generate([str(run), "the page", f"allowed={json.dumps(ALLOWED)}"]) == 0
    assert capsys.readouterr().out.rpartition(" (stopped at end, ")[0] in {
        f"the page{each}" for each in ALLOWED
    }


def printable(text):
    return "".join(character for character in text if character.isprintable())


def test_a_stop_string_ends_the_text_before_it(decoder, capsys):
    run, _ = decoder
    keys = ["mode=sample", "seed=3", "max_tokens=9"]

    assert generate([str(run), "the page", *keys]) == 0

    free = capsys.readouterr().out.rpartition(" (")[0]
    stop = free[len("the page") + 6 :][:2]

    # also with characters that no stored text has
    for form in (stop, f"\ufeff{stop}", "\u00ad".join(stop), f"{stop}\u200b"):
        words = f"stop={json.dumps([form, 'no such text'])}"

        assert generate([str(run), "the page", *keys, words]) == 0

        text, _, reason = capsys.readouterr().out.rpartition(" (")

        assert reason.startswith("stopped at string, ")
        assert text == free[: free.index(stop, len("the page"))]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["the", "samples=2"], 64, "greedy continuations are all the same"),
        (["the", 'stop="\u00ad"'], 64, "normalize=prose leaves nothing of this text: remove it"),
        (
            ["th", "allowed=[e]"],
            64,
            "allowed: 'e' shares a token with the end of TEXT; begin it with a blank",
        ),
        (["the", "allowed=[' page of the book']", "max_tokens=2"], 65, "raise max_tokens"),
        (["the page " * 70], 65, "the position table holds 64"),
    ],
)
def test_mistakes_are_named(decoder, capsys, words, code, message):
    assert generate([str(decoder[0]), *words]) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error


def test_a_prompt_is_framed_like_the_rows_of_training(shard_sets):
    tokenizer = load_tokenizer(shard_sets / "train_tokenizer/tokenizer")
    specials = tokenizer.vocabulary.specials
    sentinels = tokenizer.vocabulary.sentinels
    ids = tokenizer.encode(["the page", " of", ""])
    objectives = {
        label: open_shards(example_sets(shard_sets)[label][0]).manifest.objective
        for label in ("causal_lm", "span_corruption", "bart")
    }
    framed = {
        label: prompt_ids(tokenizer, objective, "the page <mask> of<extra_0>")
        for label, objective in objectives.items()
        if objective is not None
    }

    plain = [
        *ids[0].ids,
        specials["mask"],
        *ids[1].ids,
        sentinels[0],
    ]

    assert framed["causal_lm"] == plain
    assert framed["span_corruption"] == [*plain, specials["eos"]]
    assert framed["bart"] == [specials["bos"], *plain, specials["eos"]]

    with refused("at least one token"):
        prompt_ids(tokenizer, objectives["causal_lm"], "")


@pytest.mark.parametrize(
    "options",
    [
        {"name": "causal_lm", "grouping": "document", "add_bos": True},
        {"name": "prefix_lm", "source_head": "cls", "mode": "S"},
        {"name": "span_corruption", "architecture": "decoder", "mode": "R", "input_length": 64},
        {"name": "mass"},
        {"name": "causal_lm", "architecture": "encoder_decoder"},
    ],
)
@pytest.mark.parametrize("parts", [1, 2])
def test_a_prompt_begins_like_stored_rows(shard_sets, options, parts):
    """Also those of a mixture: of two parts that are the same."""
    tokenizer = load_tokenizer(shard_sets / "train_tokenizer/tokenizer")
    entry = {"max_length": 64, **options} if "input_length" not in options else options
    labeled = [{**entry, "label": f"part{number}"} for number in range(parts)]
    mixture = {"name": "mixture", "parts": labeled}
    objective = build_objective(entry if parts == 1 else mixture, tokenizer.vocabulary)
    (text,) = tokenizer.encode(["the page"])
    rows = one_sample(text.ids, [0], tokenizer.vocabulary)
    examples, _ = objective.corrupt(rows, np.zeros(1, np.uint16), 1)
    row = examples.columns["input_ids"][0].tolist()
    record = ObjectiveRecord(
        name="any",
        label="any",
        architecture=objective.architecture,
        heads=objective.heads,
        frame=objective.form,
    )

    prompt = prompt_ids(tokenizer, record, "the page")
    source, start = split_prompt(record, prompt)
    if start:
        assert source[-1] == row[-1]
    if objective.name == "causal_lm" and start:  # the decoder learned texts, its encoder `</s>`
        target = examples.columns["target_ids"][0].tolist()
        assert (source, start) == (row, [objective.form.decoder_start, *target])
        return

    begins = prompt.index(text.ids[0])

    assert row[:begins] == prompt[:begins]
    assert begins == len(options.keys() & {"add_bos", "source_head", "mode"}) or prompt[0] == row[0]


def test_parts_whose_rows_begin_in_other_ways_are_told(shard_sets):
    tokenizer = load_tokenizer(shard_sets / "train_tokenizer/tokenizer")
    bos, eos = (tokenizer.vocabulary.specials[role] for role in ("bos", "eos"))
    plain = RowForm(tail=(eos,))
    framed = RowForm(head=(bos,), tail=(eos,))

    assert parts_note(tokenizer, join_forms([plain, plain])) == ""
    assert "TEXT </s>, <s> TEXT </s>" in parts_note(tokenizer, join_forms([plain, framed]))


@pytest.mark.parametrize("name", KINDS)
def test_a_prompt_and_its_continuation_spell_the_text(name, tmp_path):
    """Cut after each word, where a model that has learned the text continues it."""
    tokenizer = import_tokenizer(KINDS[name][0](tmp_path / "in"), tmp_path / "out", **ROLES)
    words = ["The", "quick", "brown", "fox", "watches", "the", "garden"]
    ids = tokenizer.encode([" ".join(words)])[0].ids.tolist()

    for number in range(1, len(words)):
        prompt = " ".join(words[:number])
        first = len(tokenizer.encode([prompt])[0].ids)
        shown = prompt + blank_after(tokenizer, prompt) + tokenizer.decode_part(ids[first:])
        assert shown.rstrip() == " ".join(words)
        assert blank_after(tokenizer, f"{prompt} ") == ""


def test_a_language_ends_the_prompt_and_starts_the_decoder(shard_sets):
    bart = open_shards(example_sets(shard_sets)["bart"][0]).manifest.objective
    mbart = bart.model_copy(
        update={"frame": bart.frame.model_copy(update={"language_tokens": {"de": 9}})}
    )

    assert find_language_token(mbart, "de") == find_language_token(mbart, "deu_Latn") == 9
    assert find_language_token(bart, None) is None

    with refused("one of de, got en"):
        find_language_token(mbart, "en")
    with refused("bart have no language tokens"):
        find_language_token(bart, "de")


def test_a_filled_text_has_no_special_tokens(encoder, monkeypatch):
    trained = encoder[1]
    decoding = Decoding(mode="unmask", temperature=5.0, order="random")
    fillings = fill_text(trained, "the <mask> page <mask><mask> of it", decoding, 3)

    assert len({tuple(filling.ids) for filling in fillings}) == 3

    for filling in fillings:
        parts = parts_of(trained, filling)
        assert [new for _, new in parts] == [False, True, False, True, False]
        assert (parts[0][0], parts[2][0], parts[4][0]) == ("the", " page", " of it")
        assert not trained.tokenizer.vocabulary.special[filling.ids[1:-1]].any()

    monkeypatch.setattr(trained.tokenizer, "piece", lambda _: "[MASK]")
    named, own = (
        encode_masked_text(trained, f"the {mask} page")[0].tolist() for mask in ("<mask>", "[MASK]")
    )

    assert own == named

    (longer,) = fill_text(trained, "the page", Decoding(mode="unmask", max_tokens=6, steps=2))

    assert len(longer.filled) == 6

    for text, message in (
        ("no mask", "a text with <mask>"),
        ("long " * 64 + "<mask>", "rows of at most 64"),
    ):
        with refused(message):
            encode_masked_text(trained, text)


@pytest.mark.parametrize("place", ["same", "previous"])
def test_a_guess_is_read_where_the_training_predicted_it(encoder, place):
    _, trained = encoder
    objective = SimpleNamespace(frame=SimpleNamespace(predict_from=place))
    recorded = SimpleNamespace(objective=objective, tokenizer=trained.recorded[0].tokenizer)
    ids, (position,) = encode_masked_text(trained, "the page <mask> of it")
    scores = compute_row_scores(trained, ids.tolist(), "masked_lm")[
        position - (place == "previous")
    ]
    best = scores.softmax(-1).topk(3)
    found = guesses(replace(trained, recorded=(recorded,)), ids, position, 3)

    assert [one.probability for one in found] == pytest.approx(best.values.tolist(), rel=1e-4)
    assert [one.text for one in found] == [
        trained.tokenizer.decode_part([token]) for token in best.indices.tolist()
    ]


class Cloze(MaskedLMHead):
    """A head that predicts masked tokens, by another name."""


def test_masks_are_filled_by_any_head_that_predicts_them(shard_sets, tmp_path, capsys):
    plugins.allow(name := f"{__name__}:Cloze")
    write_run(tmp_path / "run", shard_sets, [3], 1, model__heads={name: 1.0})

    assert fill_mask([f"{tmp_path}/run", "the <mask> page"]) == 0
    assert capsys.readouterr().out


def test_the_commands_fill_several_masks(encoder, capsys):
    run, trained = encoder
    text = "the <mask> page <mask> of it"

    assert fill_mask([str(run), "--text", text, "--beam", "3"]) == 0

    printed = capsys.readouterr().out
    wanted = fill_text(trained, text, Decoding(mode="unmask", width=3), 3)

    assert printed == "".join(
        f"{''.join(part for part, _ in parts_of(trained, each)).strip()} ({each.score:.3f})\n"
        for each in wanted
    )


@pytest.mark.parametrize("word", ["prompt=the page", "promt=the page", "x=the page"])
@pytest.mark.parametrize("command", [generate, fill_mask])
def test_a_word_with_a_key_is_no_text(command, word, tmp_path, capsys):
    assert command([str(tmp_path), word]) == 64
    said = capsys.readouterr().err
    assert word.partition("=")[0] in said
    assert "text=" in said


@pytest.mark.parametrize(("words", "mode"), [({}, "greedy"), ({"temperature": 0.7}, "sample")])
def test_a_temperature_samples(words, mode):
    assert Decoding(**words).mode == mode


@pytest.mark.parametrize("mask", ["[MASK]", "___", "<mask>"])
def test_each_way_to_write_a_mask_is_one(mask, encoder):
    assert len(encode_masked_text(encoder[1], f"the {mask} of")[1]) == 1
