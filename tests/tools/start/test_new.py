"""`clozeline new`: by flags or by questions; what it writes runs from texts to a step of training."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from pydoc_data.topics import topics

import pytest
import zstandard

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.tools.start.new import main
from clozeline.tools.start.project.templates import MODELS
from tests.distributed import run_program
from tests.matrices import mark_slow_but


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for number, text in enumerate(sorted(topics.values())):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("model", mark_slow_but(["gpt"], MODELS))
def test_what_it_writes_runs(texts: Path, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["mine", f"input={texts}", "language=en", f"model={model}"]) == 0
    monkeypatch.chdir(texts)  # the paths of the files are absolute
    assert run_pipeline(["--config", str(tmp_path / "mine" / "pipeline.yaml")]) == 0
    more = ["steps=2", "schedule.warmup=0", "data.micro_batch=2", "data.global_batch=16", "data.lanes=16"]
    train(tmp_path / "mine", *more)
    assert (tmp_path / "mine" / "run" / "report.html").is_file()


def train(project: Path, *words: str, timeout: float = 300) -> None:
    words = ("--config", str(project / "train.yaml"), *words)
    done = run_program(f"from clozeline.train.command import main\nassert main({list(words)}) == 0", project, timeout)
    assert done.codes == [0], done.errors


def write_prose(source: str, folder: Path) -> None:
    """Novels of the real data as texts of about 4 kB, 1.2 MB in all."""
    path = Path(os.environ["CLOZELINE_DATA"]) / "text" / source
    lines = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read().decode().splitlines()
    paragraphs = [p for line in lines for p in json.loads(line)["text"].split("\n\n")] if ".jsonl" in source else lines
    folder.mkdir()
    total, part = 0, list[str]()
    for paragraph in paragraphs:
        part.append(paragraph)
        if sum(map(len, part)) > 3_800 or total > 1_200_000:
            (folder / f"{total:07}.txt").write_text(text := "\n\n".join(part), encoding="utf-8")
            total, part = total + len(text.encode()), []
        if total > 1_200_000:
            return


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif("CLOZELINE_DATA" not in os.environ, reason="CLOZELINE_DATA names no folder of real files")
@pytest.mark.parametrize(
    ("model", "language", "source", "below"),
    [
        ("bert", "pt", "novels_por.jsonl.zst", 2.0),
        ("bert", "hu", "novels_hun.jsonl.zst", 2.0),
        ("bert", "ja", "ja_wagahai.txt.zst", 1.0),  # without blanks between words
        ("gpt", "fr", "novels_fra.jsonl.zst", 1.0),
        ("llama", "de", "novels_deu.jsonl.zst", 1.0),
        ("bart", "pl", "novels_pol.jsonl.zst", 1.0),
        ("t5", "it", "novels_ita.jsonl.zst", 0.6),
    ],
)
def test_the_first_own_model_learns(model: str, language: str, source: str, below: float, tmp_path: Path) -> None:
    """On 1.2 MB of prose, with what it writes and nothing changed: nats below the loss of a model without context."""
    write_prose(source, tmp_path / "texts")
    assert main([str(tmp_path / "mine"), f"input={tmp_path / 'texts'}", f"language={language}", f"model={model}"]) == 0
    assert run_pipeline(["--config", str(tmp_path / "mine" / "pipeline.yaml")]) == 0
    train(tmp_path / "mine", timeout=1800)
    heldout = json.loads((tmp_path / "mine" / "run" / "status.json").read_text(encoding="utf-8"))["heldout"]["heldout"]
    assert heldout["labels"] > 5_000
    assert heldout["loss"] < heldout["unigram_entropy"] - below


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
    assert main([str(tmp_path / "sized"), f"input={texts}", "model=llama", "size=llama3_8b"]) == 0
    assert "size: llama3_8b" in (tmp_path / "sized" / "train.yaml").read_text(encoding="utf-8")
    assert main([str(tmp_path / "wrong"), f"input={texts}", "model=llama", "size=bert_base"]) == 64
    assert not (tmp_path / "wrong").exists()
    assert main([str(tmp_path / "mine"), f"input={texts}", "model=t5"]) == 64
    assert "pipeline.yaml exists: name another folder, or remove the file" in capsys.readouterr().err
    assert (tmp_path / "mine" / "train.yaml").read_bytes() == before
