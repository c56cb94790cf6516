"""Exports as their class of transformers loads and calls them."""

import sys

import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.models.export.first_call import load_and_call
from tests.model.checkpoints import published


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
