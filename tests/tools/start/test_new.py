"""`clozeline new`: by flags or by questions; what it writes runs from texts to a step of training."""

from __future__ import annotations

import io
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.tools.start.new import main
from tests.distributed import run_program
from tests.matrices import mark_slow_but


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for number, text in enumerate(sorted(topics.values())):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("model", mark_slow_but(["gpt"], ["bert", "gpt", "t5", "bart"]))
def test_what_it_writes_runs(texts: Path, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["mine", f"input={texts}", "language=en", f"model={model}"]) == 0
    monkeypatch.chdir(texts)  # the paths of the files are absolute
    assert run_pipeline(["--config", str(tmp_path / "mine" / "pipeline.yaml")]) == 0
    words = ["--config", str(tmp_path / "mine" / "train.yaml"), "steps=2", "schedule.warmup=0", "data.micro_batch=2"]
    train = f"from clozeline.train.command import main\nassert main({[*words, 'data.global_batch=16']}) == 0"
    done = run_program(train, tmp_path)
    assert done.codes == [0], done.errors
    assert (tmp_path / "mine" / "run" / "report.html").is_file()


class Terminal(io.StringIO):
    """Typed lines."""

    def isatty(self) -> bool:
        return True


def test_three_questions_are_asked_until_the_answers_are_valid(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(f"{tmp_path}/none\n{texts}\nenglish\nde\n\n"))
    assert main([str(tmp_path / "mine")]) == 0
    out = capsys.readouterr().out
    assert out.count("Your texts: ") == 2
    assert out.count("Their language: ") == 2
    assert "nothing at" in out
    recipe = (tmp_path / "mine" / "pipeline.yaml").read_text(encoding="utf-8")
    assert "keep: [de]" in recipe
    assert "name: masked_lm" in recipe
    assert "stop_words: 0" in recipe
    monkeypatch.setattr("sys.stdin", Terminal(f"{texts}\n"))
    assert main([str(tmp_path / "other")]) == 64
    assert "no answer; give input=FILES" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_without_a_terminal_the_texts_are_needed(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main([str(tmp_path / "mine")]) == 64
    assert "input is missing: give the folder of your texts, such as input=texts" in capsys.readouterr().err
    assert main([str(tmp_path / "mine"), f"input={texts}"]) == 0
    assert "keep: []" in (tmp_path / "mine" / "pipeline.yaml").read_text(encoding="utf-8")
    before = (tmp_path / "mine" / "train.yaml").read_bytes()
    assert main([str(tmp_path / "mine"), f"input={texts}", "model=t5"]) == 64
    assert "pipeline.yaml exists: name another folder, or remove the file" in capsys.readouterr().err
    assert (tmp_path / "mine" / "train.yaml").read_bytes() == before
