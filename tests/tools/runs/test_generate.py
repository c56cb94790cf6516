"""Continuations of texts, with untrained models over real sets."""

import json

import pytest

from clozeline.model.generation.decoding import Continuation, Decoding
from clozeline.model.generation.generate import beams
from clozeline.model.scoring.causal import log_likelihoods
from clozeline.tools.runs.generate import main
from clozeline.tools.runs.inference.generation import text_of
from clozeline.train.open_run import open_run
from tests.train.written_runs import write_run

DECODER = {"model__family": "decoder", "model__heads": {"lm": 1.0}}


@pytest.fixture(scope="module")
def decoder(shard_sets, tmp_path_factory):
    run = tmp_path_factory.mktemp("decoder")
    write_run(run, shard_sets, [3], 1, "causal_lm", **DECODER)
    return run, open_run(run)


def test_a_beam_prints_its_best_rows_and_their_scores(decoder, capsys):
    run, trained = decoder
    tokenizer = trained.tokenizer
    prompt = tokenizer.encode(["the page"])[0].ids.tolist()
    end = {tokenizer.vocabulary.specials["eos"]}
    settings = Decoding(mode="beam", width=3, max_tokens=5, length_penalty=0.6, length_form="gnmt", min_tokens=2)
    first = beams(trained.model, [prompt], settings, end_ids=end)[0][0]
    word = next(text for token in first.ids if (text := tokenizer.decode([token])).strip())
    banned = [tokenizer.encode([form])[0].ids.tolist() for form in (word, f" {word}")]
    (wanted,) = beams(trained.model, [prompt], settings, end_ids=end, banned=banned)
    assert wanted[0].ids != first.ids
    keys = ["mode=beam", "width=3", "max_tokens=5", "length_penalty=0.6", "length_form=gnmt", "min_tokens=2"]
    assert main([str(run), "the page", *keys, "samples=2", f"ban={json.dumps([word])}"]) == 0
    lines = [f"the page{tokenizer.decode(one.ids)} ({one.stop}, {one.score:.3f})\n" for one in wanted[:2]]
    assert printable(capsys.readouterr().out) == printable("".join(lines))


ALLOWED = [" of", " of the book", " a page", "s"]


def test_only_allowed_texts_are_written(decoder, capsys, tmp_path):
    """A beam ranks all of them by the probability of the text and its end; blanks may be on either side."""
    run, trained = decoder
    tokenizer = trained.tokenizer
    texts = ["the page", *(f"the page{each}" for each in ALLOWED)]
    prompt, *joined = (encoding.ids.tolist() for encoding in tokenizer.encode(texts))
    end = tokenizer.vocabulary.specials["eos"]
    rows = log_likelihoods(trained.model, [[*ids, end] for ids in joined])
    sums = {each: float(scores[len(prompt) - 1 :].sum()) for each, scores in zip(ALLOWED, rows, strict=True)}
    wanted = [f"the page{each} (end, {sums[each]:.3f})\n" for each in sorted(sums, key=lambda each: -sums[each])]
    keys = ["mode=beam", "width=4", "samples=4", "length_penalty=0"]
    assert main([str(run), "the page", *keys, f"allowed={json.dumps(ALLOWED)}"]) == 0
    assert capsys.readouterr().out == "".join(wanted)
    (tmp_path / "allowed.txt").write_text("of\nof the book\n\na page\n", encoding="utf-8")
    assert main([str(run), "the page ", *keys, f"allowed={tmp_path / 'allowed.txt'}", "samples=3"]) == 0
    assert capsys.readouterr().out == "".join(line for line in wanted if not line.startswith("the pages"))
    assert main([str(run), "the page", f"allowed={json.dumps(ALLOWED)}"]) == 0
    assert capsys.readouterr().out.rpartition(" (end, ")[0] in {f"the page{each}" for each in ALLOWED}


def printable(text):
    """Return a text as a console shows it."""
    return "".join(character for character in text if character.isprintable())


def test_a_stop_string_ends_the_text_before_it(decoder, capsys):
    run, trained = decoder
    keys = ["mode=sample", "seed=3", "max_tokens=9"]
    assert main([str(run), "the page", *keys]) == 0
    free = capsys.readouterr().out.rpartition(" (")[0]
    stop = free[len("the page") + 6 :][:2]
    assert main([str(run), "the page", *keys, f"stop={json.dumps([stop, 'no such text'])}"]) == 0
    text, _, reason = capsys.readouterr().out.rpartition(" (")
    assert reason.startswith("string, ")
    assert text == free[: free.index(stop, len("the page"))]
    assert text_of(trained.tokenizer, Continuation([], "string"), ["a"]) == ""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["the", "samples=2"], 64, "greedy continuations are all the same"),
        (["the", "top_k=3"], 64, "top_k: mode greedy does not read it; set mode=sample"),
        (["the", "width=3"], 64, "width: mode greedy does not read it; set mode=beam"),
        (["the", "mode=beam", "samples=5"], 64, "a beam of width 4 has as many continuations, got 5"),
        (["the", "min_tokens=65"], 64, "min_tokens: expected at most max_tokens 64, got 65"),
        (["the", "allowed=[a]", "stop=[b]"], 64, "allowed: stop would cut an allowed text; remove one of the two"),
        (["the", "allowed=[a]", "mode=unmask"], 64, "allowed: mode=unmask fills masks; remove one of the two keys"),
        (["the", "allowed=no.txt"], 64, "no.txt: no such file; give one with a text per line, or a list: [a, b]"),
        (["th", "allowed=[e]"], 64, "allowed: 'e' shares a token with the end of TEXT; begin it with a blank"),
        (["the", "allowed=[' page of the book']", "max_tokens=2"], 65, "raise max_tokens"),
        (["the", "topk=3"], 64, "top_k"),
        (["the", "step=4"], 64, "holds no checkpoint of step 4"),
        (["the page " * 70], 65, "the position table has room for 64"),
    ],
)
def test_mistakes_are_named(decoder, capsys, words, code, message):
    assert main([str(decoder[0]), *words]) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
