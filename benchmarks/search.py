"""What a search finds: BFCL's functions, and the repository's own questions to real tools.

`python benchmarks/search.py learn` chooses the weights of the fusion anew, by the tuned questions alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from table import Row

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
BFCL_GOAL = 87
QUERY_MS = 10
PLAIN_LOST = 10


def worker(*arguments: str) -> Any:
    """In the environment of the tests, whose catalog is asked, and so with what `make node` installs."""
    paths = [
        REPOSITORY / ".node" / "bin",
        REPOSITORY / ".venv" / "bin",
        REPOSITORY / ".node" / "node_modules" / ".bin",
    ]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | {
        "SPINDLE_TRUST": "1",
        "PATH": os.pathsep.join([*map(str, paths), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(
            map(str, (HERE, REPOSITORY / "tests", REPOSITORY / "tests" / "stores"))
        ),
    }
    command = [str(REPOSITORY / ".venv/bin/python"), str(HERE / "search_worker.py"), *arguments]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit("the environment of the tests is not there: run `make node`") from None
    if done.returncode:
        raise SystemExit(
            "search could not be measured; are `make node` and `make test ARGS=tests/embedders` done?"
        )
    return json.loads(done.stdout)


def search(quick: bool) -> list[Row]:
    made = worker("measure", *(["--quick"] if quick else []))
    rows: list[Row] = []
    for catalog, said in (("bfcl", "BFCL"), ("own", "own questions")):
        part = made[catalog]
        for name, counts in part["sets"].items():
            of = counts["questions"]
            for way, hits in counts.items():
                if way == "questions":
                    continue
                what = f"{said}, {name}, {of} to {part['tools']:,} tools, in the first five: {way}"
                rows.append(Row("search", what, 100 * hits / of, "%"))
        for model, figures in part["models"].items():
            where = f"{said}, {part['tools']:,} tools, {model}"
            goal = QUERY_MS if model == "light" else None
            rows.append(Row("search", f"{where}: a search, median", figures["search_ms"], "ms", goal=goal))
            rows.append(Row("search", f"{where}: of it meaning, median", figures["model_ms"], "ms"))
    return rows + crossed(made["crossed"])


def crossed(made: dict[str, Any]) -> list[Row]:
    """Of each half of the questions, what is found with the weight that the other half chooses."""
    rows: list[Row] = []
    weights = " and ".join(f"{weight:.2f}" for weight in made["weights"])
    for name, counts in made["sets"].items():
        of = counts["questions"]
        for way, hits in counts.items():
            if not way.startswith("words and"):
                continue
            what = f"{name}, {of}, halves that choose each other's weight ({weights}): {way}"
            ratio = goal = None
            if (name, way) == ("BFCL", "words and light"):
                goal = BFCL_GOAL
            elif (name, way) == ("paraphrased", "words and MiniLM"):
                ratio, goal = hits / counts["MiniLM alone"], 1.0
            rows.append(Row("search", what, 100 * hits / of, "%", ratio, goal, at_least=True))
    return rows


if __name__ == "__main__":
    print(json.dumps(worker(*sys.argv[1:]), indent=2))
