#!/bin/sh
# Starts one Redis node. The first start copies the configuration to the volume; later starts keep what Sentinel or the
# Cluster wrote there. Arguments: files of configuration. PRIMARY: the address of the first primary, for a replica.
set -eu
conf=redis.conf
if [ ! -f "$conf" ]; then
  cat "$@" > "$conf.new"
  if [ -n "${PRIMARY:-}" ]; then echo "replicaof $PRIMARY" >> "$conf.new"; fi
  mv "$conf.new" "$conf"
fi
exec redis-server "$conf"
