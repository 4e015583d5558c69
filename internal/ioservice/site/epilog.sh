#!/bin/bash
# EpilogSlurmctld for a site with "rmreplay io serve": tells the service that a job has ended. The
# nodes of the job stay in COMPLETING until this script returns, which takes at most 6 seconds.
#
# Usage in slurm.conf: EpilogSlurmctld=/etc/slurm/rmreplay-epilog.sh
# RMREPLAY_IO is the service's address, as HOST:PORT. If slurm.conf is not in Slurm's default place,
# export SLURM_CONF here, because slurmctld does not export it.
address=${RMREPLAY_IO:-127.0.0.1:9999}

class='^(variety_id=[^;]*;)?jobtype=([A-Za-z0-9_]+);'
[[ $SLURM_JOB_COMMENT =~ $class ]] || exit 0
request='"type":"process_job","job_id":"'$SLURM_JOB_ID'","variety_name":"'${BASH_REMATCH[2]}'"'

# Newer releases put start and end into the environment. scontrol shows them in all releases.
start=$SLURM_JOB_START_TIME end=$SLURM_JOB_END_TIME
if [[ -z $start || -z $end ]] && job=$(timeout 2 scontrol -o show job "$SLURM_JOB_ID" 2>/dev/null); then
	[[ $job =~ StartTime=([^ ]+) ]] && start=$(date -d "${BASH_REMATCH[1]}" +%s 2>/dev/null)
	[[ $job =~ EndTime=([^ ]+) ]] && end=$(date -d "${BASH_REMATCH[1]}" +%s 2>/dev/null)
fi
if [[ $start =~ ^[0-9]+$ && $end =~ ^[0-9]+$ && -n $SLURM_JOB_NODELIST ]]; then
	request+=',"job_start":"'$start'","job_end":"'$end'","job_nodes":"'$SLURM_JOB_NODELIST'"'
fi

ask() {
	exec 3<>"/dev/tcp/${address%:*}/${address##*:}" || return 1
	printf '{"req_id":"%s",%s}' "$1" "$request" >&3
	IFS= read -r answer <&3
	exec 3>&-
	[[ $answer == *'"status":"ACK"'* ]]
}
export -f ask
export address request
for try in 1 2 3; do
	timeout 1 bash -c "ask $try" 2>/dev/null && exit 0
done
logger -t rmreplay-epilog "job $SLURM_JOB_ID: the service at $address did not take it" 2>/dev/null
exit 0
