package conf

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
)

// Adapt keeps topology.yaml for the releases that read it. For older releases it writes an
// equivalent TopologyPlugin and topology.conf, or fails if there is no equivalent. A site with
// topology.yaml runs 25.05 or newer, its topology.conf is not used, and its nodes cannot be scaled.
func TestTopologyYAML(t *testing.T) {
	const text = "- topology: fabric\n  tree:\n    switches:\n    - {switch: s, nodes: 'n[1-2]'}\n    - {switch: r, children: s}\n"
	c := withYAML(t, text, "")
	if from, _ := c.Releases(); from != slurmspec.R2505 {
		t.Errorf("the site runs %s or newer, want 25.05", from)
	}
	if adapted, err := Preview(c, slurmspec.R2605, ""); err != nil || string(adapted.Files[topologyYAML]) != text || adapted.Files[topologyConf] != nil {
		t.Errorf("26.05: %v, want the site's file kept", err)
	}
	if _, err := c.Scale(2); err == nil || !strings.Contains(err.Error(), "cannot be scaled") {
		t.Errorf("error %v, want one that the nodes cannot be scaled", err)
	}
	adapted, err := Preview(c, slurmspec.R2411, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(adapted.Files[topologyConf]), "# The site's topology.yaml\nSwitchName=s Nodes=n[1-2]\nSwitchName=r Switches=s\n"; got != want {
		t.Errorf("topology.conf %q, want %q", got, want)
	}
	conf := string(adapted.Files[slurmConf])
	if strings.Count(conf, "TopologyPlugin") != 1 || !strings.Contains(conf, "TopologyPlugin=topology/tree\n") || adapted.Files[topologyYAML] != nil {
		t.Errorf("slurm.conf:\n%s\nwant TopologyPlugin=topology/tree, once, and no topology.yaml", conf)
	}
	if !slices.ContainsFunc(adapted.Upgrade, func(c Change) bool { return c.Key == topologyYAML && c.To == topologyConf }) {
		t.Errorf("the site's changes for 24.11 do not have topology.yaml: %+v", adapted.Upgrade)
	}

	flat := withYAML(t, "topology: f\nflat: true\n", "")
	if adapted, err := Preview(flat, slurmspec.R2205, ""); err != nil || !strings.Contains(string(adapted.Files[slurmConf]), "TopologyPlugin=topology/none\n") || adapted.Files[topologyConf] != nil {
		t.Errorf("flat in 22.05: %v, want TopologyPlugin=topology/none and no file", err)
	}
	ring := withYAML(t, "topology: f\nring: {rings: {ring: a, nodes: 'n[1-2]'}}\n", "")
	for release, want := range map[slurmspec.Release]string{
		slurmspec.R2411: "slurmctld reads it since 25.05, and the files of 24.11 cannot express the same topology: topology/ring is not in Slurm 24.11",
		slurmspec.R2505: "topology.yaml: Slurm 25.05 has no topology/ring",
	} {
		if _, err := Preview(ring, release, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ring in %s: %v, want %q", release, err, want)
		}
	}
	if _, err := Preview(withYAML(t, text, " Topology=fabric"), slurmspec.R2411, ""); err != nil {
		t.Errorf("a partition with the one topology: %v", err)
	}
}

// withYAML returns a cluster with a topology.yaml. The partition has the attribute.
func withYAML(t *testing.T, text, attribute string) *Cluster {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"slurm.conf": "ClusterName=y\nSlurmctldHost=h\nSelectType=select/cons_tres\nTopologyPlugin=topology/flat\nNodeName=n[1-2] CPUs=2\nPartitionName=p Nodes=ALL" + attribute + "\n", topologyYAML: text,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return mustOpen(t, dir)
}

// TestDatabaseFile: slurmdbd.conf shows which releases the site may run, and Adapt says what must change in the
// file for another release. The password in the file appears nowhere. A file that cannot be read is a warning.
func TestDatabaseFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("slurm.conf", "ClusterName=y\nSlurmctldHost=h\nAccountingStorageType=accounting_storage/slurmdbd\nNodeName=n[1-2] CPUs=2\nPartitionName=p Nodes=ALL\n")
	write("slurmdbd.conf", "StorageType=accounting_storage/mysql\nStoragePass=secret\nallresourcesabsolute=yes\nParameters=PreserveCaseUser\nMaxPurgeLimit=5\n")
	c := mustOpen(t, dir)
	if from, _ := c.Releases(); from != slurmspec.R2511 {
		t.Errorf("the site runs %s or newer, want 25.11 because of MaxPurgeLimit", from)
	}
	adapted, err := Preview(c, slurmspec.R2205, "")
	if err != nil {
		t.Fatal(err)
	}
	var upgrade []string
	for _, change := range adapted.Upgrade {
		if strings.HasPrefix(change.Key, "slurmdbd.conf") {
			upgrade = append(upgrade, change.Key)
		}
	}
	if want := []string{"slurmdbd.conf AllResourcesAbsolute", "slurmdbd.conf MaxPurgeLimit"}; !slices.Equal(upgrade, want) {
		t.Errorf("the site's changes for 22.05: %v, want %v", upgrade, want)
	}
	if all := fmt.Sprintf("%+v", adapted); strings.Contains(all, "secret") {
		t.Errorf("the password is in %s", all)
	}
	text := string(adapted.Files["slurmdbd.conf"])
	if !strings.Contains(text, "Parameters=PreserveCaseUser\n") || strings.Contains(text, "AllResourcesAbsolute") || strings.Contains(text, "secret") {
		t.Errorf("slurmdbd.conf of the run:\n%s", text)
	}
	write("slurmdbd.conf", "DbdPrt=6819\n")
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "slurmdbd.conf:1: DbdPrt: unrecognized key; did you mean DbdPort?") {
		t.Errorf("error %v, want one about DbdPrt", err)
	}
	unreadable := files{open: func(path string) ([]byte, error) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
	}}
	var hidden Cluster
	if err := hidden.readDatabase("/etc/slurm/slurmdbd.conf", &unreadable); err != nil || len(hidden.Warnings) != 1 {
		t.Errorf("a file that cannot be read: %v, %q; want a warning", err, hidden.Warnings)
	}
}

