"""A chat in the terminal: one node that follows itself until the user has enough."""

import sys

from call_llm import call_llm
from pocketflow import Flow, Node


class Chat(Node):
    def prep(self, shared):
        if "messages" not in shared:
            shared["messages"] = []
            print("Welcome!")
        said = sys.stdin.readline().strip()
        if said in ("", "exit"):
            return None
        shared["messages"].append({"role": "user", "content": said})
        return shared["messages"]

    def exec(self, messages):
        return None if messages is None else call_llm(f"reply: {messages[-1]['content']}")

    def post(self, shared, prep_res, exec_res):
        if prep_res is None or exec_res is None:
            print(f"Goodbye after {len(shared['messages'])} messages!")
            return "end"  # no edge: the flow ends here
        print(f"Assistant: {exec_res}")
        shared["messages"].append({"role": "assistant", "content": exec_res})
        return "continue"


chat = Chat()
chat - "continue" >> chat
shared = {}
print(Flow(start=chat).run(shared), shared)
