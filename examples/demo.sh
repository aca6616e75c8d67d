#!/usr/bin/env bash
# The main job in a minute: one catalog of MCP and Python tools, called through one guarded path.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/workspace" || exit 1
rm -rf .spindle

failures=0

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }

# Runs a command as a person would type it; the second argument is the exit code that is right.
run() {
  local expected="$1"
  shift
  local shown="" word
  for word in "$@"; do
    case "$word" in *[!A-Za-z0-9_./=:-]*) word="'$word'" ;; esac
    shown+=" $word"
  done
  printf '\033[36m$%s\033[0m\n' "$shown"
  "$@"
  local code=$?
  if [ "$code" -ne "$expected" ]; then
    printf 'this should have ended with exit code %s, not %s\n' "$expected" "$code" >&2
    failures=$((failures + 1))
  fi
}

say "This folder came from somebody else, so nothing in it runs before it is trusted. It would do this:"
run 0 spindle trust --yes

say "Two MCP servers (processes), a folder of Python functions, and a flow. Ask each for its tools:"
run 0 spindle sync

say "They are one catalog now, kept in SQLite: listing it starts nothing."
run 0 spindle tools

say "Find a tool by what it does."
run 0 spindle search "convert time zone" --limit 3

say "Call an MCP tool, a Python tool, and one that takes a list."
run 0 spindle call time.convert_time --source_timezone=Asia/Tokyo --time=09:00 --target_timezone=Asia/Kolkata
run 0 spindle call divide --a=84 --b=2
run 0 spindle call summary --numbers=3 --numbers=5 --numbers=10 --measure=max
run 0 spindle call take_notes '{"lines": ["one catalog", "one path"]}'

say "Mistakes get one clear message and an exit code: a tool's own error, wrong arguments, a wrong name."
run 1 spindle call divide --a=1 --b=0
run 4 spindle call divide '{"a": "one"}'
run 3 spindle call divde --a=1 --b=2

say "Tools in a line: each takes what the one before it gave."
run 0 spindle run "divide --a=84 --b=2 >> divide --b=7"

say "A flow in a file. It stops to ask a person, keeps nothing running meanwhile, and goes on with the answer."
run 0 spindle check share
run 75 spindle run share --sum=84 </dev/null
run 0 spindle resume last "fair enough"
run 0 spindle trace last

say "Every call was recorded."
run 0 spindle history --limit 10

say "The same from Python."
run 0 python ../five_lines.py

echo
if [ "$failures" -gt 0 ]; then
  echo "the demo did not go as it should: $failures steps failed" >&2
  exit 1
fi
echo "Done. Next: docs/start/getting-started.md"
