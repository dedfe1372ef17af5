#!/bin/sh
# Writes what `ferroce doctor` reads of this device: sh collect.sh cluster/
# It reads, and changes nothing. On a switch with SONiC run it with sudo; on a host without root some files are missing.
# For a job's environment, run within the job:  env | grep -E '^(NCCL|UCX)_' > cluster/HOST/env.JOB.txt
set -u
to="${1:-cluster}/$(hostname -s)"
mkdir -p "$to" || exit 1
have() { command -v "$1" >/dev/null 2>&1; }
# Writes a file if the command says anything.
keep() {
    file="$to/$1"
    shift
    "$@" >"$file" 2>/dev/null
    [ -s "$file" ] || rm -f "$file"
}

if [ -f /etc/sonic/config_db.json ]; then
    # What runs, not what was saved.
    if have show; then
        keep config_db.json show runningconfiguration all
        keep lldp.txt show lldp table
        keep version.txt show version
    else
        cp /etc/sonic/config_db.json "$to/config_db.json"
    fi
    exit 0
fi

for path in /sys/class/net/*; do
    [ -e "$path/device" ] || continue
    interface=${path##*/}
    if have mlnx_qos; then keep "mlnx_qos.$interface.txt" mlnx_qos -i "$interface"; fi
    if have dcb; then
        for what in pfc app ets buffer; do
            keep "dcb-$what.$interface.json" dcb -j "$what" show dev "$interface"
        done
    fi
    if have ethtool; then
        keep "ethtool-S.$interface.txt" ethtool -S "$interface"
        keep "ethtool-i.$interface.txt" ethtool -i "$interface"
    fi
done
keep sysfs.txt sh -c 'grep -Rs . /sys/class/infiniband/*/fw_ver /sys/class/infiniband/*/tc \
    /sys/class/infiniband/*/ports/*/gids /sys/class/infiniband/*/ports/*/gid_attrs \
    /sys/class/net/*/mtu /sys/class/net/*/address /sys/class/net/*/speed /sys/class/net/*/ecn'
if have lldpctl; then keep lldp.json lldpctl -f json; fi
if have systemctl; then keep lldpad.txt systemctl is-active lldpad; fi
exit 0
