"""A Slurm cluster of one node, this machine: munged, slurmctld and slurmd in a folder of their own,
without accounts.

`python -m tests.one_node_slurm COMMAND ...` runs a command with the cluster; without a command it
prints the variable to export, and ends with Ctrl-C. Debian and Ubuntu have the programs in the
packages `slurm-wlm` and `munge`.
"""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.distributed import free_port

PROGRAMS = (
    "munged",
    "slurmctld",
    "slurmd",
    "sbatch",
    "squeue",
    "scancel",
    "scontrol",
    "sinfo",
    "setpriv",
)
_PATH = f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin"
MISSING = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
"""Programs that are not installed."""
WHY = f"not installed: {', '.join(MISSING)} (packages slurm-wlm and munge)"
_PATIENCE_S = 60.0

_CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
{further}
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory} State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def one_node(cores=8, **further):
    """Start the cluster; yield the variables that lead commands to it.

    Args:
        cores: that the node offers, however many this machine has.
        further: lines of slurm.conf, such as `MaxJobCount=3`.
    """
    with (
        tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        for part in ("state", "spool"):
            (folder / part).mkdir()
        host = socket.gethostname().split(".")[0]
        options = {"MinJobAge": 300, **further}
        facts = {
            "folder": folder,
            "host": host,
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "cores": cores,
            "controller": free_port(),
            "daemon": free_port(),
            "memory": psutil.virtual_memory().total // 2**20,
            "further": "\n".join(f"{key}={value}" for key, value in options.items()),
        }

        configuration = folder / "slurm.conf"
        configuration.write_text(_CONFIGURATION.format(**facts), encoding="utf-8")
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        variables = {"SLURM_CONF": str(configuration), "PATH": _PATH}
        munge = [
            f"--{kind}={folder}/munge.{kind}"
            for kind in ("socket", "pid-file", "log-file", "seed-file")
        ]
        _serve(
            stack,
            folder,
            variables,
            "munged",
            "--foreground",
            "--force",
            "--num-threads=2",
            f"--key-file={key}",
            *munge,
        )

        _until((folder / "munge.socket").exists, folder)
        _serve(stack, folder, variables, "slurmctld", "-D", "-i")
        _serve(stack, folder, variables, "slurmd", "-D", "-N", host)
        _until(
            lambda: ask(variables, "sinfo", "--noheader", "--format=%t").strip() == "idle", folder
        )

        try:
            yield variables
        finally:
            ask(variables, "scancel", f"--user={os.geteuid()}")
            with contextlib.suppress(TimeoutError):  # slurmd leaves the processes of its jobs alive
                _until(lambda: not ask(variables, "squeue", "--noheader"), folder)


def ask(variables, *words):
    """Return what a command prints, whose exit code does not matter."""
    environment = {**os.environ, **variables}
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False
    ).stdout


def _serve(stack, folder, variables, *words):
    with (folder / f"{words[0]}.out").open("wb") as output:
        process = subprocess.Popen(  # it ends with this process, also with one that is killed
            ["setpriv", "--pdeathsig", "TERM", *words],
            env={**os.environ, **variables},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def end():
        process.terminate()

        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)


def _until(condition, folder):
    deadline = time.monotonic() + _PATIENCE_S

    while not condition():
        if time.monotonic() > deadline:
            said = "\n".join(
                path.read_text(errors="replace")[-2000:] for path in sorted(folder.glob("*.out"))
            )
            raise TimeoutError(f"the cluster does not start, or does not end:\n{said}")
        time.sleep(0.1)


def main():
    with one_node() as variables:
        if sys.argv[1:]:
            return subprocess.run(
                sys.argv[1:], env={**os.environ, **variables}, check=False
            ).returncode

        print(f"export SLURM_CONF={variables['SLURM_CONF']}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)

    return 0


if __name__ == "__main__":
    raise SystemExit(main())
