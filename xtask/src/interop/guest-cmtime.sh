#!/bin/sh
# Connections within the guest, and what cmtime's client says of them: ADDRESS COUNT.

cmtime -c "$2" >/dev/null 2>&1 &
server=$!
until rdma resource show cm_id | grep -q "state LISTEN"; do sleep 0.1; done
cmtime -s "$1" -c "$2"
status=$?
kill "$server"
exit "$status"
