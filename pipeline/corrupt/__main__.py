from collections.abc import Sequence

from pipeline.__main__ import stage_main

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this stage of a recipe."""
    return stage_main("corrupt", arguments)


if __name__ == "__main__":
    raise SystemExit(main())
