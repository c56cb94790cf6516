import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.tools.models.compare_logits import largest_difference, main
from clozeline.tools.models.import_model import main as import_main
from tests.model.checkpoints.published import saved


@pytest.mark.parametrize("model_type", ["roberta", "llama", "t5", "bert masked_lm+sentence"])
def test_ours_and_theirs(tmp_path: Path, model_type: str, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "in", model_type)
    import_main([str(tmp_path / "in"), str(tmp_path / "ours")])
    capsys.readouterr()
    assert main([str(tmp_path / "ours"), str(tmp_path / "in"), "--theirs"]) == 0
    assert float(capsys.readouterr().out.split()[-1]) < 1e-5
    saved(tmp_path / "other", model_type, seed=1)
    assert main([str(tmp_path / "ours"), str(tmp_path / "other")]) == 65


def test_models_of_other_vocabularies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for size in (37, 41):
        saved(tmp_path / str(size), "gpt2", vocab_size=size)
    assert main([str(tmp_path / "37"), str(tmp_path / "41")]) == 64
    error = capsys.readouterr().err
    assert "the models' heads have [37] and [41] scores" in error
    assert "compare two exports, or the run with its export" in error


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_type": "unheard_of"}, "model type `unheard_of`"),
        ({"architectures": ["GPT2Model"]}, "no heads|heads have"),
        ({"architectures": ["AutoTokenizer"]}, "transformers refuses it"),
        ({"architectures": ["ViTForImageClassification"], "model_type": "vit"}, "transformers refuses it"),
        ({"vocab_size": 7}, "transformers refuses it"),
        ({"activation_function": "unheard_of"}, "transformers refuses it.*unheard_of"),
        (b"{", "not a valid JSON file"),
    ],
)
def test_a_folder_that_transformers_refuses_is_a_mistake_of_the_user(
    tmp_path: Path, change: dict[str, object] | bytes, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_the_largest_difference() -> None:
    ids = torch.arange(6).view(2, 3)
    values = torch.zeros(2, 3, 4)
    other = values.clone()
    other[1, 2, 3] = -0.5
    assert largest_difference(lambda _: [values], lambda _: [other], ids) == 0.5
    assert largest_difference(lambda _: [values, values], lambda _: [values, other], ids) == 0.5
    for wrong in ([other[..., :3]], [other, other]):
        with pytest.raises(ConfigurationError):
            largest_difference(lambda _: [values], lambda _, wrong=wrong: wrong, ids)
