#!/usr/bin/env bash
# Builds the wheel and the sdist into dist/, checks them, installs the wheel into an empty
# environment and uses Spindle there as a newcomer does. Run it as: make dist
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONDONTWRITEBYTECODE

say() { echo "==> $*" >&2; }
pip=(-m pip --disable-pip-version-check -qq)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say "building into dist/"
rm -rf dist
python -m hatchling build -t sdist -d dist >/dev/null
# Out of the sdist, as those build it who package Spindle further.
python "${pip[@]}" wheel --no-deps --no-build-isolation -w dist dist/*.tar.gz
ls -l dist >&2

say "twine check"
python -m twine check --strict dist/*

say "installing the wheel into an empty environment"
python -m venv "$work/venv"
"$work/venv/bin/python" "${pip[@]}" install -c constraints.txt dist/*.whl
"$work/venv/bin/python" "${pip[@]}" check

say "using it"
export PATH="$work/venv/bin:/usr/bin:/bin" SPINDLE_HOME="$work/home" NO_COLOR=1
cd "$work"

# expect TEXT COMMAND...: the command ends well, and what it shows has the text in it.
expect() {
  local text=$1 shown
  shift
  shown=$("$@" 2>&1) || { echo "$* failed: $shown" >&2; exit 1; }
  [[ "$shown" == *"$text"* ]] || { echo "$* should show '$text', and shows: $shown" >&2; exit 1; }
  echo "$ $*"
  echo "$shown"
}

version=$(python -c 'import spindle; print(spindle.__version__)')
expect "$version" spindle --version
expect "created a workspace" spindle new shop
cd shop
expect "hello" spindle tools
expect "Hello, Ada!" spindle call hello --name=Ada
expect "Hello, Ada!" python -c 'import spindle
with spindle.open(".") as s: print(s.call("hello", name="Ada").text)'
