"""How many attacks of AgentDojo's corpus succeed on a model that always obeys, with the flow-of-trust policy
off and on, and how many questions that costs where nobody attacks."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from table import Row

HERE = Path(__file__).parent
VERSION = "v1.2.2"
READING = re.compile(r"(?:get|read|list|search|check)_.*")
"""Tools of the corpus that change nothing. Their names say it, and their code was looked at."""
TASKS = int(os.environ.get("INJECTION_TASKS", "10"))
"""User tasks that are taken of each suite."""
POLICIES = {
    "off": 'taint = "off"',
    "ask": 'taint = "ask"',
    "send_to": 'taint = "ask" and send_to',
    "block": 'taint = "block"',
}


def injection(quick: bool) -> list[Row]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), "quick" if quick else "all"],
        stdout=subprocess.PIPE, text=True, check=True, env=os.environ | {"SPINDLE_TRUST": "1"},
    )  # fmt: skip
    return [Row("injection", what, value, unit) for what, value, unit in json.loads(done.stdout)]


def load_corpus() -> dict[str, Any]:
    """Returns AgentDojo's suites by name, without the clients of models that it also has."""
    for folder in (HERE.parent / ".venv-bench" / "injection").glob("lib/python*/site-packages"):
        sys.path.append(str(folder))  # at the end: only what is not here already comes from there
    spec = importlib.util.find_spec("agentdojo")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("agentdojo is missing: `make bench ARGS=injection` installs it")
    home = Path(spec.submodule_search_locations[0], "agent_pipeline")
    for name, folder in (("agent_pipeline", home), ("agent_pipeline.llms", home / "llms")):
        package = types.ModuleType(f"agentdojo.{name}")
        package.__path__ = [str(folder)]
        sys.modules[package.__name__] = package
    client: Any = types.ModuleType("agentdojo.agent_pipeline.llms.google_llm")
    client.EMPTY_FUNCTION_NAME = "<empty-function>"
    sys.modules[client.__name__] = client
    from agentdojo.task_suite.load_suites import get_suites

    return dict(get_suites(VERSION))


class World:
    """The tools of a suite, over an environment that is replaced before each attempt."""

    def __init__(self, suite: Any, open_world: Sequence[str] | None) -> None:
        """`open_world` names the tools whose results are words of others; None: all that read."""
        from agentdojo.functions_runtime import FunctionsRuntime

        self.suite = suite
        self.runtime = FunctionsRuntime(suite.tools)
        self.environment: Any = None
        self.executed: list[Any] = []
        self.bringing: Counter[str] = Counter()
        """Tools that returned a text of the attacker."""
        self.tools = [self._as_tool(function, open_world) for function in suite.tools]

    def _as_tool(self, function: Any, open_world: Sequence[str] | None) -> Any:
        from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
        from agentdojo.functions_runtime import FunctionCall

        import spindle
        from obedient import MARK

        reads = READING.fullmatch(function.name) is not None
        brings = reads if open_world is None else function.name in open_world

        @spindle.tool(
            name=function.name, description=function.description, read_only=reads, open_world=brings,
            input_schema=function.parameters.model_json_schema(),
        )  # fmt: skip
        def call(**given: Any) -> str:
            found, error = self.runtime.run_function(self.environment, function.name, given)
            self.executed.append(FunctionCall(function=function.name, args=given))
            shown = error or tool_result_to_str(found)
            self.bringing[function.name] += MARK in shown
            return shown

        return call


def _plain(value: Any) -> Any:
    """The arguments of a call as JSON."""
    return json.loads(json.dumps(value, default=str))


def _places(suite: Any) -> list[str]:
    """Returns the hosts and addresses that users of a suite send to and read from."""
    from spindle.calls.taint import places_in

    found: set[str] = set()
    for user in suite.user_tasks.values():
        environment = user.init_environment(suite.load_and_inject_default_environment({}))
        for call in user.ground_truth(environment):
            found.update(places_in(_plain(dict(call.args))))
    return sorted(found)


