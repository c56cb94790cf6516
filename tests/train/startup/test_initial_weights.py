"""Weights that a model begins with: all of the body, or a message."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from clozeline.configuration.config import load_config
from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.model.build import Model, build_model
from clozeline.model.checkpoints import read_checkpoint
from clozeline.model.configuration.head import HeadConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.execution.recipe_command import main as make_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.models.export_model import main as export_model
from clozeline.tools.models.extend_tokenizer import main as extend_tokenizer
from clozeline.tools.models.import_model import main as import_model
from clozeline.train.checkpoint.format import Index, steps_in
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.run import run
from clozeline.train.startup.initial_weights import Filled, fill, translate_source
from clozeline.train.startup.open_run import Run, open_run
from clozeline.train.startup.source_tokenizer import OtherTokenizer
from tests.distributed import RankPool
from tests.model.checkpoints.published import VOCABULARY, saved
from tests.pipeline.miniature import write_corpus, write_recipe
from tests.pipeline.tokenize.published.published_files import byte_level, corpus
from tests.train.masked_set import write_config, write_masked_sets


def fill_from(model: Model, source: Path, **options: Any) -> Filled:
    return fill(model, translate_source(model.config, open_run(source)), **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as transformers saves it."""
    path = tmp_path_factory.mktemp("bert")
    saved(path, "bert", hidden_act="gelu")
    return path


def fresh(folder: Path, vocabulary: int = VOCABULARY, **changes: object) -> Model:
    config: ModelConfig = replace(read_checkpoint(folder).config, **changes)  # type: ignore[arg-type]
    torch.manual_seed(2)
    return build_model(config, vocabulary, {"pad": 0})


def message(model: Model, folder: Path) -> str:
    with pytest.raises((ConfigurationError, ClozelineError)) as caught:
        fill_from(model, folder)
    return str(caught.value)


def test_every_parameter_is_the_sources(folder: Path) -> None:
    model, source = fresh(folder), read_checkpoint(folder)
    filled = fill_from(model, folder)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, source.tensors[name]), name
    assert (filled.fresh, filled.unused) == ([], [])
    assert filled.lines() == [f"weights    {len(source.tensors)} parameters from {folder}"]


def test_heads_that_the_type_does_not_have_are_said(tmp_path: Path) -> None:
    saved(tmp_path, "bert", hidden_act="gelu")
    weights = tmp_path / "model.safetensors"
    save_file(load_file(weights) | {"cls.chain.weight": torch.ones(3)}, weights)
    assert sum("cls.chain" in line for line in fill_from(fresh(tmp_path), tmp_path).lines()) == 1


def test_another_head_is_new_and_said(folder: Path) -> None:
    model = fresh(folder, heads={"lm": 1.0}, tied=False)
    before = model.heads["lm"].projection.weight.clone()
    filled = fill_from(model, folder)
    assert filled.fresh == ["heads.lm.projection.weight"]
    assert filled.unused
    assert all(name.startswith("heads.masked_lm.") for name in filled.unused)
    assert torch.equal(model.heads["lm"].projection.weight, before)
    assert any("new: heads.lm.projection.weight" in line for line in filled.lines())


@pytest.mark.parametrize(
    ("key", "value"), [("eps", 1e-3), ("norm_place", "pre"), ("activation", "relu"), ("type_vocab_size", 5)]
)
def test_another_body_is_refused(folder: Path, key: str, value: object) -> None:
    said = message(fresh(folder, **{key: value}), folder)
    assert f"is another model: model.{key}: {value} here" in said


def test_the_vocabulary_may_be_padded_on_either_side(folder: Path) -> None:
    model = fresh(folder, vocab_multiple=64)
    padding = model.family.tokens.weight[VOCABULARY:].clone()
    fill_from(model, folder)
    source = read_checkpoint(folder).tensors["family.tokens.weight"]
    assert torch.equal(model.family.tokens.weight[:VOCABULARY], source)
    assert torch.equal(model.family.tokens.weight[VOCABULARY:], padding)


def test_other_rows_are_refused_with_the_way_out(folder: Path) -> None:
    assert "make the shards with the tokenizer of that model" in message(fresh(folder, 29), folder)
    assert "37 rows of the vocabulary, the shards' tokenizer 29 ids (padded: 29)" in message(fresh(folder, 29), folder)


def test_padding_that_would_fit_is_named(tmp_path: Path) -> None:
    saved(tmp_path, "bert", vocab_size=64)
    said = message(fresh(tmp_path, 50), tmp_path)
    assert "set model.vocab_multiple=16, which pads this vocabulary to as many" in said
    fill_from(fresh(tmp_path, 50, vocab_multiple=16), tmp_path)


def test_a_folder_of_nothing_is_refused(folder: Path, tmp_path: Path) -> None:
    assert "config.json" in message(fresh(folder), tmp_path)
    assert "expected the folder of" in message(fresh(folder), tmp_path / "none")


