#!/usr/bin/env bash
# Installs the message brokers that some tests start: Redis, RabbitMQ, mosquitto. Run it as: make services
#
# They are Debian packages; those from PyPI are old or empty. Nothing is left running: each test starts its own.
set -euo pipefail

# What Debian calls administrators' programs is not in everybody's PATH.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

declare -A program=([redis-server]=redis-server [rabbitmq-server]=rabbitmq-server [mosquitto]=mosquitto)
missing=()
for package in redis-server rabbitmq-server mosquitto; do
  command -v "${program[$package]}" >/dev/null || missing+=("$package")
done

if ((${#missing[@]} == 0)); then
  echo "Redis, RabbitMQ and mosquitto are installed: the tests start them when they need them."
  exit 0
fi
if ! command -v apt-get >/dev/null || [[ "$(id -u)" != 0 ]]; then
  echo "Not installed here: ${missing[*]}. The tests that need them are skipped, and fail where CI=true." >&2
  echo "As root on Debian or Ubuntu: apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 0
fi

# Debian would start each of them at once, on its default port.
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
