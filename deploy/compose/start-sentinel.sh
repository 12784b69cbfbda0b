#!/bin/sh
# Starts one Sentinel, with a configuration that it may write into. Argument: the file of the first start.
set -eu
conf=sentinel.conf
if [ ! -f "$conf" ]; then
  cp "$1" "$conf.new"
  mv "$conf.new" "$conf"
fi
exec redis-server "$conf" --sentinel
