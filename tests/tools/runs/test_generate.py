"""Continuations of texts, with untrained models over real sets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clozeline.model.generation.decoding import Continuation, Decoding
from clozeline.model.generation.generate import beams, generate
from clozeline.model.scoring.causal import log_likelihoods
from clozeline.tools.runs.generate import main
from clozeline.tools.runs.inference.generation import Settings, continuations, text_of
from clozeline.train.startup.open_run import Run, open_run
from tests.train.written_runs import write_run

DECODER = {"model__family": "decoder", "model__heads": {"lm": 1.0}}
PAIRED = {"model__family": "encoder_decoder", "model__heads": {"lm": 1.0}}


@pytest.fixture(scope="module")
def decoder(shard_sets: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    run = tmp_path_factory.mktemp("decoder")
    write_run(run, shard_sets, [3], 1, "causal_lm", **DECODER)
    return run, open_run(run)


def test_the_command_prints_what_the_model_generates(
    decoder: tuple[Path, Run], capsys: pytest.CaptureFixture[str]
) -> None:
    run, trained = decoder
    prompt = trained.tokenizer.encode(["the page"])[0].ids.tolist()
    wanted = generate(
        trained.model,
        [prompt] * 2,
        Decoding(max_tokens=5, mode="sample", temperature=1.5, top_p=0.9, seed=4),
        end_ids={trained.tokenizer.vocabulary.specials["eos"]},
    )
    words = ["max_tokens=5", "mode=sample", "temperature=1.5", "top_p=0.9", "seed=4", "samples=2", "step=3"]
    assert main([str(run), "the page", *words]) == 0
    assert capsys.readouterr().out == "".join(
        f"the page{trained.tokenizer.decode(one.ids)} ({one.stop}, {one.score:.3f})\n" for one in wanted
    )


def test_an_encoder_decoder_answers(shard_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, shard_sets, [3], 1, "span_corruption", **PAIRED)
    trained = open_run(tmp_path)
    (wanted,) = continuations(trained, "the <extra_0> page", Settings(max_tokens=4))
    assert main([str(tmp_path), "the <extra_0> page", "max_tokens=4"]) == 0
    assert capsys.readouterr().out == f"{trained.tokenizer.decode(wanted.ids)} ({wanted.stop}, {wanted.score:.3f})\n"


def test_a_tokenizer_without_an_end_continues_to_the_last_token(
    decoder: tuple[Path, Run], shard_sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A published tokenizer may have none, and an encoder's mistake is not that."""
    trained = decoder[1]
    vocabulary = trained.tokenizer.vocabulary
    kept = {name: number for name, number in vocabulary.specials.items() if name != "eos"}
    monkeypatch.setattr(trained.tokenizer, "vocabulary", replace(vocabulary, specials=kept))
    prompt = trained.tokenizer.encode(["the page"])[0].ids.tolist()
    wanted = generate(trained.model, [prompt], Decoding(max_tokens=5))
    assert continuations(trained, "the page", Settings(max_tokens=5)) == wanted


def test_an_encoder_has_no_next_tokens(shard_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, shard_sets, [3], 1, "masked_lm")
    assert main([str(tmp_path), "the page"]) == 64
    assert "needs a head that predicts next tokens, got masked_lm" in capsys.readouterr().err


def test_a_beam_prints_its_best_rows_and_their_scores(
    decoder: tuple[Path, Run], capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_only_allowed_texts_are_written(
    decoder: tuple[Path, Run], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
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


def test_an_encoder_decoder_writes_allowed_texts(
    shard_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, shard_sets, [3], 1, "text_infilling", **PAIRED)
    assert main([str(tmp_path), "the page", 'allowed=["a book", "the page of"]']) == 0
    assert capsys.readouterr().out.rpartition(" (end, ")[0] in ("a book", "the page of")


def printable(text: str) -> str:
    """Return a text as a console shows it."""
    return "".join(character for character in text if character.isprintable())


def test_a_stop_string_ends_the_text_before_it(decoder: tuple[Path, Run], capsys: pytest.CaptureFixture[str]) -> None:
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
    ids=[
        "alike",
        "greedy",
        "width",
        "narrow",
        "minimum",
        "stop",
        "masks",
        "file",
        "joined",
        "room",
        "unknown",
        "step",
        "long",
    ],
)
def test_mistakes_are_named(
    decoder: tuple[Path, Run],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    assert main([str(decoder[0]), *words]) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
