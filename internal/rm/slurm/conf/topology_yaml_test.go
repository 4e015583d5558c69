package conf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
)

// topology.yaml is kept for the releases that read it and refused for older ones. It tells that the
// site runs 25.05 or newer, and stands in place of topology.conf. Its nodes cannot be scaled.
func TestTopologyYAML(t *testing.T) {
	dir := t.TempDir()
	const text = "- topology: flat\n  cluster_default: true\n  flat: true\n"
	for name, content := range map[string]string{
		"slurm.conf": "ClusterName=y\nSlurmctldHost=h\nTopologyPlugin=topology/tree\nNodeName=n[1-2] CPUs=2\nPartitionName=p Nodes=ALL\n", topologyYAML: text,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if from, _ := c.Releases(); from != slurmspec.R2505 {
		t.Errorf("the site runs %s or newer, want 25.05", from)
	}
	if adapted, err := Preview(c, slurmspec.R2605, ""); err != nil || string(adapted.Files[topologyYAML]) != text {
		t.Errorf("26.05: %v, want the site's file kept", err)
	}
	for what, err := range map[string]error{
		"reads it since 25.05": func() error { _, err := Preview(c, slurmspec.R2411, ""); return err }(),
		"cannot be scaled":     func() error { _, err := c.Scale(2); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want %q", err, what)
		}
	}
}
