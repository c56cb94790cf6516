"""Standard output and error that take nothing: a reader that left, a full disk, no descriptor, a
closed terminal."""

import contextlib
import os
import pty
import subprocess

WAYS = ("no reader", "full disk", "no descriptors", "closed terminal")


@contextlib.contextmanager
def started(way, command, **options):
    """Start a command whose standard output and error take nothing.

    A terminal is closed after its first bytes.
    """
    words = list(command)

    if way == "no descriptors":
        with subprocess.Popen(
            ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], **options
        ) as process:
            yield process
        return

    if way == "closed terminal":
        reader, writer = pty.openpty()
    elif way == "no reader":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open("/dev/full", os.O_WRONLY)

    with subprocess.Popen(words, stdout=writer, stderr=writer, **options) as process:
        os.close(writer)
        if way == "closed terminal":
            with contextlib.suppress(OSError):  # it ended without a word
                os.read(reader, 1)
            os.close(reader)
        yield process


def exit_code(way, command, **options):
    """Return the exit code of a command whose standard output and error take nothing."""
    with started(way, command, **options) as process:
        return process.wait(300)
