"""Parallel: all items at once in a node, and a flow for many files at once; results stay in order."""

import asyncio

from call_llm import call_llm_async
from pocketflow import AsyncFlow, AsyncNode, AsyncParallelBatchFlow, AsyncParallelBatchNode, Node


class Translate(AsyncParallelBatchNode):
    async def prep_async(self, shared):
        return [(shared["text"], language) for language in shared["languages"]]

    async def exec_async(self, pair):
        text, language = pair
        if language == "tlh":
            raise LookupError("unknown tongue")
        return f"{language}: {await call_llm_async(f'translate: {text}')}"

    async def exec_fallback_async(self, pair, exc):
        return f"{pair[1]}: {exc}"

    async def post_async(self, shared, prep_res, exec_res_list):
        shared["translations"] = exec_res_list
        return "check"


class Check(Node):
    """Not async, in a flow that is."""

    def prep(self, shared):
        return len(shared["translations"])

    def exec(self, count):
        return count == 4

    def post(self, shared, prep_res, exec_res):
        shared["complete"] = exec_res


class Load(AsyncNode):
    async def exec_async(self, prep_res):
        await asyncio.sleep(0)
        return f"<{self.params['image']}>"

    async def post_async(self, shared, prep_res, exec_res):
        shared["loaded"][self.params["image"]] = exec_res
        return "filter"


class Filter(AsyncNode):
    async def prep_async(self, shared):
        return shared["loaded"][self.params["image"]]

    async def exec_async(self, image):
        await asyncio.sleep(0)
        return f"{self.params['filter']}({image})"

    async def post_async(self, shared, prep_res, exec_res):
        shared["images"].append(exec_res)


class Images(AsyncParallelBatchFlow):
    async def prep_async(self, shared):
        names = ("cat", "dog")
        return [{"image": name, "filter": how} for name in names for how in ("blur", "grey", "sepia")]

    async def post_async(self, shared, prep_res, exec_res):
        return f"{len(prep_res)} done, {exec_res}"


async def main():
    shared = {"text": "hello world", "languages": ["es", "tlh", "fr", "de"], "loaded": {}, "images": []}
    translate, load = Translate(max_retries=2), Load()
    translate - "check" >> Check()
    load - "filter" >> Filter()
    print(await AsyncFlow(start=translate).run_async(shared))
    print(await Images(start=load).run_async(shared))
    shared["images"].sort()
    print(shared)


asyncio.run(main())
