"""Copy a finished shard set to a store: `clozeline publish-set OUT/corrupt/masked_lm/train output=s3://bucket/set`.

Trainings read it there (`data.shards=s3://bucket/set/manifest.json`). The manifest is copied last, so that a set is
never seen before all of its files are there; an error removes what was copied. Sizes are compared after each file.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from clozeline.configuration.config import config_class
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.tools.command import IntermixedArguments, plural, run_tool, some_path
from clozeline.tools.settings import add_settings, settings_of
from clozeline.tools.shards.rewriting.remote_folder import new_target
from clozeline.tools.shards.rewriting.shard_folder import open_local

_MANIFEST: Final = "manifest.json"


@config_class
class PublishOptions:
    """Target of the copy."""

    output: Annotated[Path, HOME_EXPANDED]
    """URL of a new folder in a store, such as `s3://bucket/set`, or a new folder on a disk"""


def publish_set(path: Path, output: Path) -> tuple[int, int]:
    """Copy a set; return the numbers of files and bytes.

    Raises:
        IntegrityError: if the set is not whole.
        ConfigurationError: if the target holds files already.
    """
    folder = open_local(path).path.parent
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and not file.name.startswith(".")]
    files = [file for file in files if not file.name.endswith(".tmp")]
    with new_target(output) as target:
        for file in sorted(files, key=lambda each: each.name == _MANIFEST):
            with target.file(file.name) as temporary:
                shutil.copyfile(file, temporary)
    return len(files), sum(file.stat().st_size for file in files)


def _run(options: argparse.Namespace) -> None:
    chosen = settings_of(PublishOptions, options.overrides)
    files, size = publish_set(options.set, chosen.output)
    sys.stdout.write(f"{chosen.output}: {plural(files, 'file')}, {size:,} bytes\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = IntermixedArguments(__doc__)
    parser.add_argument("set", type=some_path, metavar="SET", help="a shard set on this disk")
    add_settings(parser, PublishOptions)
    return run_tool(parser, arguments, _run)


if __name__ == "__main__":
    raise SystemExit(main())
