#!/bin/sh
# Runs after the files are removed: systemd forgets the unit.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
