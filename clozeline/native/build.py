"""Compile the native functions: `python -m clozeline.native.build [COMPILER FLAG ...]`.

`pip install` calls it (hatch_build.py); call it yourself after you edit a source. It imports
nothing of the project, because an installation runs it before the package can be imported.
"""

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
LIBRARY: Final = FOLDER / "libnative.so"
"""The compiled module; ctypes loads it under this name on every platform."""
_FLAGS: Final = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
)
# a fused multiply-add rounds once instead of twice, so floats would differ from numpy's
_SAME_BITS: Final = ("-ffp-contract=off",)


def source_hash() -> str:
    """Return the hash of all sources.

    A library that was compiled from other sources is not used.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted([*FOLDER.glob("*.cpp"), *FOLDER.glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def build(*flags: str) -> Path:
    """Compile the library and return its path.

    It is replaced atomically, since running processes may have it open.


    Raises:
        OSError: the compiler (`CXX`, by default c++) is missing, or the folder is not writable.
        subprocess.CalledProcessError: compilation failed; `stderr` says why.
    """
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    hashed = f'-DCLOZELINE_SOURCES="{source_hash()}"'
    sources = map(str, sorted(FOLDER.glob("*.cpp")))
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        made = Path(folder) / LIBRARY.name
        command = [*compiler, *_FLAGS, *_SAME_BITS, hashed, *flags, "-o", str(made), *sources]
        subprocess.run(command, check=True, capture_output=True, text=True)
        made.replace(LIBRARY)
    return LIBRARY


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{build(*sys.argv[1:])}\n")
    except OSError as error:
        sys.exit(f"error: {error}: install a C++ compiler, or name it by CXX")
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: the compiler failed\n{error.stderr}")
