"""Every command on a full disk, and without its input: one message, nothing torn.

Commands are listed by their folders, so a new one is covered by itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clozeline.bench import NAMES, STAGES, WITHOUT_FILES, Answer, Bench

WITH_FILES = sorted(set(NAMES) - set(WITHOUT_FILES))
WITHOUT_INPUT = ("continue_demo", "crawl_site", "demo", "draw_flow", "make_gallery", "race", "study")
"""Those read the network, or only what comes with Clozeline."""
NETWORK = ("continue_demo", "crawl_site", "demo", "race", "study")
"""Those go on to a site where the disk takes their first bytes."""
REFUSED = ("forgetting",)
"""Those that find nothing to do: no task is left to learn."""
SECONDS = ("train",)
"""Those take seconds: they are started fewer times."""


@pytest.fixture
def bench(whole: Bench, tmp_path: Path) -> Bench:
    return whole.copy(tmp_path / "copy")


def tree(folder: Path) -> dict[str, bytes]:
    """Return every published file below a folder; locks and the log of a run's starts are none."""
    kept = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in kept
        if path.name not in (".lock", ".holder", "rank0.out", "rank0.err", "port")
    }


def one_message(answer: Answer, *codes: int) -> str:
    assert "Traceback" not in answer.error
    assert answer.code in codes, answer
    assert answer.error.count("\n") <= 4, answer.error
    return answer.error


@pytest.mark.parametrize("limit", [0, *(pytest.param(size, marks=pytest.mark.slow) for size in (300, 3000, 30_000))])
@pytest.mark.parametrize("name", WITH_FILES)
def test_a_full_disk(bench: Bench, name: str, limit: int) -> None:
    """One message that names the file; what was there is as it was, and no torn file has a final name."""
    if limit and name in NETWORK:
        return
    bench.without_results_of(name)
    before = tree(bench.folder)
    answer = bench.ask(name, limit)
    writes = name not in REFUSED and any(str(bench.new) in word or "output=" in word for word in bench.words(name))
    if writes and (limit == 0 or answer.code == 74):
        said = one_message(answer, 74)
        assert "File too large" in said
        assert str(bench.folder) in said
    else:
        assert answer.code in ((64,) if name in REFUSED else (0, 1)), answer
    after = tree(bench.folder)
    assert {path: after.get(path) for path in before} == before
    assert answer.code == 74 or writes or after == before
    new = [path for path in after if path not in before and not path.endswith(".partial")]
    assert not [path for path in new if path.endswith(".tmp") or limit == 0]


@pytest.mark.parametrize("name", sorted(set(WITH_FILES) - set(WITHOUT_INPUT)))
def test_an_input_that_vanished(bench: Bench, name: str) -> None:
    """Each file or folder that the words name, the recipe and the configuration too."""
    words = bench.words(name)
    paths = [Path(word.rpartition("=")[2]) for word in words if str(bench.folder) in word]
    inputs = [path for path in paths if path not in (bench.new, bench.run) and "page.html" not in path.name]
    if name == "fill_mask":
        inputs = [bench.run]
    if name in (*STAGES, "pipeline"):
        inputs.remove(bench.output)
    bench.without_results_of(name)
    for path in inputs[:1] if name in SECONDS else inputs:
        for one in path.parent.glob(path.name):
            one.rename(one.with_name(f"{one.name}.gone"))
        said = one_message(bench.answer(name, words), 64, 65, 74)
        assert path.name.strip("*.") in said, said
        for one in path.parent.glob(f"{path.name}.gone"):
            one.rename(one.with_suffix(""))
