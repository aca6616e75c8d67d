"""A workflow: outline, write each section, style; and the last step ends by an action that leads nowhere."""

import warnings

from call_llm import call_llm
from pocketflow import BaseNode, BatchNode, Flow, Node

warnings.simplefilter("ignore")


class Outline(Node):
    def prep(self, shared):
        return shared["topic"]

    def exec(self, topic):
        return call_llm(f"outline: {topic}").splitlines()

    def post(self, shared, prep_res, exec_res):
        shared["sections"] = exec_res
        return "default"


class Write(BatchNode):
    def prep(self, shared):
        self.written = 0
        return shared["sections"]

    def exec(self, section):
        self.written += 1
        return f"{self.written}. {section}: {call_llm(f'summarize: {section} {section} in general')}"

    def post(self, shared, prep_res, exec_res):
        shared["draft"] = "\n".join(exec_res)


class Log(BaseNode):
    """Works in one try."""

    def prep(self, shared):
        return len(shared["draft"])

    def exec(self, length):
        return f"{length} characters"

    def post(self, shared, prep_res, exec_res):
        shared["log"] = exec_res


class Style(Node):
    def prep(self, shared):
        return shared["draft"]

    def exec(self, draft):
        return draft.upper()

    def post(self, shared, prep_res, exec_res):
        shared["article"] = exec_res
        return "published"


class Never(Node):
    def post(self, shared, prep_res, exec_res):
        shared["never"] = True


outline, style = Outline(), Style()
outline >> Write() >> Log() >> style
style - "rejected" >> Never()
shared = {"topic": "spindles"}
print(Flow(start=outline).run(shared))
print(shared["article"], shared["log"], sorted(shared))
