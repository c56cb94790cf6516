"""Print the share of capital letters in files: `clozeline capitals FILE ...`."""

from pathlib import Path
from typing import Annotated

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.tools.command import run_as_script, run_tool
from mylab.filters.shouting import share_of_capitals


@config_class
class CapitalsOptions:
    """The files."""

    files: Annotated[list[Path], Positional(0)]
    """files of text in UTF-8"""


def main(arguments):
    def print_shares(options):
        for file in options.files:
            print(f"{share_of_capitals(file.read_text(encoding='utf-8')):.2f}  {file}")

    return run_tool(__doc__, arguments, CapitalsOptions, print_shares, prints=True)


if __name__ == "__main__":
    run_as_script(main)
