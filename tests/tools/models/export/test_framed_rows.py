"""Special tokens around training rows, and those that the exported tokenizer writes around the same texts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from clozeline.pipeline.tasks.task_rows import FRAMES
from clozeline.pipeline.tokenize.published.exporting import PAIR, Frame, export_tokenizer
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.registry import find
from clozeline.tools.models.export.framed_rows import compare_frames
from tests.pipeline.tokenize.published.published_files import byte_level, corpus, directory

ROBERTA = Frame(FRAMES["roberta"].head, FRAMES["roberta"].between, FRAMES["roberta"].tail)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("tokenizer")
    kind = find("clozeline.pipeline.tokenize.tokenizers", "byte_bpe")
    save_tokenizer(kind.train(corpus(), kind.Options(size=480), target), "byte_bpe", target)
    return target


def exported(folder: Path, out: Path, frame: Frame):
    export_tokenizer(folder, out, frame=frame, texts=())
    return AutoTokenizer.from_pretrained(out)


def test_pairs_of_roberta_are_those_of_the_export(folder: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(folder)
    texts = [encoding.ids for encoding in tokenizer.encode(corpus())]
    rows = [FRAMES["roberta"].row(pair, tokenizer.vocabulary, 1000).ids for pair in pairwise(texts)]
    rows += [FRAMES["roberta"].row([text], tokenizer.vocabulary, 1000).ids for text in texts]
    assert "30 training rows compared, all" in compare_frames(
        rows, tokenizer, exported(folder, tmp_path / "right", ROBERTA), is_prompt=False
    )
    wrong = compare_frames(rows, tokenizer, exported(folder, tmp_path / "wrong", PAIR), is_prompt=False)
    assert "30 of 30 training rows otherwise" in wrong


def test_prompts_of_a_decoder_begin_as_its_rows(folder: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(folder)
    roles = tokenizer.vocabulary.specials
    rows = [np.array([roles["bos"], *text.ids, roles["eos"]]) for text in tokenizer.encode(corpus())]
    right = compare_frames(rows, tokenizer, exported(folder, tmp_path / "a", Frame(("bos",))), is_prompt=True)
    assert "30 training rows compared, all" in right
    wrong = compare_frames(rows, tokenizer, exported(folder, tmp_path / "b", Frame()), is_prompt=True)
    assert "30 of 30" in wrong


def test_masked_and_packed_rows_are_compared_at_both_ends(folder: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(folder)
    cls, sep, bos, eos, mask = (tokenizer.vocabulary.specials[role] for role in ("cls", "sep", "bos", "eos", "mask"))
    (text,) = (encoding.ids.tolist() for encoding in tokenizer.encode(["the cat sat"]))
    masked = [[cls, mask, *text, mask, sep], [cls, *[*text, sep] * 3], [cls, *text[1:], mask, *text, sep]]
    right = exported(folder, tmp_path / "right", PAIR)
    assert "3 training rows compared, 0 of them complete" in compare_frames(masked, tokenizer, right, is_prompt=False)
    for wrong in (Frame(("cls",)), Frame((), ("sep",), ("sep",)), Frame(("bos",), ("eos",), ("eos",)), Frame()):
        other = exported(folder, tmp_path / "-".join(sum(wrong, ())) / "wrong", wrong)
        assert "3 of 3" in compare_frames(masked, tokenizer, other, is_prompt=False)
    packed = [[*text, eos, *text, eos, *text], [eos, *text, eos, *text], [*text, eos, *text, eos]]
    bare, begun = (exported(folder, tmp_path / name, Frame(head)) for name, head in (("bare", ()), ("begun", ("bos",))))
    assert "3 training rows compared" in compare_frames(packed, tokenizer, bare, is_prompt=True)
    assert "3 of 3" in compare_frames(packed, tokenizer, begun, is_prompt=True)
    rows = [[bos, *row] for row in packed]
    assert "3 training rows compared" in compare_frames(rows, tokenizer, begun, is_prompt=True)
    assert "3 of 3" in compare_frames(rows, tokenizer, bare, is_prompt=True)


def test_a_packed_row_may_begin_with_a_separator_that_is_bos_as_well(tmp_path: Path) -> None:
    tokenizer = import_tokenizer(directory(byte_level(tmp_path / "in").parent, "GPT2"), tmp_path / "ours")
    end = tokenizer.vocabulary.specials["bos"]
    assert end == tokenizer.vocabulary.specials["eos"]
    (text,) = (encoding.ids.tolist() for encoding in tokenizer.encode(["the cat sat"]))
    rows = [[end, *text, end, *text]]
    bare = exported(tmp_path / "ours", tmp_path / "bare", Frame())
    assert "1 training rows compared" in compare_frames(rows, tokenizer, bare, is_prompt=True)
