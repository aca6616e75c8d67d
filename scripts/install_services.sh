#!/usr/bin/env bash
# Installs what some tests start and PyPI and npm do not have: Redis, RabbitMQ, mosquitto, img2sixel, and a browser.
# Run it as: make services
#
# They are Debian packages; the brokers that PyPI has are old or empty. Nothing is left running: each test starts its own.
set -euo pipefail

# What Debian calls administrators' programs is not in everybody's PATH.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# Each package, and the programs of which any one will do.
declare -A programs=(
  [redis-server]="redis-server"
  [rabbitmq-server]="rabbitmq-server"
  [mosquitto]="mosquitto"
  [libsixel-bin]="img2sixel"
  [chromium]="chromium chromium-browser google-chrome"
)

has_any() {
  local program
  for program in "$@"; do
    if command -v "$program" >/dev/null; then return 0; fi
  done
  return 1
}

missing=()
for package in redis-server rabbitmq-server mosquitto libsixel-bin chromium; do
  # shellcheck disable=SC2086 - several words
  has_any ${programs[$package]} || missing+=("$package")
done

if ((${#missing[@]} == 0)); then
  echo "Redis, RabbitMQ, mosquitto, img2sixel and a browser are installed: the tests start them when they need them."
  exit 0
fi
if ! command -v apt-get >/dev/null || [[ "$(id -u)" != 0 ]]; then
  echo "Not installed here: ${missing[*]}. The tests that need them are skipped, and fail where CI=true." >&2
  echo "As root on Debian or Ubuntu: apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 0
fi

# Debian would start each of the brokers at once, on its default port.
policy=/usr/sbin/policy-rc.d
if [[ ! -e "$policy" ]]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
echo "==> installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
