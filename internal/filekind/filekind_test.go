package filekind

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	tar := strings.Repeat("\x00", 257) + "ustar\x0000"
	for _, test := range []struct{ text, name, want string }{
		{"PK\x03\x04rest", "a ZIP archive", "the files that it holds"},
		{tar + strings.Repeat("\x00", 300), "a tar archive", "the files that it holds"},
		{"BZh91AY", "a file compressed with bzip2", "gzip, xz or Zstandard"},
		{"\x1f\x8b\x08", "a file compressed with gzip", "uncompressed"},
		{"\xfd7zXZ\x00", "a file compressed with xz", "uncompressed"},
		{"%PDF-1.7\n", "a PDF document", "data"},
		{"PAR1\x15\x04", "a Parquet table", "--from table"},
		{"\n<!DOCTYPE HTML>\n<html>", "an HTML page", "download it again"},
		{"<HTML><BODY>502 Bad Gateway", "an HTML page", "download it again"},
		{"-- MariaDB dump 10.19  Distrib\n--\n", "a dump of a SQL database", "--from slurmdbd"},
		{`{"rmreplay_trace":1,"epoch":"2024-01-01T00:00:00Z"}`, "a trace of rmreplay", "rmreplay replay FILE"},
		{"{\n  \"engine\": \"sim\",\n \"virtual_s\": 3}", "a manifest of a run", "the run's directory"},
		{"#!/bin/bash\n#SBATCH -n 4\n", "a script", "sacct -P"},
		{"# To edit this file\nCluster - 'c':Fairshare=1\n", "the output of sacctmgr dump", "accounts.sacctmgr"},
		{"# accounts\n  Add Account physics Cluster=c\n", "a file of commands for sacctmgr", "accounts.sacctmgr"},
		{"ReservationName=maint StartTime=2024-01-01T00:00:00 EndTime=x\n", "the output of scontrol show reservation", "--reservations"},
		{"NodeName=n1 Arch=x86_64 CoresPerSocket=8\n   CPUAlloc=0 CPUTot=8\n", "the output of scontrol show node", "--node-states"},
		{"JobId=7 JobName=x\n   UserId=u(1)\n", "the output of scontrol show job", "sacct -P"},
		{"PartitionName=p\n   AllowGroups=ALL AllowAccounts=ALL\n", "the output of scontrol show partition", "slurm.conf"},
		{"             JOBID PARTITION     NAME     USER ST\n", "the output of squeue", "sacct -P"},
		{"PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n", "the output of sinfo", "slurm.conf"},
		{"AuthType=auth/munge\nDbdHost=h\n", "a slurmdbd.conf", "a replay does not need it"},
		{"# comment\nclustername = c\nNodeName=n1\n", "a slurm.conf", "--cluster"},
		{"SwitchName=s Nodes=n[1-4]\n", "a topology.conf", "beside slurm.conf"},
		{"AutoDetect=nvml\n", "a gres.conf", "beside slurm.conf"},
		{"[2024-03-01T08:00:00.123] slurmctld version 23.11.4\n", "a log of a Slurm daemon", "sacct -P"},
		{"\xff\xfeJ\x00o\x00b\x00", "text in UTF-16", "iconv -f UTF-16"},
		{"J\x00o\x00b\x00I\x00D\x00|\x00U\x00s\x00e\x00r\x00\n\x00", "text in UTF-16", "iconv -f UTF-16"},
		{"\x00J\x00o\x00b\x00I\x00D\x00|\x00U\x00s\x00e\x00r\x00\n", "text in UTF-16", "iconv -f UTF-16"},
		{"sacct: error: slurmdbd: no answer\nJobID|Submit\n", "an error message of one of Slurm's commands", "without 2>&1"},
		{"sacct: fatal: no access\n{\"jobs\":[]}", "an error message of one of Slurm's commands", "without 2>&1"},
		{`{"meta":{},"jobs":[{"job_id":7,"job_state":["RUNNING"],"submit_time":{"number":1}}]}`, "the output of squeue or scontrol with --json", "sacct --json"},
		{"name: grid\nworkload: w.jsonl\nsim:\n  policies: []\n", "an experiment file", "rmreplay sweep FILE"},
	} {
		kind, known := Detect([]byte(test.text))
		if !known || !strings.HasPrefix(kind.Name, test.name) || !strings.Contains(kind.Want, test.want) {
			t.Errorf("%.40q: %q (%s), want %q with %q", test.text, kind.Name, kind.Want, test.name, test.want)
		}
		if kind.Slurm != strings.HasSuffix(kind.Name, ".conf") {
			t.Errorf("%s: Slurm is %v", kind.Name, kind.Slurm)
		}
	}
	for _, text := range []string{
		"", "\n\n", "hello\n", "; UnixStartTime: 1\n1 2 3\n", "-dt 0 -e submit_batch_job | -J a\n", "JobID|JobName|User\n1|x|u\n",
		"id,submit,name\n1,2,a\n", `{"jobs":[]}`, "03/01/2024 08:00:00;E;17.server;user=u\n", `"JOB_FINISH" "10.1" 1 2` + "\n", "account number\n", "added 3\n",
		`{"meta":{},"jobs":[{"job_id":7,"state":{"current":"COMPLETED"},"time":{"submission":1}}]}`, "a\x00b\x00c",
	} {
		if kind, known := Detect([]byte(text)); known {
			t.Errorf("%q is %s", text, kind.Name)
		}
	}
}

// FuzzDetect: no beginning of a file makes Detect panic, and every known kind has a remedy.
func FuzzDetect(f *testing.F) {
	f.Add([]byte("Cluster - 'c'"))
	f.Fuzz(func(t *testing.T, head []byte) {
		if kind, known := Detect(head); known != (kind.Name != "") || known != strings.Contains(kind.Want, "want ") {
			t.Errorf("%+v, %v", kind, known)
		}
	})
}
