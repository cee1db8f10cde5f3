#!/bin/sh
# Of the libraries that packages brought, leaves those that the programs named link, directly or not, and whatever was
# there before:
#
#   linked-only.sh remember            before the packages are installed
#   linked-only.sh leave PROGRAM…      after; also what python3's modules link stays
#
# What is loaded only by name goes with it: drivers of screens and of video hardware, which nothing here uses.
set -eu
libraries() { find /usr/lib/*-linux-gnu -xdev -type f -name '*.so*' | sort; }
if [ "$1" = remember ]; then libraries > /var/tmp/libraries; exit; fi
shift
for program in "$@"; do realpath "$(command -v "$program")"; done > /var/tmp/programs
find /usr/lib/python3*/lib-dynload -name '*.so' >> /var/tmp/programs
xargs ldd < /var/tmp/programs > /var/tmp/linked
if grep 'not found' /var/tmp/linked; then exit 1; fi
awk '$2 == "=>" { print $3 }' /var/tmp/linked | sort -u | xargs realpath | sort -u >> /var/tmp/libraries
sort -u -o /var/tmp/libraries /var/tmp/libraries
libraries | comm -23 - /var/tmp/libraries | xargs -r rm
find /usr/lib/*-linux-gnu -xdev -xtype l -delete
xargs ldd < /var/tmp/programs > /var/tmp/linked
if grep 'not found' /var/tmp/linked; then exit 1; fi
rm /var/tmp/libraries /var/tmp/linked /var/tmp/programs
