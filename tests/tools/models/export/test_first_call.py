"""Exports as their class of transformers loads and calls them."""

import sys

import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.models.compare_logits import main as compare
from clozeline.tools.models.compress import main as compress
from clozeline.tools.models.export.model_card import load_and_call
from clozeline.tools.models.export_model import main as export
from tests.model.checkpoints import published
from tests.tools.runs.inference.test_trained_model import write_run
from tests.tools.runs.test_generate import DECODER


@pytest.mark.parametrize("case", ["bert", "gpt2", "t5"])
def test_a_folder_that_runs_is_loaded(tmp_path, case):
    published.saved(tmp_path, case)
    loader = published.peer_of(case).key_map.auto
    assert load_and_call(tmp_path, loader, {}) == f"loaded by {loader}"


def test_missing_tensors_are_refused(tmp_path):
    published.saved(tmp_path, "bert")
    with pytest.raises(ConfigurationError, match=r"cannot run this model: tensors differ: .*missing_keys.*pooler"):
        load_and_call(tmp_path, "BertForNextSentencePrediction", {})


def test_a_first_call_that_fails_is_refused(tmp_path):
    """transformers reads the folder, and its layers with a window find none."""
    published.saved(tmp_path, "gemma2", layer_types=["sliding_attention"] * 5, sliding_window=4)
    published.edit_config(tmp_path, layer_types=None)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"sliding_window": 4', '"sliding_window": null'))
    with pytest.raises(ConfigurationError, match="Gemma2ForCausalLM of transformers cannot run this model"):
        load_and_call(tmp_path, "Gemma2ForCausalLM", {})


def test_without_transformers_nothing_is_claimed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert load_and_call(tmp_path, "AutoModel", {}) == "for AutoModel, not tried: transformers is not installed"


def test_an_export_that_its_class_refuses_is_none(shard_sets, tmp_path, capsys):
    """Llama's class refuses 20 features for 3 heads; Mistral's, which computes the same, has `head_dim`."""
    write_run(
        tmp_path / "run", shard_sets, [4], 1, "causal_lm", **DECODER, model__norm="rms", model__gated=True,
        model__position={"kind": "rope", "maximum": 64}, model__attention_heads=5, model__activation="silu",
        model__bias=dict.fromkeys(("qkv", "out", "ffn"), False),
    )  # fmt: skip
    small, out = tmp_path / "small", tmp_path / "out"
    words = ["method=heads", "keep=3", "rows=4", "length=16", "repeats=1", f"output={small}"]
    assert compress([str(tmp_path / "run"), *words]) == 0
    assert export([str(small), str(out), "--type", "llama"]) == 64
    told = capsys.readouterr()
    assert "loaded by" not in told.out
    assert "hidden size (20) is not a multiple of the number of attention heads (3)" in told.err
    assert not out.exists()
    assert export([str(small), str(out), "--type", "mistral"]) == 0
    assert "loaded by AutoModelForCausalLM" in capsys.readouterr().out
    assert compare([str(small), str(out), "--theirs"]) == 0
