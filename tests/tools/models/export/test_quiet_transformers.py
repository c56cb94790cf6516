"""transformers as the commands that compare with it import it."""

import subprocess
import sys

import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.models.export.quiet_transformers import import_transformers

LOAD = """
from clozeline.tools.models.export.quiet_transformers import import_transformers

transformers = import_transformers("a comparison")
config = transformers.BertConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
transformers.BertForMaskedLM(config).save_pretrained({folder!r})
transformers.BertForMaskedLM.from_pretrained({folder!r})
"""


def test_loading_a_model_prints_nothing(tmp_path):
    code = LOAD.format(folder=str(tmp_path / "model"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_missing_library_is_named_with_what_needs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigurationError, match=r"^--theirs needs transformers: pip install transformers$"):
        import_transformers("--theirs")
