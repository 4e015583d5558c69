#!/bin/sh
# Stops the service before the package is removed, but not before it is upgraded: at a removal the
# argument is "remove" from dpkg, and 0 from rpm. The user rmreplay and the jobs in
# /var/lib/rmreplay stay.
set -e
case $1 in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl --no-reload disable --now rmreplay-accounting.service
	fi
	;;
esac
