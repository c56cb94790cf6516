import os
import resource
import select
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

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


def test_pages_of_any_characters_pass_both_ways(shared):
    pages = ["", "<p>a\ud800b", "<p>\ud83d\ude00", "<p>😀 é", "<p>a\0b", "<pre>received\n[3, null, false]\nabc"]
    texts = ["", "a?b", "??", "😀 é", "ab", "received\n[3, null, false]\nabc"]
    assert [answer.text for answer in shared.extract(pages)] == texts


def test_the_file_shrinks_after_a_batch_of_large_pages(shared):
    for length in (1, 20_000_000, 2):
        assert [len(answer.text) for answer in shared.extract(["<p>" + "x" * length, "<p>yy"])] == [length, 2]
    assert os.fstat(shared._file.fileno()).st_size < 1000


@pytest.mark.parametrize("last", [0, 6, BATCH - 1, BATCH])
def test_a_slow_page_costs_only_itself(last):
    pages = [f"<p>{number}" for number in range(BATCH + 2)]
    expected = [Extracted(str(number)) for number in range(BATCH + 2)]
    pages[last], expected[last] = SLOW, Extracted("", "timeout")
    with extraction(timeout_s=0.2) as running:
        assert running.extract(pages) == expected
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


def test_the_pages_of_a_batch_may_take_longer_than_one(shared, monkeypatch):
    output = shared._get_child().stdout
    replies = iter([([], [], []), ([output], [], [])])  # as if the time was over once

    def select_late(*_):
        select.select([output], [], [])
        return next(replies)

    monkeypatch.setattr(_extraction, "select", SimpleNamespace(select=select_late))
    assert shared.extract(["<p>one"]) == [Extracted("one")]


@pytest.mark.usefixtures("default_signals")
def test_an_interrupted_batch_answers_no_later_page(monkeypatch):
    with extraction() as running, monkeypatch.context() as patched:
        patched.setattr(running, "_await_answers", lambda child: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            running.extract(["<p>one"])
        patched.undo()
        assert running.extract(["<p>two"]) == [Extracted("two")]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process")
def test_a_page_is_not_rejected_because_its_answer_finds_no_space():
    with extraction() as running:
        child = running._get_child()
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (60, 60))
        assert running.extract(["<p>one"]) == [Extracted("one")]
        with pytest.raises(StorageError, match="no space for its answers"):
            running.extract(["<p>two", "<p>" + "three " * 20])


def test_a_temporary_file_does_where_the_system_has_no_files_in_memory(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    with extraction() as running:
        assert running.extract(["<p>one", "<p>" + "x" * 100_000])[0] == Extracted("one")


def test_answers_that_are_stored_in_part_are_not_read():
    stored = [_extraction._RECEIVED, *map(_extraction._pack_answer, ("é" * 9, "", "b\n"))]
    expected = [Extracted("é" * 9), Extracted("", "extract_empty"), Extracted("b\n")]
    ends = list(accumulate(map(len, stored)))
    for size in range(ends[-1] + 1):
        complete = sum(size >= end for end in ends[1:])
        assert list(_extraction._read_answers(b"".join(stored)[:size])) == expected[:complete]


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


def test_no_page_is_lost_with_a_child_that_died_before_it_received_them():
    with extraction() as running:
        running.extract(["<p>x"])
        running._child.kill()
        running._child.wait()
        assert running.extract(["<p>one", "<p>two"]) == [Extracted("one"), Extracted("two")]
        assert running.restarts == 1


def test_closed_extractions_leave_no_file_open():
    process = psutil.Process()
    before = process.num_fds()
    with extraction(timeout_s=0.2) as running:
        running.extract(["<p>one", SLOW, "<p>two"])
        assert process.num_fds() == before + 3
    assert process.num_fds() == before


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_a_parser_prints_does_not_mix_with_answers(shared):
    output, errors = (Path(f"/proc/{shared._get_child().pid}/fd/{number}").readlink() for number in (1, 2))
    assert output == errors


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
