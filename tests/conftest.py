"""Fixtures that tests of several folders share."""

import gc
import os
import signal
import tempfile

import pytest
from hypothesis import settings

from clozeline.configuration import redaction
from clozeline.process import SAFE_PATH
from tests.allowed_files import refuse_other_files
from tests.built_once import built_once
from tests.distributed import RankPool
from tests.tokenizer_child import lasting_child

pytest_plugins = ("tests.shared_runs",)

refuse_other_files()

# Before `datasets` is loaded, which keeps a cache in the home.
_home = tempfile.TemporaryDirectory(prefix="clozeline-tests-")
os.environ["HF_HOME"] = _home.name

# Before torch is loaded: small tensors gain nothing from threads, which burn the cores that other
# tests wait for.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# `&` in a script starts a process that ignores SIGINT, and so do its children, to which tests send
# it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test depends on how busy the machine is, nor on luck: `make test` draws the same examples each
# time, and `make test-all` new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.register_profile("exploring", deadline=None, print_blob=True)
settings.load_profile("repeatable")


def pytest_xdist_auto_num_workers():
    """Return the number of processes of `-n auto`: tests of processes and signals wait more than
    they compute."""
    return min(8, 1 + (os.cpu_count() or 1))


def _no_wait_for_the_disk(descriptor):
    """Stand in for `os.fsync`: no test pulls the plug, and a run of the pipeline would wait for the
    disk 600 times."""


os.fsync = _no_wait_for_the_disk

gc.disable()  # importing all tests makes no garbage, and the collector would take a fifth of the time


def pytest_collection_modifyitems(items):
    """Begin with the folders of long files, the trainer's first: at the end, every worker has short
    ones to share."""
    long = ("tests/train/", "tests/tools/", "tests/extensions/", "tests/test_", "tests/pipeline/")
    items.sort(key=lambda item: [not item.nodeid.startswith(part) for part in long])


def pytest_collection_finish():
    """Keep the garbage collector from passing over all tests and libraries again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)  # tests make little garbage in circles, and much that is alive
    gc.enable()


@pytest.fixture
def default_signals():
    """Handle SIGHUP as in a terminal, also where `nohup` started the suite, which then outlives the
    terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True)
def _forget_secrets():
    """A value that one test gives as a secret would be hidden in the messages of the tests after
    it."""
    yield
    redaction._remembered.clear()


@pytest.fixture(autouse=True)
def _unshield_children():
    """A command that runs in this process shields its children, which then find no module of the
    tests."""
    os.environ.pop(SAFE_PATH, None)


@pytest.fixture(scope="session", autouse=True)
def _one_child_reads_tokenizers():
    with lasting_child() as ask, pytest.MonkeyPatch.context() as patch:
        patch.setattr("clozeline.pipeline.tokenize.published.importing.describe_in_child", ask)
        yield


@pytest.fixture(scope="session")
def chain(tmp_path_factory):
    """The chain up to the shards, which all workers share and no test changes."""
    from tests.crawled_chain import Chain, make_chain  # slow to import, and few tests need it

    return Chain(built_once(tmp_path_factory, "chain", make_chain))


@pytest.fixture(scope="session")
def one_rank():
    """One process with a process group of its own."""
    pool = RankPool(1)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def two_ranks():
    """Two processes with one process group, shared by all tests that inject no fault."""
    pool = RankPool(2)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def shard_sets(tmp_path_factory):
    """Output folder of a small pipeline run, which all workers share and no test changes."""
    from tests.tools.small_run import build

    return built_once(tmp_path_factory, "sets", lambda folder: build(folder / "out")) / "out"
