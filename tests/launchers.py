"""Stand-ins for commands: programs of a few lines, put first on PATH."""

import sys


def stand_in(folder, name, program):
    """Write a Python program as a command of this name."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{program}", encoding="utf-8")
    path.chmod(0o755)


def noted(log, code=0):
    """Return a program that adds its arguments to a file, a line a call, and ends with a code."""
    return (
        f"import sys\nopen({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + "
        f"'\\n')\nsys.exit({code})\n"
    )
