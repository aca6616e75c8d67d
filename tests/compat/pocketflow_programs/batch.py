"""Batch: a text is translated into several tongues, and a table is read in chunks; one item fails."""

from call_llm import call_llm
from pocketflow import BatchFlow, BatchNode, Flow, Node


class Chunks(BatchNode):
    def prep(self, shared):
        rows = shared["rows"]
        return [
            rows[start : start + self.params["size"]] for start in range(0, len(rows), self.params["size"])
        ]

    def exec(self, chunk):
        if "bad" in chunk:
            raise ValueError(f"cannot count {chunk}")
        return sum(chunk)

    def exec_fallback(self, chunk, exc):
        return f"{exc} at try {self.cur_retry + 1}"

    def post(self, shared, prep_res, exec_res):
        shared["sums"] = exec_res


class Translate(Node):
    def prep(self, shared):
        return shared["text"], self.params["language"], self.params.get("tone")

    def exec(self, inputs):
        text, language, tone = inputs
        return f"{language}/{tone}: {call_llm(f'translate: {text}')}"

    def post(self, shared, prep_res, exec_res):
        shared.setdefault("translations", []).append(exec_res)
        self.params["seen"] = True  # of this round only


class Languages(BatchFlow):
    def prep(self, shared):
        return [{"language": name} for name in shared["languages"]]

    def post(self, shared, prep_res, exec_res):
        shared["count"] = len(prep_res)
        return exec_res


shared = {"rows": [1, 2, 3, 4, "bad", 6, 7], "text": "good day", "languages": ["es", "zh", "fr"]}
chunks = Chunks(max_retries=2)
chunks.set_params({"size": 1000})  # those of the flow replace it
counting = Flow(start=chunks)
counting.set_params({"size": 3})
print(counting.run(shared))

translate = Translate()
translate.set_params({"tone": "warm"})  # replaced too: the flow says nothing of a tone
print(Languages(start=translate).run(shared))
print(shared, chunks.params, translate.params)
