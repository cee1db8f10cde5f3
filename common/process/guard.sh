#!/bin/sh
# The guard: ends processes whose owner died without being able to end them itself.
#
# The owner holds the other end of standard input. While it lives it names its dependents, one on each line:
#   watch SIGNAL:PGID   a process group, and the signal that asks it to stop
#   forget PGID         that group has ended
#   remove PATH         a file or folder that must not outlive the owner
#   keep PATH           that file or folder may stay
#   quit                the owner has ended everything itself
# When the pipe closes, for whatever reason (kill -9 included), the guard asks every watched group to stop, newest
# first. It kills those that have not stopped within $1 tenths of a second, then removes the paths.
#
# This is a shell script because it needs 1 MB, where Node.js needs 45 MB. It starts in 2 ms and needs nothing else.

trap '' INT TERM HUP QUIT
grace=${1:-50}
newline='
'
watched=''
doomed=''

while IFS= read -r line; do
  case $line in
    'watch '*) watched="${line#watch } $watched" ;;
    'forget '*)
      rest=''
      for entry in $watched; do
        [ "${entry#*:}" = "${line#forget }" ] || rest="$rest$entry "
      done
      watched=$rest
      ;;
    'remove '*) doomed="$doomed${line#remove }$newline" ;;
    'keep '*)
      rest=''
      while IFS= read -r path; do
        [ -z "$path" ] || [ "$path" = "${line#keep }" ] || rest="$rest$path$newline"
      done <<LIST
$doomed
LIST
      doomed=$rest
      ;;
    quit) exit 0 ;;
  esac
done

for entry in $watched; do
  kill -s "${entry%%:*}" -- "-${entry#*:}" 2>/dev/null
done
while [ "$grace" -gt 0 ]; do
  alive=''
  for entry in $watched; do
    kill -s 0 -- "-${entry#*:}" 2>/dev/null && alive="$alive$entry "
  done
  watched=$alive
  [ -n "$watched" ] || break
  grace=$((grace - 1))
  sleep 0.1
done
for entry in $watched; do
  kill -s KILL -- "-${entry#*:}" 2>/dev/null
done
while IFS= read -r path; do
  [ -z "$path" ] || rm -rf -- "$path"
done <<LIST
$doomed
LIST
