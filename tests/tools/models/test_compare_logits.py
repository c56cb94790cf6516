import json
import re
import shutil

import pytest

from clozeline.tools.models.compare_logits import main
from clozeline.tools.models.import_model import main as import_main
from tests.model.checkpoints.published import saved


@pytest.mark.parametrize("model_type", ["roberta", "llama", "t5", "bert masked_lm+sentence"])
def test_ours_and_theirs(tmp_path, model_type, capsys):
    saved(tmp_path / "in", model_type)
    import_main([str(tmp_path / "in"), str(tmp_path / "ours")])
    capsys.readouterr()
    assert main([str(tmp_path / "ours"), str(tmp_path / "in"), "--theirs"]) == 0
    assert float(capsys.readouterr().out.split()[-1]) < 1e-5
    saved(tmp_path / "other", model_type, seed=1)
    assert main([str(tmp_path / "ours"), str(tmp_path / "other")]) == 65


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"architectures": ["GPT2Model"]}, "no heads|heads have"),
        ({"architectures": ["AutoTokenizer"]}, "transformers refuses it"),
        ({"vocab_size": 7}, "transformers refuses it"),
        (b"{", "not a valid JSON file"),
    ],
)
def test_a_folder_that_transformers_refuses_is_a_mistake_of_the_user(tmp_path, change, reason, capsys):
    saved(tmp_path / "good", "gpt2")
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    file = tmp_path / "bad" / "config.json"
    file.write_bytes(
        change if isinstance(change, bytes) else json.dumps(json.loads(file.read_bytes()) | change).encode()
    )
    for pair in (("good", "bad"), ("bad", "bad")):
        capsys.readouterr()
        assert main([*(str(tmp_path / name) for name in pair), "--theirs"]) == 64
        error = capsys.readouterr().err
        assert re.search(reason, error)
        assert "Traceback" not in error
