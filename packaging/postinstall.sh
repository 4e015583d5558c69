#!/bin/sh
# Runs after the installation of the deb or the rpm. It creates the service's user and directory, and
# makes systemd reload its units. It neither starts nor enables the service, because users who only
# replay do not need it. A running service is restarted with the new program.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers rmreplay.conf
elif ! getent passwd rmreplay >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/rmreplay --no-create-home \
		--comment "rmreplay accounting" --shell "$(command -v nologin || echo /usr/sbin/nologin)" rmreplay
fi
if command -v systemd-tmpfiles >/dev/null; then
	systemd-tmpfiles --create rmreplay.conf
else
	install -d -m 700 -o rmreplay -g rmreplay /var/lib/rmreplay
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart rmreplay-accounting.service
fi
