#!/usr/bin/env bash
# Installs what some tests start and what does not come from PyPI or npm: a browser.
# Tests that miss it are skipped, except in CI.
set -euo pipefail

missing=()
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
  missing+=(chromium)

if [ ${#missing[@]} -eq 0 ]; then
  echo "Everything that the tests start is here."
  exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
  echo "The tests that need ${missing[*]} are skipped: only root can install them, on Debian." >&2
  exit 0
fi
echo "==> installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
