"""Structured output: a record is taken out of the model's words; a bad one is refused and tried again."""

import re

from call_llm import call_llm
from pocketflow import Flow, Node


def read_record(answer):
    found = re.search(r"```yaml\n(.*)\n```", answer, re.DOTALL)
    assert found, "no block of YAML"
    head, _, tail = found[1].partition("\nskills:")
    return {"name": head.removeprefix("name: "), "skills": re.findall(r"- (\w+)", tail)}


class Parse(Node):
    def prep(self, shared):
        return shared["texts"].pop(0)

    def exec(self, text):
        if self.cur_retry == 0:
            text = text.lower()  # a poor first try, so that no name is found
        record = read_record(call_llm(f"record: {text}"))
        assert record["name"] != "unknown", "no name"
        assert record["skills"], "no skills"
        return record

    def exec_fallback(self, prep_res, exc):
        return {"refused": f"{type(exc).__name__}: {exc}", "tries": self.cur_retry + 1}

    def post(self, shared, prep_res, exec_res):
        shared["records"].append({**exec_res, "try": self.cur_retry})
        return "more" if shared["texts"] else "end"


parse = Parse(max_retries=3, wait=0.001)
parse - "more" >> parse
shared = {
    "texts": ["I am Ada Byron, with Python and SQL.", "Nobody in particular.", "I am Bob Burns."],
    "records": [],
}
print(Flow(start=parse).run(shared))
print(*shared["records"], sep="\n")
