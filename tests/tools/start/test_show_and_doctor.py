"""`clozeline show`, any objective with any tokenizer, and `clozeline doctor`."""

import sys
from importlib import metadata

import pytest

from clozeline import registry
from clozeline.pipeline.corrupt.preview import corrupt_text
from clozeline.tools.start.doctor import main as doctor
from clozeline.tools.start.show import main, show
from tests.pages import checked
from tests.pipeline.tokenize.tokenizers.test_tokenizer import trained
from tests.tools.small_run import plain_text

OBJECTIVES = registry.names("clozeline.pipeline.corrupt.objectives")


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_shows_the_sample_text(name, capsys):
    assert main([name]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "kitten" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_without_an_objective_all_are_listed(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n {name} " in shown for name in OBJECTIVES)


def test_settings_and_options_are_those_of_the_call_from_python():
    words = ["mask_rate=0.5", "seed=3", "variant=2"]
    wanted = corrupt_text({"name": "masked_lm", "mask_rate": 0.5}, "It is raining again.", seed=3, variant=2)
    assert str(show("masked_lm", "It is raining again.", words)) == str(wanted)
    assert str(show("masked_lm", "seed=3", [])) == str(show("masked_lm", None, ["seed=3"]))
    assert "a=3" in str(show("masked_lm", "a=3 is what it says.", [])).replace(" ", "")


def test_pieces_of_a_tokenizer_are_shown_as_text(tmp_path, capsys):
    for name in ("byte_bpe", "unigram", "wordpiece"):
        trained(name, tmp_path / name)
        assert main(["masked_lm", "The cat sat on the mat.", f"tokenizer={tmp_path / name}"]) == 0
        shown = capsys.readouterr().out
        assert not [sign for sign in ("Ġ", "▁", "##") if sign in shown]
        assert "sat on the" in plain_text(shown)


def test_the_page_says_the_same(tmp_path, capsys):
    file = tmp_path / "page.html"
    assert main(["span_corruption", "--html", str(file)]) == 0
    texts = "".join(checked(file.read_text(encoding="utf-8")).texts)
    assert "<extra_0>" in texts
    assert capsys.readouterr().out.endswith(f"page: {file}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["masked_ml"], "did you mean 'masked_lm'?"),
        (["masked_lm", "It rains.", "mask_rat=0.3"], "unknown key 'mask_rat'; did you mean 'mask_rate'?"),
        (["masked_lm", "It rains.", "variant=70000"], "variant"),
        (["translation_lm", "It rains."], "give the other side as target"),
        (["sentence_reordering", "One sentence."], "at least 1 tokens and 2 sentences"),
        (["masked_lm", "It rains.", "tokenizer=nowhere"], "nowhere: no such file or folder"),
        (["masked_lm", " "], "expected a text, got nothing"),
    ],
)
def test_mistakes_end_in_one_message(words, said, capsys):
    assert main(words) == 64
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_this_machine_has_all_that_is_needed(tmp_path, capsys):
    assert doctor([f"output={tmp_path / 'new' / 'folder'}"]) == 0
    names = {line.split("  ")[0] for line in capsys.readouterr().out.splitlines()}
    assert {"Python", "torch", "GPUs", "C++ compiler", "compiled module", "cores", "memory", "disk"} <= names
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_named_with_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(metadata, "requires", lambda _: ["numpy>=2", "no-such-package==1", 'extra-one; extra == "x"'])
    assert doctor([]) == 64
    out, err = capsys.readouterr()
    assert "missing: no-such-package, torch, C++ compiler" in err
    assert all(
        advice in out for advice in ("install g++", "pip install torch", "pip install -c constraints.txt no-such")
    )
