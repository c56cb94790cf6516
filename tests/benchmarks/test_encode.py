"""Texts of the comparison with the libraries that own our tokenizers' algorithms."""

from benchmarks.encode import _SPECIAL, documents


def test_no_text_holds_a_special_piece(tmp_path, monkeypatch):
    """A peer reads `<sep>` in a text as a special piece, and its ids would differ from ours."""
    (tmp_path / "modules").mkdir()

    for name, text in {
        "a": "x = 1\n",
        "b": "mark = '<sep>'\n",
        "c": "'<extra_0>'\n",
        "d": "y = 2\n",
    }.items():
        (tmp_path / "modules" / f"{name}.py").write_text(text)

    monkeypatch.setattr("benchmarks.encode.sysconfig.get_path", lambda _: str(tmp_path))

    assert [document.text for document in documents(1.0)] == ["x = 1\n", "y = 2\n"]
    assert {"<sep>", "<mask>", "</s>", "<extra_0>"} <= set(_SPECIAL)
