"""Retrieval: an offline flow makes an index, an online one finds the best passage and answers from it."""

from call_llm import call_llm, embed, likeness
from pocketflow import BatchNode, Flow, Node

TEXTS = [
    "A lathe turns the work. The tool stands still.",
    "A spindle holds the tool and turns it. Any tool fits.",
    "A vice holds the work while it is filed.",
]


class Chunk(BatchNode):
    def prep(self, shared):
        return shared["texts"]

    def exec(self, text):
        return [part.strip() for part in text.split(".") if part.strip()]

    def post(self, shared, prep_res, exec_res_list):
        shared["chunks"] = [chunk for chunks in exec_res_list for chunk in chunks]


class Embed(BatchNode):
    def prep(self, shared):
        return shared["chunks"]

    def exec(self, chunk):
        return embed(chunk)

    def post(self, shared, prep_res, exec_res_list):
        shared["index"] = exec_res_list


class Retrieve(Node):
    def prep(self, shared):
        return embed(shared["query"]), shared["index"], shared["chunks"]

    def exec(self, inputs):
        query, index, chunks = inputs
        scores = [round(likeness(query, vector), 4) for vector in index]
        best = max(range(len(scores)), key=scores.__getitem__)
        return chunks[best], scores[best]

    def post(self, shared, prep_res, exec_res):
        shared["passage"], score = exec_res
        print(f"passage {shared['passage']!r} {score}")


class Answer(Node):
    def __init__(self):
        super().__init__(max_retries=2, wait=0.001)

    def prep(self, shared):
        return shared["passage"]

    def exec(self, passage):
        return call_llm(f"summarize: {passage}")

    def post(self, shared, prep_res, exec_res):
        shared["answer"] = exec_res
        return exec_res  # no node follows, so any word will do


chunk, retrieve = Chunk(), Retrieve()
chunk >> Embed()
retrieve >> Answer()
shared = {"texts": TEXTS, "query": "what holds any tool?"}
print(Flow(start=chunk).run(shared))
print(Flow(start=retrieve).run(shared), shared["answer"])
