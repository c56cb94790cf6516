"""An sshd on a port of this machine, which lets this user in without a password, under the names that are asked for."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.distributed import free_port

_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
MISSING = [name for name in ("sshd", "ssh", "ssh-keygen", "pdsh") if shutil.which(name, path=_PATH) is None]
"""Programs that are not installed."""
WHY = f"not installed: {', '.join(MISSING)} (packages openssh-server, openssh-client and pdsh)"

_SERVER = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""
_CLIENT = """
Host {names}
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/user
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
"""


@contextlib.contextmanager
def ssh_to_here(folder, *names):
    """Start the server; yield the file that `ssh -F` reads, in which the names lead to this machine."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # of Debian's sshd
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True)
    facts = {"port": free_port(), "folder": folder, "names": " ".join(names)}
    for name, text in (("server", _SERVER), ("client", _CLIENT)):
        (folder / name).write_text(text.format(**facts), encoding="utf-8")
    sshd = str(shutil.which("sshd", path=_PATH))
    with subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "server")], stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", facts["port"]), 1):
                    break
                time.sleep(0.1)
            yield folder / "client"
        finally:
            server.terminate()
