"""Comparing the logits of two models: each is read once."""

import shutil

from clozeline.extensions.published.commands.compare_logits import main
from clozeline.train.checkpoint.trained_model import TrainedModel


def test_each_model_is_read_once(bert, tmp_path, monkeypatch, capsys):
    """Its tokenizer is that of what was opened for the logits."""
    copy = tmp_path / "copy"
    opened = []
    real = TrainedModel.open
    shutil.copytree(bert, copy)

    def counting(folder, *rest, **named):
        opened.append(folder)
        return real(folder, *rest, **named)

    monkeypatch.setattr(TrainedModel, "open", staticmethod(counting))

    assert main([str(bert), str(copy), "--text", "the page of the book"]) == 0
    assert opened == [bert, copy]
    assert "text 'the page of the book': largest difference of logits 0" in capsys.readouterr().out
