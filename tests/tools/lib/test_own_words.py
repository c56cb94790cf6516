"""The note of a folder of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import ConfigurationError
from tools.lib.own_words import remember


def test_a_folder_is_for_one_thing(tmp_path: Path) -> None:
    """From its first run on: what a command leaves that is refused before does not bind the next one."""
    note = tmp_path / "runs" / "words.json"
    remember(note, {"task": "other"})
    remember(note, {"task": "a", "seeds": [1]})
    (tmp_path / "runs" / "seed-0").mkdir()
    (tmp_path / "runs" / "seed-0" / "config.yaml").write_text("", encoding="utf-8")
    remember(note, {"seeds": [1], "task": "a"})
    with pytest.raises(ConfigurationError, match=r"runs holds runs of other words: task was 'a', is 'b'; choose"):
        remember(note, {"task": "b", "seeds": [1]})
    with pytest.raises(ConfigurationError, match="more was None, is 1"):
        remember(note, {"task": "a", "seeds": [1], "more": 1})
    note.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"words\.json: is damaged"):
        remember(note, {"task": "a", "seeds": [1]})
