package experiment

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
)

// The simulator reads MinJobAge as slurmctld does.
func TestMinJobAge(t *testing.T) {
	for value, want := range map[string]time.Duration{"259200": 72 * time.Hour, "2k": 2048 * time.Second, "0": 0, "": 5 * time.Minute} {
		dir := filepath.Join(t.TempDir(), "cluster")
		text := "ClusterName=one\nNodeName=n1\nPartitionName=main Nodes=n1\n"
		if value != "" {
			text += "MinJobAge=" + value + "\n"
		}
		writeCluster(t, dir, map[string]string{"slurm.conf": text})
		c, err := conf.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := minJobAge(c); err != nil || got != want {
			t.Errorf("MinJobAge=%s: %s, %v, want %s", value, got, err, want)
		}
		c = c.With("MinJobAge", "5000000000", "a test")
		if _, err := minJobAge(c); err == nil || !strings.Contains(err.Error(), "MinJobAge=5000000000: larger than 4294967295") {
			t.Errorf("%v", err)
		}
	}
}

// TestPartitions: the time limit of jobs that ask for none is the partition's DefaultTime, or else its MaxTime.
func TestPartitions(t *testing.T) {
	for attributes, want := range map[string]time.Duration{
		"MaxTime=24:00:00 DefaultTime=1:00:00": time.Hour, "MaxTime=2:00:00": 2 * time.Hour, "": hpc.Unlimited,
		"MaxTime=1:00:00 DefaultTime=2:00:00": time.Hour,
	} {
		dir := filepath.Join(t.TempDir(), "cluster")
		writeCluster(t, dir, map[string]string{
			"slurm.conf": "ClusterName=one\nNodeName=n1\nPartitionName=p Nodes=n1 Default=YES " + attributes + "\n"})
		c, err := conf.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"p", ""} {
			if got := Partitions(c)[name].DefaultTime; got != want {
				t.Errorf("%q: %v, want %v", attributes, got, want)
			}
		}
	}
}

// TestStates: partitions that accept no jobs or start none do not do so in a simulation, either.
func TestStates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	writeCluster(t, dir, map[string]string{"slurm.conf": "ClusterName=one\nNodeName=n1\nPartitionName=DEFAULT Nodes=n1 State=DRAIN\n" +
		"PartitionName=up State=UP\nPartitionName=down State=down\nPartitionName=drain\nPartitionName=none State=INACTIVE\n"})
	c, err := conf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	simulated, err := simulatedCluster(c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range simulated.Partitions {
		got = append(got, fmt.Sprintf("%s %v %v", p.Name, p.Closed, p.Stopped))
	}
	if want := "up false false, down false true, drain true false, none true true"; strings.Join(got, ", ") != want {
		t.Errorf("closed and stopped: %s, want %s", strings.Join(got, ", "), want)
	}
}
