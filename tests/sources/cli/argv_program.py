"""Shows how it was called, as JSON; and misbehaves in the ways its first word names."""

import json
import os
import signal
import subprocess
import sys
import time

HANG = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def main() -> None:
    mode, *words = sys.argv[1:] or ["show"]
    match mode:
        case "show":
            print(json.dumps({"argv": words, "cwd": os.getcwd(), "env": dict(os.environ)}))
        case "cat":
            sys.stdout.buffer.write(sys.stdin.buffer.read())
        case "write":
            sys.stdout.buffer.write(words[0].encode("latin-1"))
        case "exit":
            print("some output")
            print("\n".join(f"line {number}" for number in range(50)), file=sys.stderr)
            sys.exit(int(words[0]))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "flood":
            sys.stderr.write("noise\n" * 100_000)
            while True:
                sys.stdout.write("x" * 65536)
        case "family":
            # A child that ignores SIGTERM; both then wait for ever, or this one leaves the child behind.
            child = subprocess.Popen([sys.executable, "-c", HANG])
            with open(words[0] + ".part", "w") as file:
                json.dump([os.getpid(), child.pid], file)
            os.rename(words[0] + ".part", words[0])
            if words[1] == "stubborn":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if words[1] != "leave":
                time.sleep(600)
        case "escape":
            escape(*words)


def escape(file: str, manner: str, then: str) -> None:
    """Start a process that leaves our group, tell its number, and hang or end."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if manner == "daemon" and os.fork() != 0:
            os._exit(0)  # its child is handed on to somebody else
        os.write(write, str(os.getpid()).encode())
        os.close(write)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nowhere, descriptor)
        env = {} if manner == "bare" else dict(os.environ)
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", HANG], env)
    os.close(write)
    escaped = int(os.read(read, 20))
    with open(file + ".part", "w") as part:
        json.dump([os.getpid(), escaped], part)
    os.rename(file + ".part", file)
    if then == "hang":
        time.sleep(600)


main()
