#!/bin/sh
# Before the package is removed, but not before it is upgraded: dpkg's argument is "remove" then, and
# rpm's is 0. The user rmreplay and the jobs in /var/lib/rmreplay stay.
set -e
case $1 in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl --no-reload disable --now rmreplay-accounting.service
	fi
	;;
esac
