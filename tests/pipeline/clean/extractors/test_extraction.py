import os
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import closing

import psutil
import pytest

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.clean.extractors import BATCH, Extracted, Extraction, _extraction
from clozeline.registry import choose

SLOW = "<p " + " ".join(f"a{i}=1" for i in range(120_000)) + ">text"  # quadratic in the number of attributes


def extraction(**options):
    return closing(Extraction(choose("clozeline.pipeline.clean.extractors", {"name": "resiliparse", **options})))


@pytest.fixture(scope="module")
def shared():
    with extraction() as running:
        yield running


def test_answers_come_in_order_and_in_batches(shared):
    pages = [f"<p>page {number}</p>" for number in range(2 * BATCH + 3)]
    assert [answer.text for answer in shared.extract(pages)] == [f"page {number}" for number in range(len(pages))]
    assert shared.extract([]) == []


def test_a_page_without_text_is_told_from_one_with(shared):
    reasons = [answer.reason for answer in shared.extract(["", "<html><body> </body>", "<p>x", "<div>" * 6000])]
    assert reasons == ["extract_empty", "extract_empty", None, "html_depth"]
    assert shared.restarts == 0


def test_a_text_that_only_the_second_try_finds_is_marked(shared):
    hidden = "<body><noscript><div></noscript><p>" + "Words of an article that a wrong element hides. " * 20
    first, second = shared.extract([hidden, "<p>x"])
    assert (first.text[:5], first.reason, first.lenient) == ("Words", None, True)
    assert second == Extracted("x")


def test_large_pages_pass_both_ways(shared):
    pages = ["<p>" + str(number) * 1_000_000 for number in range(5)]
    assert [len(answer.text) for answer in shared.extract(pages)] == [1_000_000] * 5


def test_a_slow_page_costs_only_itself():
    with extraction(timeout_s=0.2) as running:
        answers = running.extract(["<p>one", SLOW, "<p>two"])
        assert [(answer.text, answer.reason) for answer in answers] == [("one", None), ("", "timeout"), ("two", None)]
        assert running.restarts == 1


def test_the_clock_rejects_no_page():
    with extraction(timeout_s=0.05) as running:
        running.extract(["<p>x"])
        child = running._child.pid
        os.kill(child, signal.SIGSTOP)
        threading.Timer(0.5, os.kill, (child, signal.SIGCONT)).start()
        assert running.extract(["<p>one"]) == [Extracted("one")]
        assert running.restarts == 0


def test_a_process_that_does_not_answer_ends_the_stage(monkeypatch):
    monkeypatch.setattr(_extraction, "_PATIENCE", 0.001)
    with extraction() as running:
        child = running._get_child()
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(StorageError, match=r"no answer for 0 s, although a page may only use 5 s"):
            running.extract(["<p>one"])
        assert child.poll() == -signal.SIGKILL


def test_a_page_that_needs_too_much_memory_costs_only_itself(capfd):
    with extraction(memory_bytes=1 << 28) as running:
        answers = running.extract(["<p>one", "<p>x y" * 5_000_000, "<p>two"])
    assert [answer.reason for answer in answers] == [None, "extractor_crash", None]


class _Killed(Extraction):
    """Kills its child with signal 9 when the page "kill" has been sent."""

    def _ask(self, child, pages):
        if pages[0] == "kill":
            os.kill(child.pid, signal.SIGKILL)
        return super()._ask(child, pages[:1])


def test_a_crash_costs_only_the_page_at_work_and_leaves_no_process():
    with closing(_Killed(choose("clozeline.pipeline.clean.extractors", "resiliparse"))) as running:
        answers = running.extract(["<p>one", "kill", "<p>two"])
        assert [answer.reason for answer in answers] == [None, "extractor_crash", None]
        child = psutil.Process(running._child.pid)
    assert not child.is_running()


def test_the_child_ends_with_its_parent():
    code = textwrap.dedent("""
        import os, signal
        from clozeline.pipeline.clean.extractors import Extraction
        from clozeline.registry import choose
        running = Extraction(choose("clozeline.pipeline.clean.extractors", "resiliparse"))
        running.extract(["<p>x"])
        print(running._child.pid, flush=True)
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


def test_ctrl_c_for_the_group_of_the_parent_does_not_reach_the_child(shared):
    shared.extract(["<p>x"])
    assert os.getpgid(shared._child.pid) != os.getpgrp()


def test_wrong_options_are_told_before_any_process():
    with pytest.raises(ConfigurationError, match="timeout_s"):
        extraction(timeout_s=0)
