"""An agent: a model decides between looking something up and answering, until it knows enough."""

from call_llm import call_llm
from pocketflow import Flow, Node

ENCYCLOPEDIA = {"capital": "The capital of France is Paris.", "river": "The river Seine flows through Paris."}


class Decide(Node):
    def prep(self, shared):
        return shared["question"], shared.get("context", "")

    def exec(self, inputs):
        question, context = inputs
        return call_llm(f"decide: {question} | {context}")

    def post(self, shared, prep_res, exec_res):
        action, _, term = exec_res.partition(" ")
        print(f"decided: {exec_res}")
        shared["term"] = term
        return action


class Search(Node):
    def __init__(self):
        super().__init__(max_retries=3)

    def prep(self, shared):
        return shared["term"]

    def exec(self, term):
        if self.cur_retry == 0:
            raise ConnectionError("the line is busy")
        return ENCYCLOPEDIA[term]

    def exec_fallback(self, term, exc):
        return f"Nothing is known of {term} ({type(exc).__name__} at try {self.cur_retry + 1})."

    def post(self, shared, prep_res, exec_res):
        shared["context"] = f"{shared.get('context', '')} {exec_res}".strip()
        print(f"found: {exec_res} after {self.cur_retry + 1} tries")
        return "decide"


class Answer(Node):
    def prep(self, shared):
        return shared["context"]

    def exec(self, context):
        return call_llm(f"summarize: {context}")

    def post(self, shared, prep_res, exec_res):
        shared["answer"] = exec_res
        return "done"


decide, search, answer = Decide(), Search(), Answer()
decide - "search" >> search
decide - "answer" >> answer
search - "decide" >> decide
shared = {"question": "Which river flows through the capital of the moon?"}
print(Flow(start=decide).run(shared), shared)