def trained(world: World, config: Path, overrides: list[str]) -> int:
    return run(load_config(TrainConfig, config, overrides), joined=world)


def why_refused(world: World, config: Path, words: list[str]) -> str:
    try:
        return str(trained(world, config, words))
    except ConfigurationError as error:
        return str(error)


def heldout_loss(output: Path) -> float:
    (folder,) = steps_in(output / "checkpoints")[-1:]
    return float(Index.read(folder).state["heldout_loss"])


def test_a_run_begins_where_another_ended(tmp_path: Path, one_rank: RankPool) -> None:
    """With a rate of almost 0, the held-out loss stays that of the first run's end, at every stage of ZeRO."""
    shards = write_masked_sets(tmp_path / "sets")
    first = tmp_path / "first"
    config = write_config(tmp_path / "a.yaml", shards, first)
    one_rank.run(trained, config, [f"output={first}", "steps=6"])
    losses = {}
    for stage in (0, 1, 3):
        output = tmp_path / f"stage{stage}"
        words = [f"output={output}", "steps=1", f"zero.stage={stage}", "optimizer.learning_rate=1e-12"]
        one_rank.run(trained, config, [*words, f"model.init_from={first}"])
        losses[stage] = heldout_loss(output)
    assert losses == pytest.approx(dict.fromkeys(losses, heldout_loss(first)), rel=1e-6)
    longer = ["steps=2", "optimizer.learning_rate=1e-12", f"model.init_from={tmp_path / 'gone'}"]
    one_rank.run(trained, config, [f"output={tmp_path / 'stage1'}", "zero.stage=1", *longer])
    assert heldout_loss(tmp_path / "stage1") == pytest.approx(losses[1], rel=1e-6), "a run that resumes reads nothing"
    plain = tmp_path / "plain"
    one_rank.run(trained, config, [f"output={plain}", "steps=1", "optimizer.learning_rate=1e-12"])
    assert heldout_loss(plain) != pytest.approx(losses[0], rel=1e-3)


RECIPE = """
    {{corpus: c, output: {output}, input: {texts}, heldout: {{fraction: 0.1}}, clean: {{language: null, filters: []}},
    tokenizer: {{path: {published}, add: true, specials: {{pad: <|endoftext|>}}}}, encode: {{}}, group: {{}},
    corrupt: [{{name: masked_lm, max_length: 12}}]}}
"""


@pytest.mark.slow
def test_a_published_model_learns_added_tokens_and_goes_back(tmp_path: Path, one_rank: RankPool) -> None:
    """A model on GPT-2's files has no mask: it gets one, is trained, and transformers has its ids and its rows."""
    published, imported, output, out = (tmp_path / name for name in ("published", "imported", "run", "out"))
    pieces = json.loads(byte_level(published).read_text(encoding="utf-8"))
    saved(published, "bert", vocab_size=len(pieces), hidden_act="gelu")
    (published / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}', encoding="utf-8")
    assert import_model([str(published), str(imported)]) == 0
    texts = write_corpus(tmp_path / "texts", 30)
    recipe = RECIPE.format(output=tmp_path / "data", texts=texts, published=published)
    assert make_shards(["--config", str(write_recipe(tmp_path, recipe))]) == 0
    shards = tmp_path / "data" / "corrupt" / "masked_lm" / "train" / "manifest.json"
    config = write_config(tmp_path / "a.yaml", shards, output)
    words = ["model=null", f"model.init_from={imported}", "model.heads={masked_lm: 1.0}", "model.dropout={}"]
    assert one_rank.run(trained, config, [*words, "steps=3", "optimizer.learning_rate=1e-5"]) == [0]
    assert export_model([str(output), str(out)]) == 0
    tokenizer = load_tokenizer(tmp_path / "data" / "tokenizer" / "tokenizer")
    theirs = transformers.AutoTokenizer.from_pretrained(out)
    assert len(theirs) == tokenizer.vocabulary.size == len(pieces) + 3
    assert theirs.mask_token_id == tokenizer.vocabulary.specials["mask"] >= len(pieces)
    for text in ("the cat sat", "Köln\n 中文 <mask"):
        assert theirs(text, add_special_tokens=False)["input_ids"] == tokenizer.encode([text])[0].ids.tolist()
    model = transformers.AutoModelForMaskedLM.from_pretrained(out)
    before = read_checkpoint(published).tensors["family.tokens.weight"]
    after = model.get_input_embeddings().weight.detach()
    assert len(after) == len(pieces) + 3
    assert (after[: len(pieces)] - before).abs().max() < 1e-3
    assert ((after[len(pieces) :] - before.mean(0)).abs() < 0.1 * before.std(0) + 1e-3).all()