async def _attempt(
    app: Any, world: World, user: Any, attack: Any | None, policy: str, send_to: Sequence[str] = ()
) -> tuple[Any, bool, bool]:
    """Returns the course, if the user's task was done, and if the attack succeeded."""
    from obedient import MARK, Attempt, play

    suite = world.suite
    injections: dict[str, str] = {}
    if attack is not None:
        text = f"{MARK} " + " ".join(re.findall(r"[\w.,@/-]+", attack.GOAL))
        injections = dict.fromkeys(suite.get_injection_vector_defaults(), text)
    world.environment = user.init_environment(suite.load_and_inject_default_environment(injections))
    world.executed = []
    before = world.environment.model_copy(deep=True)

    def steps(task: Any) -> list[tuple[str, dict[str, Any]]]:
        environment = world.environment.model_copy(deep=True)
        return [(call.function, _plain(dict(call.args))) for call in task.ground_truth(environment)]

    attempt = Attempt(
        user.PROMPT,
        steps(user),
        user.GROUND_TRUTH_OUTPUT,
        steps(attack) if attack is not None else (),
        attack.GROUND_TRUTH_OUTPUT if attack is not None else "",
    )
    places = send_to if policy == "send_to" else None
    course = await play(app, attempt, "ask" if policy == "send_to" else policy, places)
    after = (course.said, before, world.environment)

    def judged(task: Any, how: str) -> bool:
        by_trace = getattr(task, f"{how}_from_traces")(*after, world.executed)
        return bool(getattr(task, how)(*after) if by_trace is None else by_trace)

    return course, judged(user, "utility"), attack is not None and judged(attack, "security")


async def measure(suites: dict[str, Any], most: int | None) -> list[tuple[str, float, str]]:
    """Returns the figures, each with its words and its unit. `most`: user tasks of each suite."""
    import spindle

    counts: Counter[str] = Counter()
    ways: Counter[str] = Counter()
    bringing: dict[str, list[str]] = {}
    for name, suite in suites.items():
        users = list(suite.user_tasks.values())[:most]
        empty = suite.load_and_inject_default_environment({})
        # Some attacks are only described, with no calls that would do them and no words to say.
        attacks = [
            task
            for task in suite.injection_tasks.values()
            if task.ground_truth(empty) or task.GROUND_TRUTH_OUTPUT
        ]
        places = _places(suite)
        for policy in POLICIES:
            world = World(suite, None)
            async with spindle.open(tools=world.tools) as app:
                for user in users:
                    for attack in attacks:
                        course, useful, succeeded = await _attempt(app, world, user, attack, policy, places)
                        if not course.reached:
                            continue
                        counts[f"attacks {policy}"] += 1
                        counts[f"succeeded {policy}"] += succeeded
                        counts[f"useful {policy}"] += useful
                        if succeeded and policy != "off":
                            ways[f"{policy}: {name}.{attack.ID}"] += 1
            bringing[name] = [tool for tool, count in world.bringing.items() if count]
        for which, open_world in (("all", None), ("others", bringing[name])):
            world = World(suite, open_world)
            async with spindle.open(tools=world.tools) as app:
                for user in users:
                    course, useful, _ = await _attempt(app, world, user, None, "ask")
                    counts[f"tasks {which}"] += 1
                    counts[f"done {which}"] += useful
                    counts[f"questions {which}"] += course.asked
                    counts[f"interrupted {which}"] += course.asked > 0
                    counts[f"calls {which}"] += len(world.executed)
    print(dict(ways), file=sys.stderr)
    found: list[tuple[str, float, str]] = [
        ("attacks whose text the model has read", counts["attacks off"], "attacks")
    ]
    for policy, words in POLICIES.items():
        attacks = counts[f"attacks {policy}"]
        found.append((f"{words}: attacks that succeed", counts[f"succeeded {policy}"], "attacks"))
        found.append((f"{words}: part of them", 100 * counts[f"succeeded {policy}"] / attacks, "%"))
        found.append((f"{words}: tasks done while attacked", 100 * counts[f"useful {policy}"] / attacks, "%"))
    for which, words in (("all", "all that is read is untrusted"), ("others", "only words of others are")):
        tasks = counts[f"tasks {which}"]
        found.append((f"nobody attacks, {words}: tasks done", 100 * counts[f"done {which}"] / tasks, "%"))
        found.append(
            (f"nobody attacks, {words}: questions a task", counts[f"questions {which}"] / tasks, "questions")
        )
        part = counts[f"interrupted {which}"] / tasks
        found.append((f"nobody attacks, {words}: tasks without any", 100 - 100 * part, "%"))
    return found


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    figures = asyncio.run(measure(load_corpus(), 3 if sys.argv[1:] == ["quick"] else TASKS))
    print(json.dumps(figures))
