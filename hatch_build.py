"""Compile the native module while pip builds the package, where there is a compiler."""

import runpy
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeBuild(BuildHookInterface):
    """Adds clozeline/native/libnative.so; a wheel with it is for one platform, any Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of a wheel, or of an editable install, are collected."""
        build = runpy.run_path(str(Path(self.root, "clozeline", "native", "build.py")))["build"]
        try:
            library = build()
        except (OSError, subprocess.CalledProcessError) as error:
            why = getattr(error, "stderr", None) or error
            self.app.display_warning(
                f"the native module is not built, so some steps will be slower: {why}"
            )
            return
        build_data["artifacts"].append(f"clozeline/native/{library.name}")
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
