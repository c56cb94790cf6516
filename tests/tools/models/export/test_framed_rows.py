"""Special tokens around training rows, and those that the exported tokenizer writes around the same texts."""

from itertools import pairwise
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tasks.task_rows import FRAMES
from clozeline.pipeline.tokenize.published.exporting import PAIR, Frame, export_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.registry import find
from clozeline.tools.models.export.exportable import frame_of
from clozeline.tools.models.export.framed_rows import compare_frames
from clozeline.tools.runs.inference.generation import prompt_ids
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.sets.recorded_sets import describe_set
from clozeline.train.data.stream.phases import open_phases
from tests.pipeline.tokenize.published.published_files import corpus
from tests.tools.small_run import build

ROBERTA = Frame(FRAMES["roberta"].head, FRAMES["roberta"].between, FRAMES["roberta"].tail)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("tokenizer")
    kind = find("clozeline.pipeline.tokenize.tokenizers", "byte_bpe")
    save_tokenizer(kind.train(corpus(), kind.Options(size=480), target), "byte_bpe", target)
    return target


def exported(folder, out, frame):
    export_tokenizer(folder, out, frame=frame, texts=())
    return AutoTokenizer.from_pretrained(out)


def test_pairs_of_roberta_are_those_of_the_export(folder, tmp_path):
    tokenizer = load_tokenizer(folder)
    texts = [encoding.ids for encoding in tokenizer.encode(corpus())]
    rows = [FRAMES["roberta"].row(pair, tokenizer.vocabulary, 1000).ids for pair in pairwise(texts)]
    rows += [FRAMES["roberta"].row([text], tokenizer.vocabulary, 1000).ids for text in texts]
    assert "30 training rows compared, all" in compare_frames(
        rows, tokenizer, exported(folder, tmp_path / "right", ROBERTA), is_prompt=False
    )
    wrong = compare_frames(rows, tokenizer, exported(folder, tmp_path / "wrong", PAIR), is_prompt=False)
    assert "30 of 30 training rows otherwise" in wrong


def test_masked_and_packed_rows_are_compared_at_both_ends(folder, tmp_path):
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


PAIRS = ("text_infilling", "span_corruption", "document_rotation", "bart")
LABELS = (*PAIRS, "masked_lm", "causal_lm")


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return build(tmp_path_factory.mktemp("frames") / "out", labels=LABELS)


def recorded(output, label):
    manifest = output / "corrupt" / label / "train" / "manifest.json"
    ((source,),) = (phase.sources for phase in open_phases(DataConfig(shards=manifest)))
    return describe_set(manifest, source)


@pytest.mark.parametrize("label", LABELS)
def test_the_export_frames_texts_as_the_stored_rows(output, tmp_path, label):
    trained_on, folder = recorded(output, label), output / "train_tokenizer" / "tokenizer"
    export_tokenizer(folder, tmp_path, frame=frame_of(trained_on), texts=())
    exported, tokenizer = AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(folder)
    rows = [row["input_ids"] for row in open_shards(Path(trained_on.path))]
    is_prompt = trained_on.objective.architecture == "decoder"
    assert "each as the" in compare_frames(rows, tokenizer, exported, is_prompt=is_prompt)
    if label in PAIRS:
        prompts = [prompt_ids(tokenizer, trained_on.objective, text) for text in corpus()]
        assert exported(corpus()).input_ids == prompts
