#!/bin/sh
# The first process of a machine: brings the network up and keeps the machine's command running.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
state=/run/flotilla
log=/var/log/flotilla.log
log_bytes_max=16777216
# A command that ends sooner than this after its start is failing.
settled_after=10
child=

halt() {
  trap - PWR TERM INT
  [ -n "$child" ] && kill -TERM "$child" 2>/dev/null && wait "$child"
  exit 0
}
trap halt PWR TERM INT

rm -rf "$state"
mkdir -p "$state" /tmp /var/log
ip link set lo up 2>/dev/null
udhcpc -b -i eth0 -s /usr/share/udhcpc/default.script >/dev/null 2>&1 &

while :; do
  if [ ! -x /etc/flotilla/run ]; then
    sleep 1 & wait $!
    continue
  fi
  /etc/flotilla/run >>"$log" 2>&1 &
  child=$!
  seconds=0
  while kill -0 "$child" 2>/dev/null; do
    sleep 1 & wait $!
    seconds=$((seconds + 1))
    [ "$seconds" -eq "$settled_after" ] && rm -f "$state/failing"
    if [ "$(wc -c <"$log")" -gt "$log_bytes_max" ]; then
      cp "$log" "$log.1"
      : >"$log"
    fi
  done
  wait "$child"
  code=$?
  child=
  [ "$seconds" -lt "$settled_after" ] && echo "$code" >"$state/failing"
  sleep 1 & wait $!
done
