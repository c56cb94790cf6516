"""Processes that the product starts: where they look for modules, and what they may use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.process import ChildLimits, python_command, run_child, start_child

ROOT = Path(__file__).parents[2]


@pytest.fixture
def traps(tmp_path, monkeypatch):
    """The current folder, with files that leave a mark when they are imported instead of an
    installed module."""
    here = tmp_path / "data"
    here.mkdir()

    for module in (
        "json",
        "yaml",
        "struct",
        "signal",
        "pickle",
        "psutil",
        "numpy",
        "transformers",
        "resource",
    ):
        (here / f"{module}.py").write_text(
            f"open({str(tmp_path / 'imported')!r}, 'a').write({module!r} + ' ')\n"
        )

    monkeypatch.chdir(here)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    yield here

    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()


GRANDCHILD = (
    "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', 'import json, "
    "yaml']).returncode)"
)


@pytest.mark.parametrize("code", ["import json, yaml", GRANDCHILD])
def test_a_child_and_its_children_import_nothing_from_the_current_folder(traps, code):
    assert run_child(python_command("-c", code)).returncode == 0
    with start_child(python_command("-c", code), env={"PATH": os.environ["PATH"]}) as child:
        assert child.wait() == 0


def sum_of_squares(number):
    import json

    return json.dumps(number**2)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_and_their_tracker_import_nothing_from_the_current_folder(traps, method):
    """In a process of its own: that of the tests has a fork server already."""
    code = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from clozeline.process import child_context
from tests.clozeline.test_process import sum_of_squares
if __name__ == "__main__":
    with child_context({method!r}).Pool(1) as pool:
        print(pool.map(sum_of_squares, [3]))
"""

    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )

    assert done.stdout == "['9']\n", done.stderr


def test_a_child_may_use_no_more_than_its_limits():
    grown = run_child(
        python_command("-c", "bytearray(2**30)"), limits=ChildLimits(memory_bytes=2**28)
    )

    assert grown.returncode == 1
    assert b"MemoryError" in grown.stderr

    endless = "import time; time.sleep(0.2)\nwhile True: pass"

    assert (
        run_child(python_command("-c", endless), limits=ChildLimits(cpu_s=1)).returncode == -24
    ), "SIGXCPU"
    assert run_child(python_command("-c", "bytearray(2**28)"), limits=ChildLimits()).returncode == 0


def test_a_child_is_killed_after_its_time():
    with pytest.raises(subprocess.TimeoutExpired):
        run_child(python_command("-c", "import time; time.sleep(60)"), timeout_s=0.5)


# Commands, in a folder with files that have the names of modules
# -----------------------------------------------------

SENTENCES = [
    f"Boat number {n} of {n * n} went out to the {n % 7}th island that was {n % 5} miles away."
    for n in range(60)
]
PAGE = "<html><body><article><p>" + " ".join(SENTENCES) + "</p></article></body></html>"


def typed(*words, **variables):
    environment = {
        k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CLOZELINE_IMPORT")
    }
    return subprocess.run(
        words, env=environment | variables, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize(
    "start",
    [
        [str(Path(sys.executable).parent / "clozeline")],
        [sys.executable, "-m", "clozeline"],
    ],
)
def test_pages_are_cleaned_beside_files_with_the_names_of_modules(traps, start):
    """`python -m` itself imports some modules of the standard library before ours runs, and those
    are no trap here."""
    if "-m" in start:
        (traps / "struct.py").unlink()
        (traps / "signal.py").unlink()

    (traps / "page.html").write_text(PAGE)
    words = (
        "clean",
        "input=page.html",
        "output=out",
        "executor.workers=2",
        "clean.language=null",
        "clean.filters=[]",
    )

    done = typed(*start, *words)

    assert done.returncode == 0, done.stderr


def test_a_published_tokenizer_is_read_beside_files_with_the_names_of_modules(traps, tmp_path):
    from clozeline.pipeline.tokenize.published.importing import _CHILD

    request = '{"path": "nothing", "tokenizer_class": null, "texts": []}\n'
    done = run_child(python_command("-m", _CHILD), input=request, text=True, limits=ChildLimits())
    assert '"error"' in done.stdout, done.stderr
