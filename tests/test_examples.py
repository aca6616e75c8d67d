"""The examples run as shown."""

import os
import subprocess
import sys
from pathlib import Path

from servers import warm

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_demo_does_the_main_job_and_says_so(tmp_path: Path) -> None:
    scripts = Path(sys.executable).parent
    environment = {
        **{key: value for key, value in os.environ.items() if key != "SPINDLE_TRUST"},
        "PATH": os.pathsep.join([str(warm.FOLDER), str(scripts), os.environ["PATH"]]),
        "SPINDLE_HOME": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", str(EXAMPLES / "demo.sh")], env=environment, capture_output=True, text=True, timeout=110
    )
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    assert "time.convert_time" in shown
    assert "05:30" in shown  # nine in the morning in Tokyo, seen from Kolkata
    assert "42" in shown
    assert "cannot divide by zero" in shown
    assert "paused: What shall be noted about a share of 42.0?" in shown
    assert '"share": 42.0' in shown
    assert "a share of 42.0: fair enough" in shown
    assert "did you mean 'divide'?" in shown
    assert "blocking: 42.0" in shown
