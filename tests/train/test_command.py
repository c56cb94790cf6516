"""The command as a user types it: launchers, help, and mistakes that end in one message."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from clozeline.command import keys_of
from clozeline.errors import ConfigurationError, NoPeersError
from clozeline.model.configuration.sizes import all_sizes
from clozeline.pipeline.shards import open_shards
from clozeline.train import command
from clozeline.train.command import _ALGORITHMS, main
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.stopping import INTERRUPTED_MESSAGE
from tests.distributed import ROOT, free_port, run_ranks
from tests.shard_sets import damage
from tests.train import faulty
from tests.train.masked_set import write_config, write_masked_sets
from tests.train.runs import logged

BIN = Path(sys.executable).parent


def environment():
    own = ("RANK", "WORLD_SIZE", "MASTER_PORT", "PYTHONUNBUFFERED")
    kept = {key: value for key, value in os.environ.items() if key not in own}
    return {**kept, "OMP_NUM_THREADS": "1", "PATH": f"{BIN}:{os.environ['PATH']}"}


def typed(*words, timeout=300):
    return subprocess.run(
        words,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def deepspeed(*words):
    port = ["--master_port", str(free_port())]
    return [
        sys.executable,
        str(BIN / "deepspeed"),
        "-q",
        *port,
        "--num_accelerators",
        "2",
        "train/main.py",
        *words,
    ]


def test_what_is_printed_is_whole_in_a_file():
    assert [*all_sizes()][-1] in typed(sys.executable, "train/main.py", "--help", "all").stdout[
        -100:
    ]


def bits(output):
    return [loss for _, loss, _ in logged(output)]


def test_one_rank_and_the_launcher_take_the_same_file(tmp_path, shards):
    config = write_config(
        tmp_path / "train.yaml", shards, tmp_path / "one", steps=3, model__dropout={}
    )
    alone = run_ranks(1, faulty.train_normally, "--config", str(config), folder=tmp_path)

    assert (alone.codes, alone.errors) == ([0], [""])

    two = typed(
        "env",
        "CLOZELINE_NATIVE=0",
        *deepspeed("--config", str(config), f"output={tmp_path / 'two'}", "zero.stage=2"),
    )

    assert two.returncode == 0, two.stderr
    assert "deprecated" not in two.stderr
    assert not re.search("^(export|peak) |compiled module", two.stdout + two.stderr, re.MULTILINE)
    assert len(two.stderr.splitlines()) <= 5

    first = [float.fromhex(bits(tmp_path / name)[0]) for name in ("one", "two")]

    assert first[0] == pytest.approx(first[1], abs=1e-6)


def test_a_wrong_setting_of_the_environment_is_named(tmp_path, shards):
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", steps=1)
    setting = "GLOO_SOCKET_IFNAME=nope0"
    done = typed("env", setting, sys.executable, "train/main.py", "--config", str(config))

    assert (done.returncode, setting in done.stderr) == (64, True), done.stderr
    assert not re.search("mistake in Clozeline|Traceback", done.stderr)


def test_quiet_prints_nothing_and_verbose_every_record_in_80_columns(tmp_path, shards):
    config = str(write_config(tmp_path / "train.yaml", shards, tmp_path / "run", steps=4))
    quiet = run_ranks(1, faulty.train_normally, "--config", config, "--quiet", folder=tmp_path)

    assert (
        quiet.codes,
        quiet.outputs,
        quiet.errors,
    ) == ([0], [""], [""])

    words = ("--config", config, "--verbose", f"output={tmp_path / 'other'}")
    verbose = run_ranks(1, faulty.train_normally, *words, folder=tmp_path)
    lines = verbose.outputs[0].splitlines()

    assert [line.split("/")[0] for line in lines if re.match(r"step \d+/", line)] == [
        f"step {step}" for step in range(1, 5)
    ]
    assert max(len(line) for line in lines if "report.html" not in line) <= 80

    wrong = run_ranks(
        1, faulty.train_normally, "--config", config, "--quiet", "stepz=4", folder=tmp_path
    )

    assert wrong.codes == [64]
    assert "stepz" in wrong.errors[0], "errors are never quiet"


def torchrun(*words):
    options = ["--nproc-per-node", "2", "--master-port", str(free_port()), "--"]
    return [sys.executable, str(BIN / "torchrun"), *options, "train/main.py", *words]


@pytest.mark.slow
def test_torchrun_takes_the_same_file(tmp_path, shards):
    """With the bits of the other launcher."""
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", steps=2)
    for launcher in (torchrun, deepspeed):
        done = typed(*launcher("--config", str(config), f"output={tmp_path / launcher.__name__}"))
        assert done.returncode == 0, done.stderr
    assert bits(tmp_path / "torchrun") == bits(tmp_path / "deepspeed")


def called(capsys, words):
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def alone(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("WORLD_SIZE", "1")


@pytest.mark.usefixtures("alone")
def test_help_lists_every_key(capsys, monkeypatch):
    code, text, _ = called(capsys, ["--help", "all"])

    assert code == 0

    for key in (
        "model.layers",
        "data.global_batch",
        "zero.stage",
        "checkpoint.keep_best",
        "optimizer.betas",
        "model.heads.NAME.weight",
    ):
        assert f"  {key}: " in text or f"  {key} (name: adamw, adamw_scale, lamb): " in text

    assert "  schedule.power (name: polynomial): float = 0.5" in text

    _, common, _ = called(capsys, ["--help"])

    assert "\n  model.layers: " in common
    assert "watchdog_s" not in common

    monkeypatch.setenv("RANK", "1")  # only rank 0 prints

    assert called(capsys, ["--help"]) == (0, "", "")


def test_every_key_has_a_meaning():
    assert not [key for key, _, _, meaning in keys_of(TrainConfig, _ALGORITHMS) if not meaning]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 64, "--config is missing"),
        (["--config", "CONFIG", "stesp=3"], 64, "unknown key 'stesp'; did you mean 'steps'?"),
        (["--config", "CONFIG", "data.shards=MISSING"], 74, "not a shard set"),
        (["--config", "CONFIG", "output=FILE"], 64, "got a file"),
        (["--config", "CONFIG", "data.shards=FLIPPED"], 65, "expected xxh3-128"),
    ],
)
def test_mistakes_end_in_one_message(capsys, tmp_path, shards, words, code, message):
    names = {
        "CONFIG": write_config(tmp_path / "train.yaml", shards, tmp_path / "run"),
        "FILE": tmp_path / "file",
    }
    (tmp_path / "file").write_text("")
    if "data.shards=FLIPPED" in words:
        names["FLIPPED"] = write_masked_sets(tmp_path / "sets")
        damage(open_shards(names["FLIPPED"]), 0)

    for name, path in names.items():
        words = [word.replace(name, str(path)) for word in words]
    found, _, error = called(capsys, [*words, "--dry-run"] if words else words)

    assert found == code
    assert error.startswith("error: ")
    assert message in error
    assert "Traceback" not in error
    assert len(error.splitlines()) <= 2


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGUSR1", 75), ("SIGXCPU", 75)])
def test_interrupt_during_the_imports_is_one_line(tmp_path, monkeypatch, name, code):
    """A signal while `train.command` is imported: a module in its stead sends it."""
    package = tmp_path / "clozeline"
    tree = ROOT / "clozeline"
    ground = [
        path.relative_to(tree)
        for pattern in ("*.py", "configuration/*.py")
        for path in tree.glob(pattern)
    ]
    for file in (
        *ground,
        "train/__init__.py",
        "train/main.py",
        "train/distributed/__init__.py",
        "train/distributed/stopping.py",
    ):
        (package / file).parent.mkdir(exist_ok=True)
        (package / file).write_bytes((tree / file).read_bytes())

    (package / "train" / "command.py").write_text(
        f"import os, signal\nos.kill(os.getpid(), signal.{name})\nmain = None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = typed(sys.executable, str(package / "train" / "main.py"))

    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"{INTERRUPTED_MESSAGE}\n")


@pytest.mark.parametrize(
    ("joined", "rank", "local", "prints"),
    [
        (False, "8", "0", True),
        (False, "8", "1", False),
        (True, "8", "0", False),
        (True, "0", "0", True),
    ],
)
def test_an_error_of_all_ranks_is_printed_once(monkeypatch, joined, rank, local, prints):
    """By each machine before the ranks have joined, and by the first rank afterwards."""
    monkeypatch.setattr(command, "_has_joined", lambda: joined)

    assert command._explain(ConfigurationError("wrong"), rank, local) == (
        64,
        "wrong" if prints else "",
    )
    assert command._explain(NoPeersError("alone"), rank, local) == (71, "alone")


@pytest.mark.slow
def test_a_rank_that_waits_in_vain_says_where(tmp_path, shards):
    config = write_config(tmp_path / "train.yaml", shards, tmp_path / "run", collective_timeout_s=2)
    port = free_port()
    variables = {
        "RANK": 1,
        "LOCAL_RANK": 1,
        "WORLD_SIZE": 2,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }

    assigned = [f"{key}={value}" for key, value in variables.items()]
    done = typed("env", *assigned, sys.executable, "train/main.py", "--config", str(config))

    assert done.returncode == 71, done.stderr

    found = (
        f"rank 1 of 2 on {socket.gethostname()} did not meet the others at 127.0.0.1:{port} in 2 s"
    )

    assert found in done.stderr
    assert not (tmp_path / "run").exists()
