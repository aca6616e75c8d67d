"""Fails when a module of the package has grown past the size that can be read in one sitting."""

import sys
from pathlib import Path

LIMIT = 400
SOURCE = Path(__file__).resolve().parent.parent / "src"


def main() -> int:
    sizes = {
        path.relative_to(SOURCE.parent).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in sorted(SOURCE.rglob("*.py"))
    }
    if not sizes:
        sys.stderr.write(f"No Python modules found in {SOURCE}: nothing was checked.\n")
        return 1
    too_long = {path: lines for path, lines in sizes.items() if lines > LIMIT}
    for path, lines in too_long.items():
        sys.stderr.write(f"{path}: {lines} lines, {lines - LIMIT} over the limit of {LIMIT}\n")
    if too_long:
        sys.stderr.write("Split each by what its parts are about.\n")
        return 1
    longest = max(sizes, key=lambda path: sizes[path])
    sys.stdout.write(
        f"{len(sizes)} modules, none over {LIMIT} lines; the longest is {longest} with {sizes[longest]}.\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
