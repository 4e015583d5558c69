package rpc_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/rm/slurm/rpc/rpctest"
	"rmreplay/internal/slurmspec"
)

// TestClientsSendTheSame compares the messages of scancel, scontrol and sdiag with this package's
// messages for the same requests.
func TestClientsSendTheSame(t *testing.T) {
	rpctest.Each(t, slurmspec.R2205, []string{"scancel", "sdiag"}, clientsSendTheSame)
}

// command is a command line of a stock client, with the type and the body of the message for the
// same request.
type command struct {
	line string
	typ  rpc.Type
	body []byte
}

// clientCommands returns commands with the bodies that a release's codec writes.
func clientCommands(t *testing.T, codec rpc.Codec) []command {
	node := func(e hpc.NodeEvent) []byte {
		m, err := rpc.NewNodeUpdate(e)
		if err != nil {
			t.Fatal(err)
		}
		return codec.Body(m)
	}
	resv := func(v hpc.Reservation, update bool) []byte {
		m, err := rpc.NewReservationDesc(v, update)
		if err != nil {
			t.Fatal(err)
		}
		return codec.Body(m)
	}
	flagged := func(update bool, flags ...string) []byte {
		if update {
			return resv(hpc.Reservation{Name: "r", Flags: flags}, true)
		}
		return resv(hpc.Reservation{Name: "r", Start: hpc.Unix(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Unix()), Duration: time.Hour, Nodes: "n1", Users: []string{"a"}, Flags: flags}, false)
	}
	start := hpc.Unix(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	update := func(job string, set func(*rpc.JobDesc)) []byte {
		j := rpc.NewJobUpdate(job)
		set(j)
		return codec.Body(j)
	}
	commands := []command{
		{"scancel 12", rpc.RequestKillJob, codec.Body(&rpc.KillRequest{Job: "12", Signal: 9})},
		{"scancel 12_3", rpc.RequestKillJob, codec.Body(&rpc.KillRequest{Job: "12_3", Signal: 9})},
		{"scancel 12_[1-5]", rpc.RequestKillJob, codec.Body(&rpc.KillRequest{Job: "12_[1-5]", Signal: 9})},
		{"scontrol update nodename=n[1-2] state=drain reason=disk", rpc.RequestUpdateNode, node(hpc.NodeEvent{Nodes: "n[1-2]", State: "drain", Reason: "disk"})},
		{"scontrol update nodename=n3 state=down reason=x", rpc.RequestUpdateNode, node(hpc.NodeEvent{Nodes: "n3", State: "down", Reason: "x"})},
		{"scontrol update nodename=n3 state=resume", rpc.RequestUpdateNode, node(hpc.NodeEvent{Nodes: "n3", State: "resume"})},
		{"scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 duration=90 nodes=n[1-2] users=a,b flags=maint,ignore_jobs", rpc.RequestCreateReservation,
			resv(hpc.Reservation{Name: "r", Start: start, Duration: 90 * time.Minute, Nodes: "n[1-2]", Users: []string{"a", "b"}, Flags: []string{"MAINT", "IGNORE_JOBS"}}, false)},
		{"scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 duration=1:00:00 nodecnt=3 partition=p1 accounts=acc features=f", rpc.RequestCreateReservation,
			resv(hpc.Reservation{Name: "r", Start: start, Duration: time.Hour, NodeCount: 3, Partition: "p1", Accounts: []string{"acc"}, Features: "f"}, false)},
		{"scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 duration=infinite partition=p1 users=a", rpc.RequestCreateReservation,
			resv(hpc.Reservation{Name: "r", Start: start, Duration: hpc.Unlimited, Partition: "p1", Users: []string{"a"}}, false)},
		{"scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 duration=60 nodes=ALL partition=p1 users=a licenses=l:2 flags=any_nodes", rpc.RequestCreateReservation,
			resv(hpc.Reservation{Name: "r", Start: start, Duration: time.Hour, Nodes: "ALL", Partition: "p1", Users: []string{"a"}, Licenses: "l:2", Flags: []string{"ANY_NODES"}}, false)},
		{"scontrol update reservationname=r duration=120 users=c", rpc.RequestUpdateReservation, resv(hpc.Reservation{Name: "r", Duration: 2 * time.Hour, Users: []string{"c"}}, true)},
		{"scontrol delete reservationname=r", rpc.RequestDeleteReservation, codec.Body(&rpc.DeleteReservation{Name: "r"})},
		{"scontrol update jobid=12 priority=77", rpc.RequestUpdateJob, update("12", func(j *rpc.JobDesc) { j.Priority = 77 })},
		{"scontrol hold 12", rpc.RequestUpdateJob, update("12", (*rpc.JobDesc).Hold)},
		{"scontrol release 12", rpc.RequestUpdateJob, update("12", (*rpc.JobDesc).Release)},
		{"scontrol update jobid=12_[1,3] timelimit=90", rpc.RequestUpdateJob, update("12_1,3", func(j *rpc.JobDesc) { failOn(t, j.SetTimeLimit(90*time.Minute)) })},
		{"scontrol update jobid=12 timelimit=unlimited", rpc.RequestUpdateJob, update("12", func(j *rpc.JobDesc) { failOn(t, j.SetTimeLimit(hpc.Unlimited)) })},
		{"scontrol requeue 12", rpc.RequestJobRequeue, codec.Body(&rpc.RequeueRequest{Job: "12"})},
		{"scontrol suspend 12", rpc.RequestSuspend, codec.Body(&rpc.SuspendRequest{Job: "12"})},
		{"scontrol resume 12", rpc.RequestSuspend, codec.Body(&rpc.SuspendRequest{Job: "12", Resume: true})},
		{"scontrol ping", rpc.RequestPing, nil},
		{"scontrol shutdown slurmctld", rpc.RequestShutdown, codec.Body(rpc.ShutdownController)},
		{"scontrol shutdown", rpc.RequestShutdown, codec.Body(rpc.ShutdownAll)},
		{"scontrol reconfigure", rpc.RequestReconfigure, nil},
		{"sdiag", rpc.RequestStats, codec.Body(&rpc.StatsRequest{})},
		{"sdiag -r", rpc.RequestStats, codec.Body(&rpc.StatsRequest{Reset: true})},
		{"scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 endtime=2030-01-01T00:01:30 nodes=n1 users=a", rpc.RequestCreateReservation,
			resv(hpc.Reservation{Name: "r", Start: start, Duration: 90 * time.Second, Nodes: "n1", Users: []string{"a"}}, false)},
		{"scontrol update reservationname=r flags=purge_comp=2", rpc.RequestUpdateReservation, flagged(true, "PURGE_COMP=00:02:00")},
	}
	const create = "scontrol create reservation reservationname=r starttime=2030-01-01T00:00:00 duration=60 nodes=n1 users=a flags="
	for _, flag := range slurmspec.ReservationFlags {
		name := flag.Name
		if name == "FIRST_CORES" && codec.Release().Since(slurmspec.R2311) { // those releases do not have the flag
			continue
		}
		if name != slurmspec.FlagPartNodes { // this flag needs a partition
			commands = append(commands, command{create + name, rpc.RequestCreateReservation, flagged(false, name)})
		}
		if flag.Off != 0 {
			commands = append(commands, command{"scontrol update reservationname=r flags-=" + name, rpc.RequestUpdateReservation, flagged(true, "-"+name)})
		}
	}
	return commands
}

// goldenClients is the file with the bodies that the clients of a release send.
func goldenClients(release slurmspec.Release) string {
	return filepath.Join("testdata/clients", release.Series().String()+".txt")
}

// TestCapturedClients compares this package's messages with recorded messages of the clients of
// 22.05 and 24.11. The records are in testdata, so the test needs no Slurm. "go test -run
// ClientsSendTheSame -capture" writes them again.
func TestCapturedClients(t *testing.T) {
	for _, release := range []slurmspec.Release{slurmspec.R2205, slurmspec.R2411} {
		golden, err := os.ReadFile(goldenClients(release))
		if err != nil {
			t.Fatal(err)
		}
		sent := map[string]string{}
		for _, line := range strings.Split(strings.TrimSpace(string(golden)), "\n") {
			name, body, _ := strings.Cut(line, "\t")
			sent[name] = body
		}
		codec, err := rpc.NewCodec(release)
		if err != nil {
			t.Fatal(err)
		}
		commands := clientCommands(t, codec)
		if len(commands) != len(sent) {
			t.Errorf("%v: %d commands, and the messages of %d", release, len(commands), len(sent))
		}
		for _, c := range commands {
			if got := hex.EncodeToString(c.body); got != sent[c.line] {
				t.Errorf("%v: %s:\ntheirs %s\nours   %s", release, c.line, sent[c.line], got)
			}
		}
	}
}

func clientsSendTheSame(t *testing.T, slurm *rpctest.Slurm) {
	if slurm.Release.Protocol() != slurm.Release.DriverProtocol() {
		t.Skipf("SKIPPED: the clients of %v speak a newer protocol than the driver", slurm.Release)
	}
	codec := slurm.Codec()
	dir := t.TempDir()
	r := rpctest.NewRecorder(t, func(m *rpc.Message) *rpc.Message {
		if m.Type == rpc.RequestCreateReservation {
			return rpc.Reply(m, rpc.ResponseCreateReservation, codec.Body(&rpc.DeleteReservation{Name: "r"}), nil)
		}
		return rpc.Reply(m, rpc.ResponseRC, rpc.AppendRC(nil, 0), nil)
	})
	conf := slurm.ControllerConf(t, dir, "127.0.0.1", r.Port(), "NodeName=n[1-8] CPUs=16\nPartitionName=p1 Nodes=ALL Default=YES")
	commands := clientCommands(t, codec)
	var golden strings.Builder
	for _, c := range commands {
		t.Run(c.line, func(t *testing.T) {
			for len(r.Messages) > 0 {
				<-r.Messages // late messages of the previous command
			}
			out, _ := slurm.RunClient(t, conf, dir, "", strings.Fields(c.line)...)
			t.Logf("%s", out)
			for {
				m := r.Next(t) // some commands send other requests first
				if m.Type != c.typ {
					t.Logf("sent %v first", m.Type)
					continue
				}
				if !bytes.Equal(m.Body, c.body) {
					t.Errorf("the bytes differ:\ntheirs %q\nours   %q", m.Body, c.body)
				}
				fmt.Fprintf(&golden, "%s\t%x\n", c.line, m.Body)
				return
			}
		})
	}
	if *capture {
		if err := errors.Join(os.MkdirAll("testdata/clients", 0o755),
			os.WriteFile(goldenClients(slurm.Release), []byte(golden.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func failOn(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
