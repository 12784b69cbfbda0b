#!/bin/sh
# Makes a Redis Cluster of the nodes in REDIS_NODES (host:port, separated by spaces) with a replica for each primary, and
# returns when all slots are served. Runs at every start: a cluster that exists is left as it is.
set -eu
first="${REDIS_NODES%% *}"
ask() {
  redis-cli -h "${1%:*}" -p "${1##*:}" cluster info 2> /dev/null | tr -d '\r'
}

# Waits until a node reports a state, a second at a time.
wait_for() {
  tries=0
  until ask "$1" | grep -q "^cluster_state:$2"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 60 ]; then
      echo "$1 is not in the cluster. Look at: redis-cli --cluster check $first" >&2
      exit 1
    fi
    sleep 1
  done
}

for node in $REDIS_NODES; do wait_for "$node" ''; done
if ask "$first" | grep -q '^cluster_known_nodes:1$'; then
  # shellcheck disable=SC2086 # one argument for each node
  redis-cli --cluster create $REDIS_NODES --cluster-replicas 1 --cluster-yes
fi
for node in $REDIS_NODES; do wait_for "$node" ok; done
# Without its replica a primary accepts no writes.
replicas=0
while [ "$replicas" -lt "$(($(echo "$REDIS_NODES" | wc -w) / 2))" ]; do
  replicas=$(redis-cli -h "${first%:*}" -p "${first##*:}" cluster nodes | grep -c 'slave' || true)
  sleep 1
done
echo "the cluster serves all slots"
