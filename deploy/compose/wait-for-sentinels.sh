#!/bin/sh
# Returns when every Sentinel in SENTINELS (host:port, separated by spaces) knows the primary and two replicas.
set -eu
tries=0
for node in $SENTINELS; do
  until redis-cli -h "${node%:*}" -p "${node##*:}" info sentinel 2> /dev/null | grep -q 'status=ok,.*slaves=2,sentinels=3'; do
    tries=$((tries + 1))
    if [ "$tries" -gt 60 ]; then
      echo "$node does not know a primary with two replicas and two other Sentinels" >&2
      exit 1
    fi
    sleep 1
  done
done
echo "the Sentinels agree"
