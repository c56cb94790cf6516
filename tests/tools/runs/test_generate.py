"""Continuations of texts, with untrained models over real sets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clozeline.model.generation.decoding import Continuation, Decoding
from clozeline.model.generation.generate import beams, generate
from clozeline.tools.runs.generate import main
from clozeline.tools.runs.inference.generation import Settings, continuations, text_of
from clozeline.tools.runs.inference.trained_model import TrainedModel, load_trained
from tests.tools.runs.inference.test_trained_model import write_run

DECODER = {"model__family": "decoder", "model__heads": {"lm": 1.0}}
PAIRED = {"model__family": "encoder_decoder", "model__heads": {"lm": 1.0}}


@pytest.fixture(scope="module")
def decoder(shard_sets: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainedModel]:
    run = tmp_path_factory.mktemp("decoder")
    write_run(run, shard_sets, [3], 1, "causal_lm", **DECODER)
    return run, load_trained(run)


def test_the_command_prints_what_the_model_generates(
    decoder: tuple[Path, TrainedModel], capsys: pytest.CaptureFixture[str]
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
    trained = load_trained(tmp_path)
    (wanted,) = continuations(trained, "the <extra_0> page", Settings(max_tokens=4))
    assert main([str(tmp_path), "the <extra_0> page", "max_tokens=4"]) == 0
    assert capsys.readouterr().out == f"{trained.tokenizer.decode(wanted.ids)} ({wanted.stop}, {wanted.score:.3f})\n"


def test_a_tokenizer_without_an_end_continues_to_the_last_token(
    decoder: tuple[Path, TrainedModel], shard_sets: Path, monkeypatch: pytest.MonkeyPatch
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
    decoder: tuple[Path, TrainedModel], capsys: pytest.CaptureFixture[str]
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


def printable(text: str) -> str:
    """Return a text as a console shows it."""
    return "".join(character for character in text if character.isprintable())


def test_a_stop_string_ends_the_text_before_it(
    decoder: tuple[Path, TrainedModel], capsys: pytest.CaptureFixture[str]
) -> None:
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
        (["the", "topk=3"], 64, "top_k"),
        (["the", "step=4"], 64, "holds no checkpoint of step 4"),
        (["the page " * 70], 65, "the position table has room for 64"),
    ],
    ids=["alike", "greedy", "width", "narrow", "minimum", "unknown", "step", "long"],
)
def test_mistakes_are_named(
    decoder: tuple[Path, TrainedModel],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    assert main([str(decoder[0]), *words]) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
