import json
import math

import pytest
import torch

from tests.model.checkpoints import parity


def test_a_wrong_model_is_seen_in_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(checkpoint: parity.Any) -> parity.Any:
        model = built(checkpoint)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.5)
        return model

    built, read = parity.build_checkpoint, parity.read_tensors
    monkeypatch.setattr(parity, "build_checkpoint", spoil)
    monkeypatch.setattr(
        parity,
        "read_tensors",
        lambda folder: ({name: one + (folder.name == "out") for name, one in read(folder)[0].items()}, []),
    )
    row = parity.compare("gpt2", 7)
    assert all(row[name] > parity.LIMIT for name in parity.COLUMNS if name != "out")


def test_the_table_holds_the_largest_and_fails_above_the_limit(tmp_path, monkeypatch, capsys) -> None:
    values = {1: {"in": 2e-6, "out": 0.0}, 2: {"in": 3e-6, "out": math.inf}}
    monkeypatch.setattr(parity, "compare", lambda model_type, seed: values[seed])
    words = ["--types", "bert", "--json", str(tmp_path / "out.json"), "--seeds", "1"]
    assert parity.main(words) == 0
    assert parity.main([*words, "2"]) == 1
    assert json.loads((tmp_path / "out.json").read_text())["types"]["bert"]["in"] == 3e-6
    assert "| `bert` | 3.0e-06 | inf |" in capsys.readouterr().out
