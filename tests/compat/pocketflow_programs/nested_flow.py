"""Flows inside flows: payment, stock and shipping are flows of their own, whose last action decides."""

from pocketflow import BatchFlow, Flow, Node


class Step(Node):
    def __init__(self, name, action=None):
        super().__init__()
        self.name, self.action = name, action

    def exec(self, prep_res):
        return f"{self.name} {self.params.get('order', 'unknown')}"

    def post(self, shared, prep_res, exec_res):
        shared["log"].append(exec_res)
        return self.action


class Stock(Node):
    def prep(self, shared):
        return shared["stock"]

    def post(self, shared, prep_res, exec_res):
        shared["stock"] -= 1
        return "in stock" if prep_res > 0 else "sold out"


class Skipped(Node):
    """Never tried, so it has no result."""

    def __init__(self):
        super().__init__(max_retries=0)

    def exec(self, prep_res):
        raise AssertionError("nobody calls it")

    def post(self, shared, prep_res, exec_res):
        shared["log"].append(f"skipped: {exec_res}")


validate = Step("validate")
validate >> Step("pay") >> Skipped()
payment = Flow(start=validate)

inventory = Flow(start=Stock())

label = Step("label")
label >> Step("ship", "shipped")
shipping = Flow(start=label)

payment >> inventory
inventory - "in stock" >> shipping
order = Flow(start=payment)


class Orders(BatchFlow):
    def prep(self, shared):
        return ({"order": number} for number in shared["orders"])


shared = {"orders": [7, 8, 9], "stock": 2, "log": []}
print(order.run({"stock": 0, "log": shared["log"]}), Orders(start=order).run(shared), shared["stock"])
print("\n".join(shared["log"]))
