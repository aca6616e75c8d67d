#!/usr/bin/env bash
# Chooses the newest versions that fit together and writes them, exact, to constraints.txt
# and to the constraints in requirements/. Run it as: make constraints
#
# It takes the oldest Python we support, since what installs there installs on the newer ones;
# the reverse is not true.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONDONTWRITEBYTECODE

if [[ -z "${PYTHON:-}" ]]; then
  PYTHON=python3.11
  "$PYTHON" --version >/dev/null 2>&1 || PYTHON=python3
fi
if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
  echo "The versions are chosen with Python 3.11, the oldest supported; '$PYTHON' is not that." >&2
  echo "Name one: PYTHON=/path/to/python3.11 make constraints" >&2
  exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$PYTHON" - >"$work/runtime.txt" <<'PY'
import tomllib

with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["dependencies"], sep="\n")
PY

"$PYTHON" - >"$work/extras.txt" <<'PY'
import tomllib

with open("pyproject.toml", "rb") as file:
    for names in tomllib.load(file)["project"]["optional-dependencies"].values():
        print(*names, sep="\n")
PY

# Names are brought to one spelling and sorted, so that a change of versions is all a diff shows.
pins='
import json, re, sys

found = {re.sub("[-_.]+", "-", it["name"]).lower(): it["version"] for it in json.load(sys.stdin)}
for name in sorted(found.keys() - {"pip", "setuptools"}):
    print(f"{name}=={found[name]}")
'

# resolve NAME OUTPUT PIP-ARGUMENTS...: install into a new environment and write down what came.
resolve() {
  local name=$1 output=$2
  shift 2
  echo "==> resolving $output" >&2
  "$PYTHON" -m venv "$work/$name"
  "$work/$name/bin/python" -m pip install -qq --disable-pip-version-check "$@"
  "$work/$name/bin/python" -m pip check >&2
  {
    echo "# Exact versions, for Python 3.11 and newer. Written by scripts/update_constraints.sh:"
    echo "# do not edit by hand, run \`make constraints\`."
    "$work/$name/bin/python" -m pip list --format=json 2>/dev/null | "$PYTHON" -c "$pins"
  } >"$work/output"
  cp "$work/output" "$output"
}

"$PYTHON" scripts/prepare.py --packages >"$work/parts.txt"
resolve dev constraints.txt \
  -r "$work/runtime.txt" -r "$work/extras.txt" -r "$work/parts.txt" -r requirements/build.txt \
  -r requirements/node.txt
# The measured Spindle runs on the same versions as the tested one.
resolve bench requirements/bench-constraints.txt \
  -c constraints.txt -r "$work/runtime.txt" -r requirements/build.txt -r requirements/bench.txt
resolve publish requirements/publish-constraints.txt \
  -c constraints.txt -r requirements/build.txt -r requirements/publish.txt
