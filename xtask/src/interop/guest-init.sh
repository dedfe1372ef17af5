#!/bin/sh
# /init of the guest that `cargo xtask interop` boots: makes a Soft-RoCE device of the only network
# card, then runs what the virtio serial port asks for, one job at a time.
#
#   to the guest     run ID PLACE SECONDS PROGRAM ...    PLACE: - if it does not listen, else
#                                                        tcp:PORT, cm:PORT for RDMA CM, or
#                                                        group:HEX for a multicast group
#                    stop PROGRAM                        ends it
#                    weather NETEM ...                   of what the card sends, from now on
#                    off
#   from the guest   ready KERNEL
#                    + ID                                somebody listens at PLACE
#                    | TEXT                              a line that the program printed
#                    # NAME VALUE                        a counter after the job
#                    = ID STATUS
#
# The address comes from the kernel's command line: `address=10.77.0.2/24 mtu=9000`.

export PATH=/bin:/sbin:/usr/bin:/usr/sbin
ports=/sys/class/infiniband/rxe0/ports/1

is_listened_at() {
  case $1 in
    tcp:*) grep -q ":$(printf %04X "${1#tcp:}") [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6 ;;
    group:*) grep -q "${1#group:}" /proc/net/igmp ;;
    cm:*) rdma resource show cm_id | grep -q "state LISTEN .*:${1#cm:}\( \|\$\)" ;;
  esac
}

counters() {
  for file in "$ports"/hw_counters/*; do
    # lifespan is how long the values are kept, and none of them.
    [ "${file##*/}" = lifespan ] && continue
    read -r value <"$file" && echo "# ${file##*/} $value"
  done
}

job() {
  id=$1 place=$2 seconds=$3
  shift 3
  timeout -s KILL "$seconds" "$@" >/tmp/printed 2>&1 &
  program=$!
  if [ "$place" != - ]; then
    tries=100
    until is_listened_at "$place" || [ "$tries" -eq 0 ]; do
      sleep 0.05
      tries=$((tries - 1))
    done
    echo "+ $id"
  fi
  wait "$program"
  status=$?
  sed 's/^/| /' /tmp/printed
  counters
  echo "= $id $status"
}

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm

while read -r module; do
  insmod "/modules/$module" || echo "insmod $module failed"
done </modules/order

read -r line </proc/cmdline
for word in $line; do
  case $word in
    address=*) address=${word#address=} ;;
    mtu=*) mtu=${word#mtu=} ;;
  esac
done
# The shell prefers busybox's own `ip` to a name without a folder.
/bin/ip link set lo up
/bin/ip address add "$address" dev eth0
/bin/ip link set eth0 mtu "$mtu" txqueuelen 10000 up
rdma link add rxe0 type rxe netdev eth0
while ! grep -q ACTIVE "$ports/state"; do sleep 0.1; done

exec 3<>/dev/vport0p1
echo "ready $(uname -r)" >&3
while read -r verb words <&3; do
  # Words are separated by spaces, and none contains any.
  # shellcheck disable=SC2086
  case $verb in
    run) job $words >&3 & ;;
    stop) killall -KILL $words ;;
    weather)
      /bin/tc qdisc del dev eth0 root 2>/dev/null
      [ -z "$words" ] || /bin/tc qdisc add dev eth0 root netem limit 10000 $words
      ;;
    off) poweroff -f ;;
  esac
done
