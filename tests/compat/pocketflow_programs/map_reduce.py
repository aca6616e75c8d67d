"""Map and reduce: résumés are judged one by one, and the results put together."""

from call_llm import call_llm
from pocketflow import BatchNode, Flow, Node

RESUMES = {
    "ada": "I am Ada Byron. I write Python and SQL all day.",
    "bob": "I am Bob Burns. My strength is cooking.",
    "cleo": "I am Cleo Stone. Rust, Python and some SQL.",
}


class Read(Node):
    def exec(self, prep_res):
        return dict(RESUMES)

    def post(self, shared, prep_res, exec_res):
        shared["resumes"] = exec_res
        return "map"


class Judge(BatchNode):
    def prep(self, shared):
        return sorted(shared["resumes"].items())

    def exec(self, item):
        name, text = item
        skills = call_llm(f"record: {text}").count("- ")
        return name, skills >= 2

    def post(self, shared, prep_res, exec_res_list):
        shared["judged"] = dict(exec_res_list)
        return "reduce"


class Reduce(Node):
    def prep(self, shared):
        return shared["judged"]

    def exec(self, judged):
        good = [name for name, is_good in judged.items() if is_good]
        return {"total": len(judged), "good": good, "percent": round(100 * len(good) / len(judged), 1)}

    def post(self, shared, prep_res, exec_res):
        shared["summary"] = exec_res


read, judge = Read(), Judge()
read - "map" >> judge
judge - "reduce" >> Reduce()
shared = {}
print(Flow(start=read).run(shared), shared)
