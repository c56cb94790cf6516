"""Texts with masks, filled by an untrained model over real sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.generation.decoding import Decoding
from clozeline.tools.runs.fill_mask import main as fill_mask
from clozeline.tools.runs.generate import main as generate
from clozeline.tools.runs.inference.masked_text import encode_masked_text, fill_text, parts_of
from clozeline.train.startup.open_run import Run, open_run
from tests.train.written_runs import write_run


@pytest.fixture(scope="module")
def encoder(shard_sets: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    run = tmp_path_factory.mktemp("encoder")
    write_run(run, shard_sets, [3], 1)
    return run, open_run(run)


def test_a_text_becomes_a_framed_row(encoder: tuple[Path, Run]) -> None:
    trained = encoder[1]
    ids, positions = encode_masked_text(trained, "the <mask> page <mask>")
    special = trained.tokenizer.vocabulary.specials
    assert (ids[0], ids[-1]) == (special["cls"], special["sep"])
    assert (ids == special["mask"]).nonzero()[0].tolist() == positions
    assert trained.tokenizer.decode_part(ids[1 : positions[0]].tolist()) == "the"
    assert trained.tokenizer.decode_part(ids[positions[0] + 1 : positions[1]].tolist()) == " page"
    assert positions[1] == len(ids) - 2


@pytest.mark.parametrize(
    ("text", "message"), [("no mask", "a text with <mask>"), ("long " * 64 + "<mask>", "rows of at most 64")]
)
def test_a_text_that_does_not_fit_is_refused(encoder: tuple[Path, Run], text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        encode_masked_text(encoder[1], text)


def test_a_filled_text_has_no_special_tokens(encoder: tuple[Path, Run]) -> None:
    trained = encoder[1]
    decoding = Decoding(mode="unmask", temperature=5.0, order="random")
    fillings = fill_text(trained, "the <mask> page <mask><mask> of it", decoding, 3)
    assert len({tuple(filling.ids) for filling in fillings}) == 3
    for filling in fillings:
        parts = parts_of(trained, filling)
        assert [new for _, new in parts] == [False, True, False, True, False]
        assert (parts[0][0], parts[2][0], parts[4][0]) == ("the", " page", " of it")
        assert not trained.tokenizer.vocabulary.special[filling.ids[1:-1]].any()
    (longer,) = fill_text(trained, "the page", Decoding(mode="unmask", max_tokens=6, steps=2))
    assert len(longer.filled) == 6


def test_the_commands_fill_several_masks(encoder: tuple[Path, Run], capsys: pytest.CaptureFixture[str]) -> None:
    run, trained = encoder
    text = "the <mask> page <mask> of it"
    assert fill_mask([str(run), "--text", text, "--beam", "3"]) == 0
    printed = capsys.readouterr().out
    wanted = fill_text(trained, text, Decoding(mode="unmask", width=3), 3)
    assert printed == "".join(
        f"{''.join(part for part, _ in parts_of(trained, each)).strip()} ({each.score:.3f})\n" for each in wanted
    )
    assert generate([str(run), text, "mode=unmask", "width=3", "samples=3"]) == 0
    assert capsys.readouterr().out.split() == printed.split()
    assert generate([str(run), text, "mode=unmask", "samples=2"]) != 0
    assert "samples: greedy continuations are all the same" in capsys.readouterr().err
