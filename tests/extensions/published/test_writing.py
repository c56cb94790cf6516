"""What an export says of a model, its frames of texts, its integers, and the files next to its
weights."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoTokenizer

from clozeline.extensions.compression.registries import METHODS
from clozeline.extensions.inference.generation import prompt_ids
from clozeline.extensions.published.conversion.export import (
    export_checkpoint,
    model_without_weights,
)
from clozeline.extensions.published.export_plan import ExportRequest, plan_export
from clozeline.extensions.published.imported_folder import write_imported
from clozeline.extensions.published.sentence_embeddings import write_modules
from clozeline.extensions.published.torchao_format import integers_of_class, write_torchao
from clozeline.extensions.published.verification import compare_frames
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.layers.quantization import holds_integers
from clozeline.pipeline.registries import TOKENIZERS
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.published.exporting import (
    PAIR,
    ExportTemplate,
    TextForm,
    export_tokenizer,
)
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.sets.recorded_sets import describe_set
from clozeline.train.data.sets.text_form import frame_of
from clozeline.train.data.stream.phases import open_phases
from tests.extensions.published.peers import loaded, rows, saved
from tests.model.small_models import small_config
from tests.pipeline.tokenize.published.published_files import corpus
from tests.refusals import refused


def content(path):
    return json.loads(path.read_text())


def test_the_files_name_the_length_of_a_text(tmp_path):
    model = model_without_weights(
        small_config("encoder", position=PositionConfig(maximum=64)), 60, {}
    )
    write_modules(tmp_path, "mean", model, 40)

    assert content(tmp_path / "sentence_bert_config.json") == {
        "max_seq_length": 40,
        "do_lower_case": False,
    }


@pytest.mark.parametrize(
    ("family", "encoder_alone", "tokenizer"),
    [("decoder", True, True), ("encoder", False, True), ("encoder", True, False)],
)
def test_models_that_cannot_be_pooled(family, encoder_alone, tokenizer, tmp_path):
    request = ExportRequest(body_alone=encoder_alone, pooling="mean")
    folder = tmp_path if tokenizer else None
    with refused("expected a model with an encoder and its tokenizer, and parts=encoder"):
        plan_export(model_without_weights(small_config(family), 60, {}), request, tokenizer=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("tokenizer")
    kind = TOKENIZERS.load_class("byte_bpe")
    save_tokenizer(kind.train(corpus(), kind.Options(size=480), target), "byte_bpe", target)
    return target


def exported(folder, out, frame):
    export_tokenizer(folder, out, TextForm(frame=frame), texts=())
    return AutoTokenizer.from_pretrained(out)


def test_masked_and_packed_rows_are_compared(folder, tmp_path):
    tokenizer = load_tokenizer(folder)
    cls, sep, bos, eos, mask = (
        tokenizer.vocabulary.specials[role] for role in ("cls", "sep", "bos", "eos", "mask")
    )
    (text,) = (encoding.ids.tolist() for encoding in tokenizer.encode(["the cat sat"]))
    masked = [
        [cls, mask, *text, mask, sep],
        [cls, *[*text, sep] * 3],
        [cls, *text[1:], mask, *text, sep],
    ]

    right = exported(folder, tmp_path / "right", PAIR)

    assert "3 training rows compared, all of them complete" in compare_frames(
        masked, tokenizer, right, is_prompt=False
    )

    for wrong in (
        ExportTemplate(("cls",)),
        ExportTemplate((), ("sep",), ("sep",)),
        ExportTemplate(("bos",), ("eos",), ("eos",)),
        ExportTemplate(),
    ):
        other = exported(folder, tmp_path / "-".join(sum(wrong, ())) / "wrong", wrong)
        assert "3 of 3" in compare_frames(masked, tokenizer, other, is_prompt=False)

    packed = [
        [*text, eos, *text, eos, *text],
        [eos, *text, eos, *text],
        [*text, eos, *text, eos],
    ]
    bare, begun = (
        exported(folder, tmp_path / name, ExportTemplate(head))
        for name, head in (("bare", ()), ("begun", ("bos",)))
    )

    assert "3 training rows compared" in compare_frames(packed, tokenizer, bare, is_prompt=True)
    assert "3 of 3" in compare_frames(packed, tokenizer, begun, is_prompt=True)

    rows = [[bos, *row] for row in packed]

    assert "3 training rows compared" in compare_frames(rows, tokenizer, begun, is_prompt=True)
    assert "3 of 3" in compare_frames(rows, tokenizer, bare, is_prompt=True)


PAIRS = ("text_infilling", "span_corruption", "document_rotation", "bart")
LABELS = (*PAIRS, "masked_lm", "causal_lm")


@pytest.mark.parametrize("label", LABELS)
def test_the_export_frames_texts_as_the_stored_rows(shard_sets, tmp_path, label):
    manifest = shard_sets / "corrupt" / label / "train/manifest.json"
    folder = shard_sets / "train_tokenizer/tokenizer"
    ((source,),) = (phase.sources for phase in open_phases(DataConfig(shards=manifest)))
    trained_on = describe_set(manifest, source)
    export_tokenizer(folder, tmp_path, TextForm(frame=frame_of(trained_on)), texts=())
    exported = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer = load_tokenizer(folder)
    rows = [row["input_ids"] for row in open_shards(Path(trained_on.path))]
    is_prompt = trained_on.objective.architecture == "decoder"

    assert "each as the" in compare_frames(rows, tokenizer, exported, is_prompt=is_prompt)

    if label in PAIRS:
        pieces = [tokenizer.piece(token) for token in np.flatnonzero(tokenizer.vocabulary.special)]
        texts = [*corpus(), *(f"the {piece} sat" for piece in pieces)]
        prompts = [prompt_ids(tokenizer, trained_on.objective, text) for text in texts]
        assert exported(texts).input_ids == prompts


pytest.importorskip("torchao")
pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = {
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
}
T5 = {
    "d_model": 64,
    "num_heads": 2,
    "d_kv": 32,
    "d_ff": 96,
    "num_layers": 2,
    "num_decoder_layers": 2,
}
TYPES = {
    "bert": SIZES,
    "llama": SIZES | {"num_key_value_heads": 1, "head_dim": 32},
    "gpt_neox": SIZES,  # queries, keys and values of each head are rows of one matrix
    "modernbert": SIZES,
    "t5": T5,
}


def configs():
    from torchao import quantization

    return {
        "int8": quantization.Int8WeightOnlyConfig(),
        "int8_dynamic": quantization.Int8DynamicActivationInt8WeightConfig(),
        "int4": quantization.IntxWeightOnlyConfig(torch.int4, quantization.PerGroup(32)),
    }


def quantized(tmp_path, model_type, kind):
    """A folder with integers, and its export."""
    saved(tmp_path / "dense", model_type, **TYPES.get(model_type, {}))
    dense = read_checkpoint(tmp_path / "dense")
    (tmp_path / "integers").mkdir()
    export = write_torchao(tmp_path / "integers", export_checkpoint(dense), dense, kind)
    (tmp_path / "integers/config.json").write_text(json.dumps(export.config))
    return tmp_path / "integers", export


@pytest.mark.parametrize("kind", ["int8", "int8_dynamic", "int4"])
@pytest.mark.parametrize("model_type", TYPES)
def test_transformers_computes_what_we_do(tmp_path, model_type, kind):
    folder, export = quantized(tmp_path, model_type, kind)
    theirs, remarks = loaded(folder, export.loader)

    assert not remarks

    stored = read_checkpoint(folder, quantized=True)

    assert any(map(holds_integers, stored.tensors.values()))
    # what transformers itself makes of the dense model, except for the matrices that stay
    left = export.config["quantization_config"]["modules_to_not_convert"]
    rounding = transformers.TorchAoConfig(configs()[kind], modules_to_not_convert=left)
    expected, _ = loaded(tmp_path / "dense", export.loader, quantization_config=rounding)
    ours, their, valid = rows(theirs)

    with torch.no_grad():
        scores = [model(**their).logits[valid] for model in (theirs, expected)]
        (found,) = build_checkpoint(stored).logits(ours).values()
        (dense,) = build_checkpoint(read_checkpoint(tmp_path / "dense")).logits(ours).values()

    limit = 1e-5
    # an input may round to the next integer; T5's logits differ by 1.4e-2 to 2.4e-2
    if kind == "int8_dynamic":
        limit = 4e-2 if model_type == "t5" else 1e-2
    held = theirs.state_dict()

    for name, tensor in expected.state_dict().items():
        parts = ("qdata", "scale") if holds_integers(tensor) else ("data",)
        assert all(torch.equal(getattr(tensor, one), getattr(held[name], one)) for one in parts)

    assert (scores[1] - scores[0]).norm() <= limit * scores[0].norm()
    assert (found[valid] - scores[0]).norm() <= limit * scores[0].norm()
    assert (dense[valid] - scores[0]).norm() > 1e-3 * scores[0].norm()


@pytest.mark.parametrize("kind", ["int8", "int8_dynamic", "int4"])
def test_our_own_format_gives_back_the_integers(tmp_path, kind):
    saved(tmp_path / "dense", "gpt_neox", **SIZES)
    dense = read_checkpoint(tmp_path / "dense")
    stored = METHODS.resolve(kind).build().compress(dense, ()).checkpoint
    (tmp_path / "ours").mkdir()
    write_imported(tmp_path / "ours", stored, tmp_path / "dense")
    found = read_checkpoint(tmp_path / "ours", quantized=True).tensors

    assert found.keys() == stored.tensors.keys()

    for name, tensor in stored.tensors.items():
        parts = ("qdata", "scale") if holds_integers(tensor) else ("data",)
        assert all(torch.equal(getattr(tensor, part), getattr(found[name], part)) for part in parts)

    with refused("cannot be trained or converted"):
        read_checkpoint(tmp_path / "ours")


def test_transposed_weights_are_refused(tmp_path):
    saved(tmp_path / "gpt2", "gpt2")  # its class multiplies by transposed matrices
    dense = read_checkpoint(tmp_path / "gpt2")
    with refused("type gpt2 multiplies by transposed weights"):
        integers_of_class(dense, "int8")
