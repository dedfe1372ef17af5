#!/bin/sh
# The agent of `ferroce pingmesh` on the guest's Soft-RoCE: guest-pingmesh COLLECTOR KEY SECONDS
umask 077
echo "$2" >/tmp/key
exec timeout -s INT "$3" ferroce pingmesh agent --device rxe0 --collector "$1" --key /tmp/key --host h1 \
  --spool /tmp/spool --verbose