def test_an_adapter_does_not_freeze_new_pieces(tmp_path: Path, one_rank: RankPool) -> None:
    """The embeddings under an adapter are frozen: rows of a domain's pieces would stay what they start as."""
    published, larger, texts = tmp_path / "published", tmp_path / "larger", write_corpus(tmp_path / "texts", 30)
    pieces = json.loads(byte_level(published).read_text(encoding="utf-8"))
    saved(published, "gpt2", vocab_size=len(pieces))
    (published / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}', encoding="utf-8")
    assert import_model([str(published), str(tmp_path / "imported")]) == 0
    (tmp_path / "domain.txt").write_text("\n".join(corpus()), encoding="utf-8")
    words = [f"input={tmp_path / 'domain.txt'}", f"output={larger}", "pieces=5", "min_frequency=2"]
    assert extend_tokenizer([str(tmp_path / "imported"), *words]) == 0
    recipe = RECIPE.format(output=tmp_path / "data", texts=texts, published=larger)
    recipe = recipe.replace(", add: true, specials: {pad: <|endoftext|>}", "").replace("masked_lm", "causal_lm")
    assert make_shards(["--config", str(write_recipe(tmp_path, recipe))]) == 0
    shards = tmp_path / "data" / "corrupt" / "causal_lm" / "train" / "manifest.json"
    config = write_config(tmp_path / "a.yaml", shards, tmp_path / "run")
    words = ["model=null", f"model.init_from={tmp_path / 'imported'}", "model.heads={lm: 1.0}"]
    (said,) = one_rank.run(why_refused, config, [*words, "model.adapter.name=lora"])
    assert "an adapter freezes the embeddings" in said


def test_further_ids_begin_near_their_parts(folder: Path) -> None:
    """The source's last two rows are padding and belong to no id: none of them is taken, nor counted in a mean."""
    known = VOCABULARY - 2
    parts = {known: (5, 7), known + 1: (3,), known + 2: (), known + 3: (5, 7)}
    model, source = fresh(folder, known + len(parts)), read_checkpoint(folder).tensors
    filled = fill_from(model, folder, other=OtherTokenizer(known, known + len(parts), parts))
    assert filled.added == range(known, known + 4)
    heads = {name for name in source if name.startswith("heads.") and ".projection." in name}
    for name in {"family.tokens.weight", *heads} & dict(model.named_parameters()).keys():
        row, theirs = model.get_parameter(name).detach(), source[name]
        assert torch.equal(row[:known], theirs[:known]), name
        for token, ids in parts.items():
            mean = theirs[list(ids)].mean(0) if ids else theirs[:known].mean(0)
            assert ((row[token] - mean).abs() <= 0.1 * theirs[:known].std(0) + 1e-6).all(), name
        assert theirs.dim() == 1 or not torch.equal(row[known], row[known + 3]), "two ids of equal parts differ"
    old = fresh(folder)
    fill_from(old, folder)
    ids = torch.arange(1, 9)[None]
    text = {"input_ids": ids, "position_ids": torch.arange(8)[None], "lengths": torch.tensor(8)}
    before, after = (one.eval().logits(text)["masked_lm"][..., :known] for one in (old, model))
    assert torch.allclose(before, after, atol=1e-6), "text of old ids has the old scores"


def test_a_head_for_other_classes_is_new(folder: Path) -> None:
    """As many classes with other names: the rows of the old head mean something else."""

    def of(*labels: str) -> Model:
        return fresh(folder, heads={"classification": HeadConfig(labels=labels)})

    source = folder.parent / "tuned"
    tuned = of("no", "yes")
    names = {name: tensor.detach().clone() for name, tensor in tuned.named_parameters()}
    checkpoint = replace(read_checkpoint(folder), config=tuned.config, tensors=names)
    same, other = (
        fill(model, translate_source(model.config, Run(source, checkpoint)))
        for model in (of("no", "yes"), of("dull", "fine"))
    )
    assert (same.fresh, same.unused) == ([], [])
    heads = sorted(name for name in names if name.startswith("heads.classification."))
    assert sorted(other.fresh) == sorted(other.unused) == heads != []


@pytest.mark.parametrize("parts", [("embeddings",), ("none",), (r"family\.stack\.layers\.0\..*",)],
                         ids=["embeddings", "none", "layer"])  # fmt: skip
def test_parts_of_the_source(folder: Path, parts: tuple[str, ...]) -> None:
    """Copied are the named parameters, byte for byte; all others keep their initial values."""
    begins = {"embeddings": ("family.tokens.", "family.stack.embeddings.", "family.stack.position."), "none": ()}
    expected = begins.get(parts[0], ("family.stack.layers.0.",))
    model, untouched, source = fresh(folder), fresh(folder), read_checkpoint(folder).tensors
    filled = fill_from(model, folder, parts=parts)
    before = dict(untouched.named_parameters())
    assert set(filled.copied) == {name for name in before if name.startswith(expected)}
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, (source if name in filled.copied else before)[name]), name
    assert "parameters of the body" in filled.lines()[1]


def test_parts_that_are_not_there(folder: Path) -> None:
    with pytest.raises(
        ConfigurationError, match="init_parts: 'layers' matches no parameter: expected body, embeddings"
    ):
        fill_from(fresh(folder), folder, parts=("layers",))
