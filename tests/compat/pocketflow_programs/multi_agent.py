"""Two agents play taboo over queues: one gives hints, the other guesses, each in a flow of its own."""

import asyncio

from call_llm import call_llm_async
from pocketflow import AsyncFlow, AsyncNode


class Hinter(AsyncNode):
    async def prep_async(self, shared):
        guess = await shared["to_hinter"].get()
        return None if guess == "GAME OVER" else (shared["target"], shared.setdefault("hints", []))

    async def exec_async(self, inputs):
        if inputs is None:
            return None
        target, hints = inputs
        return await call_llm_async(f"hint: {target} not {','.join(hints)}")

    async def post_async(self, shared, prep_res, exec_res):
        if exec_res is None:
            return "end"
        shared["hints"].append(exec_res)
        shared["log"].append(f"hint {exec_res}")
        await shared["to_guesser"].put(exec_res)
        return "continue"


class Guesser(AsyncNode):
    async def prep_async(self, shared):
        shared.setdefault("heard", []).append(await shared["to_guesser"].get())
        return shared["heard"], shared.setdefault("guesses", [])

    async def exec_async(self, inputs):
        heard, guesses = inputs
        return await call_llm_async(f"guess: {','.join(heard)} not {','.join(guesses)}")

    async def post_async(self, shared, prep_res, exec_res):
        shared["log"].append(f"guess {exec_res}")
        if exec_res == shared["target"]:
            await shared["to_hinter"].put("GAME OVER")
            return "end"
        shared["guesses"].append(exec_res)
        await shared["to_hinter"].put(exec_res)
        return "continue"


async def main():
    shared = {"target": "nostalgia", "to_hinter": asyncio.Queue(), "to_guesser": asyncio.Queue(), "log": []}
    hinter, guesser = Hinter(), Guesser()
    hinter - "continue" >> hinter
    guesser - "continue" >> guesser
    await shared["to_hinter"].put("")
    ends = await asyncio.gather(
        AsyncFlow(start=hinter).run_async(shared), AsyncFlow(start=guesser).run_async(shared)
    )
    print(ends, shared["log"], shared["guesses"])


asyncio.run(main())
