package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/slurmspec"
)

// TestPartitionQOS: a QOS that a partition names and that nobody declares is an error where
// slurmctld would end for it.
func TestPartitionQOS(t *testing.T) {
	for _, test := range []struct {
		enforce, partition, accounts string
		release                      slurmspec.Release
		want                         string // "" for none
	}{
		{"qos", "QOS=Part_A", "", slurmspec.R2205, "partition p: QOS part_a is not in accounts.sacctmgr"},
		{"limits", "QOS=part_a", "", slurmspec.R2205, ""},
		{"limits", "QOS=part_a", "", slurmspec.R2605, "QOS part_a"},
		{"all", "QOS=part_a", "add qos part_a\n", slurmspec.R2605, ""},
		{"qos", "AllowQos=gold,normal", "", slurmspec.R2411, ""},
		{"qos", "AllowQos=gold,normal", "add qos silver\n", slurmspec.R2511, "QOS gold"},
		{"qos", "DenyQos=gold", "", slurmspec.R2511, "QOS gold"},
		{"qos", "QOS=part_a", "ad qos part_a\n", slurmspec.R2605, ""}, // validate names the mistake
	} {
		dir := t.TempDir()
		text := "ClusterName=c\nAccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=" + test.enforce +
			"\nNodeName=n1\nPartitionName=p Nodes=ALL " + test.partition + "\n"
		for name, content := range map[string]string{"slurm.conf": text, "accounts.sacctmgr": test.accounts} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cluster, err := conf.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = checkPartitionQOS(cluster, test.release)
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), strings.Replace(test.want, "in accounts", "in "+dir+"/accounts", 1)) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
