from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.filters import HashedTerms, iter_terms


def test_empty_lines_and_comments_are_no_terms(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("\ufeff# words\n\n  one \ntwo words\n#three\n", encoding="utf-8")
    assert list(iter_terms(tmp_path / "a")) == ["one", "two words"]
    with pytest.raises(ConfigurationError, match="none: expected a list in UTF-8"):
        list(iter_terms(tmp_path / "none"))


def test_hashed_terms_are_a_set(tmp_path: Path) -> None:
    listed = [f"host{number}.example" for number in range(0, 300, 3)]
    (tmp_path / "a").write_text("\n".join(listed[:50]))
    (tmp_path / "b").write_text("\n".join(listed[50:]))
    terms = HashedTerms([tmp_path / "a", tmp_path / "b"])
    for number in range(300):
        assert terms.holds_any(["x", f"host{number}.example"]) == (number % 3 == 0)
    assert not terms.holds_any([])
    assert [part.dtype for part in terms._hashes] == [np.uint64] * 2
    (tmp_path / "a").write_text("another.example\n")
    assert HashedTerms([tmp_path / "a"]).holds_any(["another.example"]), "a changed file is read again"
