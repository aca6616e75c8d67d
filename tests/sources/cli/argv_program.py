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


main()
