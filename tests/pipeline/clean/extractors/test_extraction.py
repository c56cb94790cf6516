import os
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.clean.extractors import _extraction
from clozeline.pipeline.clean.extractors._extraction import ExtractionResult, ExtractorProcess
from clozeline.pipeline.registries import EXTRACTORS

# quadratic in the number of attributes
SLOW = "<p " + " ".join(f"a{i}=1" for i in range(120_000)) + ">text"


def extraction(**options):
    return closing(ExtractorProcess(EXTRACTORS.resolve({"name": "resiliparse", **options})))


def extract_all(running, pages):
    return [running.extract(page) for page in pages]


@pytest.fixture(scope="module")
def shared():
    with extraction() as running:
        yield running


def test_a_text_that_only_the_second_try_finds_is_marked(shared):
    hidden = (
        "<body><noscript><div></noscript><p>"
        + "Words of an article that a wrong element hides. " * 20
    )
    first, second = extract_all(shared, [hidden, "<p>x"])

    assert (
        first.text[:5],
        first.reason,
        first.lenient,
    ) == ("Words", None, True)
    assert second == ExtractionResult("x")


def test_pages_of_any_characters_pass_both_ways(shared):
    pages = [
        "",
        "<p>a\ud800b",
        "<p>\ud83d\ude00",
        "<p>😀 é",
        "<p>a\0b",
        "<pre>received\n[3, null, false]\nabc",
    ]

    texts = ["", "a?b", "??", "😀 é", "ab", "received\n[3, null, false]\nabc"]

    assert [answer.text for answer in extract_all(shared, pages)] == texts


@pytest.mark.parametrize("last", [0, 2])
def test_a_slow_page_costs_only_itself_and_no_file_stays_open(last):
    process = psutil.Process()
    before = process.num_fds()
    pages = [f"<p>{number}" for number in range(4)]
    expected = [ExtractionResult(str(number)) for number in range(4)]
    pages[last] = SLOW
    expected[last] = ExtractionResult("", "timeout")

    with extraction(timeout_s=0.2) as running:
        assert extract_all(running, pages) == expected
        assert running.restarts == 1
        assert process.num_fds() == before + 1

    assert process.num_fds() == before


def test_the_clock_rejects_no_page():
    with extraction(timeout_s=0.05) as running:
        running.extract("<p>x")
        child = running._running[0].pid
        os.kill(child, signal.SIGSTOP)
        threading.Timer(0.5, os.kill, (child, signal.SIGCONT)).start()
        assert running.extract("<p>one") == ExtractionResult("one")
        assert running.restarts == 0


def test_a_process_that_does_not_answer_ends_the_stage(monkeypatch):
    monkeypatch.setattr(_extraction, "_WALL_PER_CPU_SECOND", 0.1)

    with extraction() as running:
        running.extract("<p>x")
        child = running._running[0]
        os.kill(child.pid, signal.SIGSTOP)

        with pytest.raises(
            StorageError, match=r"did not answer for 0 s, although a page may only use 5 s"
        ):
            running.extract("<p>" + "x" * 5_000_000)

        assert child.poll() == -signal.SIGKILL


@pytest.mark.usefixtures("default_signals")
def test_an_interrupted_page_does_not_answer_the_next_one():
    with extraction() as running:
        running.extract("<p>x")
        os.kill(running._running[0].pid, signal.SIGSTOP)
        threading.Timer(
            0.3, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]
        ).start()
        with pytest.raises(KeyboardInterrupt):
            running.extract("<p>one")

        assert running.extract("<p>two") == ExtractionResult("two")


def test_a_page_that_needs_too_much_memory_costs_only_itself(capfd):
    with extraction(memory_bytes=1 << 28) as running:
        answers = extract_all(running, ["<p>one", "<p>x y" * 5_000_000, "<p>two"])

    assert [answer.text for answer in answers] == ["one", "", "two"]
    # the parser may report it or not
    assert answers[1].reason in (
        "extractor_crash",
        "extractor_error",
    )


class _Killed(ExtractorProcess):
    """Kills its child with signal 9 before it is asked, so many times."""

    times = 0

    def _send_page(self, page):
        if self.times:
            self.times -= 1
            child, *_ = self._running or self._start()
            os.kill(child.pid, signal.SIGKILL)
        return super()._send_page(page)


def test_a_page_at_which_two_processes_die_is_to_blame_and_no_process_stays():
    with closing(_Killed(EXTRACTORS.resolve("resiliparse"))) as running:
        for times, answer in (
            (0, ExtractionResult("one")),
            (1, ExtractionResult("one")),
            (2, ExtractionResult("", "extractor_crash")),
        ):
            running.times = times
            assert running.extract("<p>one") == answer

        assert running.extract("<p>two") == ExtractionResult("two")
        assert running.restarts == 3

        child = psutil.Process(running._running[0].pid)

    assert not child.is_running()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_a_parser_prints_goes_to_the_errors_and_ctrl_c_is_not_for_the_child(shared):
    shared.extract("<p>x")
    output, errors = (
        Path(f"/proc/{shared._running[0].pid}/fd/{number}").readlink() for number in (1, 2)
    )

    assert output == errors
    assert os.getpgid(shared._running[0].pid) != os.getpgrp()


def test_the_child_ends_with_its_parent():
    code = textwrap.dedent("""
        import os, signal
        from clozeline.pipeline.clean.extractors._extraction import ExtractorProcess
        from clozeline.pipeline.registries import EXTRACTORS
        running = ExtractorProcess(EXTRACTORS.resolve("resiliparse"))
        running.extract("<p>x")
        print(running._running[0].pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == -signal.SIGKILL

    child = int(done.stdout)

    try:
        psutil.Process(child).wait(timeout=5)
    except psutil.NoSuchProcess:
        return

    assert not psutil.pid_exists(child)
