#!/bin/sh
# After the installation of the deb and the rpm: the user of the service, its directory, and a new
# look at the units. The service is not started or enabled: whoever installs rmreplay to replay has no use
# for it. A service that runs is started again with the new program.
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
