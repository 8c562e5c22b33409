#!/bin/sh
# What udhcpc does with a lease: the address, the way out, the name servers.
case "$1" in
  bound|renew)
    ip addr flush dev "$interface"
    ip addr add "$ip/${mask:-24}" dev "$interface"
    ip link set "$interface" up
    for gateway in $router; do
      ip route replace default via "$gateway" dev "$interface" && break
    done
    : >/etc/resolv.conf
    for server in $dns; do
      echo "nameserver $server" >>/etc/resolv.conf
    done
    ;;
  deconfig)
    ip link set "$interface" up
    ;;
esac
