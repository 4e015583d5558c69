package workload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
)

const reservationText = `ReservationName=maint StartTime=2024-03-01T06:00:00 EndTime=2024-03-01T10:00:00 Duration=04:00:00
   Nodes=n[1-4] NodeCnt=4 CoreCnt=16 Features=(null) PartitionName=batch Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES
   TRES=cpu=16
   Users=root,ann Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)

ReservationName=over StartTime=2024-02-01T06:00:00 EndTime=2024-02-01T10:00:00 Duration=04:00:00 Nodes=n1 Users=ann
ReservationName=count StartTime=2024-03-02T06:00:00 EndTime=2024-03-02T10:00:00 Nodes=(null) NodeCnt=2 Accounts=phys Users=(null)
`

func TestReadReservations(t *testing.T) {
	window := ReadOptions{Start: hpc.Unix(1709280000), End: hpc.Unix(1709280000 + 2*86400)} // 2024-03-01T08:00:00Z
	got, err := ReadReservations(strings.NewReader(reservationText), "x", window)
	if err != nil {
		t.Fatal(err)
	}
	want := []hpc.ReservationEvent{
		{At: window.Start, Action: "create", Reservation: hpc.Reservation{
			Name: "maint", Start: window.Start.Add(-2 * time.Hour), Duration: 4 * time.Hour, Nodes: "n[1-4]", Partition: "batch",
			Users: []string{"root", "ann"}, Flags: []string{"MAINT", "IGNORE_JOBS"},
		}},
		{At: window.Start, Action: "create", Reservation: hpc.Reservation{
			Name: "count", Start: hpc.Unix(1709359200), Duration: 4 * time.Hour, NodeCount: 2, Accounts: []string{"phys"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got, err := ReadReservations(strings.NewReader("No reservations in the system\n"), "x", window); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReadNodeStates(t *testing.T) {
	got, err := ReadNodeStates(strings.NewReader(`NodeName=n1 Arch=x86_64 CoresPerSocket=8
   OS=Linux 5.10 #1 SMP Debian
   State=IDLE+DRAIN ThreadsPerCore=1 Owner=N/A
   Reason=bad memory in slot 4 [root@2024-03-01T07:00:00]

NodeName=n2 State=ALLOCATED ThreadsPerCore=1
NodeName=n3 State=DOWN*+NOT_RESPONDING Reason=Not responding [slurm@2024-03-01T07:00:00]
NodeName=n4 State=MIXED+PLANNED
`), "x", ReadOptions{Start: 7})
	if err != nil {
		t.Fatal(err)
	}
	want := []hpc.NodeEvent{
		{At: 7, Nodes: "n1", State: "drain", Reason: "bad memory in slot 4"},
		{At: 7, Nodes: "n3", State: "down", Reason: "Not responding"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestScontrolErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "reading reservations: x: empty (want the output of scontrol show reservation)",
		"\n":                                     "reading reservations: x: empty (want the output of scontrol show reservation)",
		"hello\n":                                "reading reservations: x:1: \"hello\": want ReservationName=",
		"\nReservationName=a StartTime=b\n":      "x:2: StartTime=b: not a time",
		"ReservationName=a StartTime=2024-03-01": "x:1: EndTime=: not a time",
		"ReservationName=a StartTime=2024-03-01 EndTime=2024-03-02 NodeCnt=-4": "NodeCnt=-4: not a count",
	} {
		if _, err := ReadReservations(strings.NewReader(text), "x", ReadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if _, err := ReadNodeStates(strings.NewReader("NodeName=a\n"), "x", ReadOptions{}); err == nil || !strings.Contains(err.Error(), "x:1: a node without State=") {
		t.Error(err)
	}
}

// A command that fails leaves an empty file.
func TestEmptyScontrol(t *testing.T) {
	const want = "reading node states: x: empty (want the output of scontrol show node)"
	if _, err := ReadNodeStates(strings.NewReader(""), "x", ReadOptions{}); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	none := strings.NewReader("No reservations in the system\n")
	if events, err := ReadReservations(none, "x", ReadOptions{}); err != nil || len(events) != 0 {
		t.Errorf("%v, error %v", events, err)
	}
}

func TestConvertAccountsDump(t *testing.T) {
	got, qos, err := ConvertAccountsDump(strings.NewReader(`# To edit this file start with a cluster line
Cluster - 'vale':Fairshare=1:QOS='normal':DefaultQOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'phys':Description='physics: all':Organization='phys':Fairshare=50:GrpTRES=cpu=10
Parent - 'phys'
User - 'ann':DefaultAccount='phys':Fairshare=10:QOS='+high,normal'
`), "x")
	want := `add qos name=high
add cluster name=vale Fairshare=1 QOS=normal DefaultQOS=normal
add account name=phys parent=root Description="physics: all" Organization=phys Fairshare=50 GrpTRES=cpu=10
add user name=ann account=phys DefaultAccount=phys Fairshare=10 QOS=+high,normal
`
	if diff := cmp.Diff(want, got); diff != "" || err != nil || fmt.Sprint(qos) != "[normal high]" {
		t.Errorf("%v, QOS %v, (-want +got)\n%s", err, qos, diff)
	}
	for text, want := range map[string]string{
		"":                             "reading accounts: x: no line Cluster",
		"Cluster 'a'":                  "x:1: \"Cluster 'a'\": want Cluster",
		"Cluster - 'a":                 "x:1: a quote (') is not closed",
		"Cluster - :a=b":               "an empty name",
		"Group - 'a'":                  "Group: not known",
		"Cluster - 'a'\nCluster - 'b'": "x:2: a second cluster",
	} {
		if _, _, err := ConvertAccountsDump(strings.NewReader(text), "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzScontrol(f *testing.F) {
	f.Add(reservationText)
	f.Add("NodeName=n1 State=IDLE+DRAIN Reason=a b [c@d]\n")
	f.Fuzz(func(t *testing.T, text string) {
		events, err := ReadReservations(strings.NewReader(text), "fuzz", ReadOptions{Start: 5})
		for _, e := range events {
			if err == nil && (e.Duration <= 0 || e.Start < 5) {
				t.Errorf("reservation %+v", e)
			}
		}
		nodes, err := ReadNodeStates(strings.NewReader(text), "fuzz", ReadOptions{})
		for _, e := range nodes {
			if err == nil && e.State != "down" && e.State != "drain" {
				t.Errorf("node event %+v", e)
			}
		}
	})
}

func FuzzConvertAccountsDump(f *testing.F) {
	f.Add("Cluster - 'a':QOS='b'\nParent - 'root'\nAccount - 'c':Fairshare=1\nUser - 'd'\n")
	f.Fuzz(func(t *testing.T, text string) {
		commands, _, err := ConvertAccountsDump(strings.NewReader(text), "fuzz")
		if (err == nil) == (commands == "") {
			t.Errorf("%q with error %v", commands, err)
		}
	})
}

// TestOneLineNodes reads nodes as `scontrol -o show node` prints them: the operating system's name
// contains blanks, and is not the last key.
func TestOneLineNodes(t *testing.T) {
	for release, line := range map[string]string{
		"22.05": "NodeName=n1 Arch=x86_64 CoresPerSocket=2 CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=0.52 AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=127.0.0.1 NodeHostName=h Port=7001 Version=22.05.8 OS=Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01) RealMemory=1 AllocMem=0 FreeMem=2121 Sockets=1 Boards=1 State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=p BootTime=2024-03-01T05:00:00 SlurmdStartTime=2024-03-01T06:00:00 LastBusyTime=2024-03-01T06:00:00 CfgTRES=cpu=2,mem=1M,billing=2 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s Reason=bad State=of memory [root@2024-03-01T07:00:00] Comment=spare part ordered",
		"24.11": "NodeName=n1 Arch=x86_64 CoresPerSocket=2 CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=0.52 AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=127.0.0.1 NodeHostName=h Port=7001 Version=24.11.5 OS=Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01) RealMemory=1 AllocMem=0 FreeMem=2121 Sockets=1 Boards=1 State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=p BootTime=2024-03-01T05:00:00 SlurmdStartTime=2024-03-01T06:00:00 LastBusyTime=2024-03-01T06:00:00 ResumeAfterTime=None CfgTRES=cpu=2,mem=1M,billing=2 AllocTRES= CurrentWatts=0 AveWatts=0 Reason=bad State=of memory [root@2024-03-01T07:00:00] Comment=spare part ordered Extra=rack 7 InstanceId=i-1 InstanceType=t",
		"26.05": "NodeName=n1 Arch=x86_64 CoresPerSocket=2 CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=0.52 AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=127.0.0.1 NodeHostName=h Port=7001 Version=26.05.3 OS=Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01) RealMemory=1 AllocMem=0 FreeMem=2121 Sockets=1 Boards=1 State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=p BootTime=2024-03-01T05:00:00 SlurmdStartTime=2024-03-01T06:00:00 LastBusyTime=2024-03-01T06:00:00 ResumeAfterTime=None CfgTRES=cpu=2,mem=1M,billing=2 AllocTRES= CurrentWatts=0 AveWatts=0 Reason=bad State=of memory [root@2024-03-01T07:00:00] Comment=spare part ordered Topology=default:s1 Parameters=(null)",
	} {
		got, err := ReadNodeStates(strings.NewReader(line+"\nNodeName=n2 OS=Linux 6 RealMemory=1 State=IDLE Reason=none\n"), "x", ReadOptions{Start: 7})
		want := []hpc.NodeEvent{{At: 7, Nodes: "n1", State: "drain", Reason: "bad State=of memory"}}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", release, err, diff)
		}
	}
}
