"""Builds the scripts and styles of the console that the package ships, out of the sources in console/.

`make console` runs it: our own files are made small by esbuild, those of others are copied out of their npm
package, both of the versions that console/package-lock.json pins. Beside them built.json notes what they were
made of. With --check nothing is built: what is shipped is compared with that note, which needs no Node.js.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "console"
SHIPPED = ROOT / "src" / "spindle" / "console" / "static"
PACKAGES = ROOT / ".node" / "console" / "node_modules"
NOTE = "built.json"
WAY_OUT = "Change the files in console/ and run `make console`, which writes those of the package."

MADE_SMALL = (".css", ".js")
COPIED = (".svg",)
OF_OTHERS = {
    "vendor/htmx.min.js": "htmx.org/dist/htmx.min.js",
    "vendor/hx-csp.min.js": "htmx.org/dist/ext/hx-csp.min.js",
    "vendor/LICENSE-htmx.txt": "htmx.org/LICENSE",
}


class NotBuiltError(Exception):
    """The shipped files are not what the sources give."""


def sources() -> dict[str, bytes]:
    """Returns all that the shipped files depend on, by its name in console/."""
    kinds = (*MADE_SMALL, *COPIED)
    names = sorted(path.name for path in SOURCES.iterdir() if path.suffix in kinds)
    return {name: (SOURCES / name).read_bytes() for name in [*names, "package-lock.json"]}


def built(into: Path) -> None:
    """Writes the files of the package into an empty folder."""
    own = [name for name in sources() if name.endswith(MADE_SMALL)]
    esbuild = PACKAGES / ".bin" / "esbuild"
    if not esbuild.exists():
        raise NotBuiltError("esbuild is not here: run `make console`, which installs it into .node")
    into.mkdir(parents=True, exist_ok=True)
    # Nothing is rewritten for older browsers: the outcome depends on the sources and the version alone.
    options = ["--minify", "--charset=utf8", "--target=esnext", "--log-level=warning", f"--outdir={into}"]
    path = os.pathsep.join([str(ROOT / ".node" / "bin"), os.environ.get("PATH", os.defpath)])
    subprocess.run([esbuild, *own, *options], cwd=SOURCES, env={**os.environ, "PATH": path}, check=True)
    for name in sources():
        if name.endswith(COPIED):
            shutil.copyfile(SOURCES / name, into / name)
    for name, place in OF_OTHERS.items():
        (into / name).parent.mkdir(exist_ok=True)
        (into / name).write_bytes((PACKAGES / place).read_bytes())
    note = {"sources": _digests(sources()), "files": _digests(files(into))}
    (into / NOTE).write_text(f"{json.dumps(note, indent=2)}\n", "utf-8")


def files(folder: Path) -> dict[str, bytes]:
    """Returns the files of a folder by their paths, without the note."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    found.pop(NOTE, None)
    return found


def check(shipped: Path = SHIPPED) -> int:
    """Returns how many files are shipped. Fails unless they, and the sources, are those of the note."""
    try:
        note = json.loads((shipped / NOTE).read_text("utf-8"))
    except FileNotFoundError:
        raise NotBuiltError(f"there is no {NOTE} in {_place(shipped)}. {WAY_OUT}") from None
    there = {"sources": _digests(sources()), "files": _digests(files(shipped))}
    folders = {"sources": SOURCES, "files": shipped}
    others = [
        f"{_place(folders[part] / name)} {_how(noted.get(name), there[part].get(name))}"
        for part, noted in note.items()
        for name in sorted({*noted, *there[part]})
        if noted.get(name) != there[part].get(name)
    ]
    if others:
        raise NotBuiltError("\n".join([*others, WAY_OUT]))
    return len(there["files"])


def _how(noted: str | None, there: str | None) -> str:
    if noted is None:
        return "was not there when the console was built"
    return "is missing" if there is None else "has changed since the console was built"


def _digests(found: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in found.items()}


def _place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def main() -> int:
    """Builds, or checks what was built."""
    parser = argparse.ArgumentParser(description="Builds the console's scripts and styles.")
    parser.add_argument("--check", action="store_true", help="build nothing, and see that all is built")
    try:
        if parser.parse_args().check:
            print(f"{check()} files of the console are those that its sources give.")
            return 0
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "static"
            built(made)
            shutil.rmtree(SHIPPED, ignore_errors=True)
            shutil.copytree(made, SHIPPED)
        print(f"{check()} files are in {_place(SHIPPED)}.")
    except NotBuiltError as problem:
        print(problem, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError:  # esbuild has said why
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
