"""Bases, variants and parts of a configuration file; the expected keys are written out by hand."""

import pytest

from clozeline.configuration.config import load_config, read_composed
from clozeline.errors import ConfigurationError
from clozeline.pipeline.recipe import Recipe
from clozeline.train.configuration.config import TrainConfig


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder / f"{next(iter(files))}.yaml"


def test_a_file_changes_its_base_and_a_variant_changes_the_file(tmp_path):
    path = write(
        tmp_path,
        own="{base: middle.yaml, steps: 3, data: {lanes: 4}, variants: {small: {base: low.yaml, model: {dim: 8}}}}",
        middle="{base: low.yaml, steps: 2, seed: 2, variants: {lost: {}}}",
        low="{steps: 1, seed: 1, data: {lanes: 2, micro_batch: 2}, optimizer: {name: adamw, eps: 1.0e-6}}",
    )
    expected = {"steps": 3, "seed": 2, "data": {"lanes": 4, "micro_batch": 2}}
    expected["optimizer"] = {"name": "adamw", "eps": 1e-6}
    assert read_composed(TrainConfig, path) == expected
    small = expected | {"steps": 1, "seed": 1, "data": {"lanes": 2, "micro_batch": 2}, "model": {"dim": 8}}
    assert read_composed(TrainConfig, path, ["variant=small", "steps=9"]) == small
    with pytest.raises(ConfigurationError, match="no variant 'lost'; known: small"):
        read_composed(TrainConfig, path, ["variant=lost"])


def test_algorithms_families_names_and_lists_replace_those_of_the_base(tmp_path):
    path = write(
        tmp_path,
        own="{base: low.yaml, optimizer: {name: sgd}, model: {family: decoder, heads: {lm: 1.0}}, freeze: [body]}",
        low="{optimizer: {name: adamw, eps: 1.0}, freeze: [x], "
        "model: {family: encoder, dim: 8, heads: {masked_lm: 1.0}}}",
    )
    model = {"family": "decoder", "heads": {"lm": 1.0}}
    assert read_composed(TrainConfig, path) == {"optimizer": {"name": "sgd"}, "model": model, "freeze": ["body"]}
    path.write_text("{base: low.yaml, model: {family: encoder, layers: 2, heads: {sentence: 1.0}}}")
    merged = {"family": "encoder", "dim": 8, "layers": 2, "heads": {"sentence": 1.0}}
    assert read_composed(TrainConfig, path)["model"] == merged


def test_each_command_takes_its_part(tmp_path):
    path = write(tmp_path, own="{pipeline: {corpus: a}, train: {base: low.yaml, steps: 2}}", low="{train: {seed: 3}}")
    assert read_composed(TrainConfig, path) == {"seed": 3, "steps": 2}
    assert load_config(Recipe, path, ["output=x"]).corpus == "a"
    path.write_text("{pipeline: {corpus: a}}")
    with pytest.raises(ConfigurationError, match="expected the key 'train', got pipeline"):
        read_composed(TrainConfig, path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{base: own.yaml}", "circle"),
        ("{base: none}", "no such file; expected a path ending in .yaml, or: .*pretraining"),
        ("{base: ../none.yaml}", "no such file"),
        ("{base: [a]}", "expected a name or a path"),
        ("{variants: [a]}", "variants: expected a mapping"),
    ],
)
def test_mistakes_are_named(tmp_path, text, said):
    with pytest.raises(ConfigurationError, match=f"own.yaml: .*{said}"):
        read_composed(TrainConfig, write(tmp_path, own=text))


def test_sizes_are_models_that_other_keys_change(tmp_path):
    path = write(
        tmp_path, own="{model: {family: encoder, dim: 8, layers: 1, attention_heads: 1, ffn_dim: 8, heads: {}}}"
    )
    words = ["data.shards=x", "output=y"]
    bert = load_config(TrainConfig, path, [*words, "model=size:bert_base"]).model
    assert (bert.dim, bert.layers, bert.type_vocab_size, [*bert.heads]) == (768, 12, 2, ["masked_lm"])
    changed = ["model=size:bert_base", "model.layers=6", "model.position.maximum=64", "model.heads={sentence: 1.0}"]
    small = load_config(TrainConfig, path, [*words, *changed]).model
    assert (small.dim, small.layers, [*small.heads]) == (768, 6, ["sentence"])
    assert (small.position.kind, small.position.maximum) == ("learned", 64)
    with pytest.raises(ConfigurationError, match="no size 'bert_bse' in configs/models; did you mean 'bert_base'"):
        load_config(TrainConfig, path, [*words, "model=size:bert_bse"])
    with pytest.raises(ConfigurationError, match="size or family, got both"):
        load_config(TrainConfig, path, [*words, "model.size=bert_base"])