// TestTopologyFileMissing: slurmctld does not start without the topology.conf of its plugin. The
// plugin, in any spelling, is left out, with a warning and a change.
func TestTopologyFileMissing(t *testing.T) {
	for _, plugin := range []string{"topology/tree", "topology/hypercube", "topology/block", "Topology/Tree"} {
		site := "ClusterName=c\nSlurmctldHost=h\nTopologyPlugin=" + plugin + "\nNodeName=n[1-2]\nPartitionName=p Nodes=ALL\n"
		c, err := openText(t, site)
		if err != nil {
			t.Fatal(err)
		}
		want := "slurm.conf:3: TopologyPlugin=" + plugin + " is left out: it needs topology.conf, which is not beside slurm.conf"
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], want) {
			t.Errorf("%s: warnings %q, want one with %q", plugin, c.Warnings, want)
		}
		adapted, err := Adapt(c, slurmspec.R2205, testEnvironment())
		if err != nil {
			t.Fatal(err)
		}
		if text := string(adapted.Files["slurm.conf"]); strings.Contains(text, "TopologyPlugin") {
			t.Errorf("%s: slurm.conf still has it:\n%s", plugin, text)
		}
		if !slices.Contains(adapted.Changes, Change{Key: "TopologyPlugin", From: plugin, Reason: "topology.conf is not beside slurm.conf"}) {
			t.Errorf("%s: changes %+v", plugin, adapted.Changes)
		}
	}
	if c, err := openText(t, "ClusterName=c\nTopologyPlugin=topology/none\nNodeName=n1\nPartitionName=p Nodes=ALL\n"); err != nil || len(c.Warnings) != 0 {
		t.Errorf("topology/none: %v, %q", err, c.Warnings)
	}
}
