"""Damage to the files of a finished run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Damage:
    """Change of a file; `draw` chooses the byte, the length or the other file."""

    kind: str
    relative: str
    draw: int = 0

    def apply(self, root):
        path = root / self.relative
        content = path.read_bytes()
        if self.kind == "delete":
            path.unlink()
        elif self.kind == "truncate":
            path.write_bytes(content[: self.draw % max(1, len(content))])
        elif self.kind == "flip" and content:
            place = self.draw % (8 * len(content))
            changed = bytearray(content)
            changed[place // 8] ^= 1 << place % 8
            path.write_bytes(changed)
        elif self.kind == "swap":
            others = sorted(other for other in path.parent.iterdir() if other.is_file() and other != path)
            if others:
                other = others[self.draw % len(others)]
                path.write_bytes(other.read_bytes())
                other.write_bytes(content)
