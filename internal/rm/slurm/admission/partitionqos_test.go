package admission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/slurmspec"
)

// TestUndeclaredQOS: UndeclaredQOS finds each QOS that a partition names, that no command
// declares, and that makes slurmctld exit.
func TestUndeclaredQOS(t *testing.T) {
	const head = "ClusterName=c\nAccountingStorageType=accounting_storage/slurmdbd\n"
	for _, test := range []struct {
		head, enforce, partition, accounts string
		release                            slurmspec.Release
		without                            bool
		want                               []string // parts of the texts, in their order
	}{
		{head, "qos", "QOS=Part_A", "add account a\n", slurmspec.R2205, false, []string{"slurm.conf:5: partition p: QOS part_a is not in accounts.sacctmgr, and slurmctld does not start without it (want add qos part_a there)"}},
		{head, "qos", "QOS=part_a", "", slurmspec.R2205, false, []string{"(want that file, with add qos part_a and the site's accounts, or --no-accounting)"}},
		{head, "limits", "QOS=part_a", "", slurmspec.R2205, false, nil},
		{head, "limits", "QOS=part_a", "", slurmspec.R2605, false, []string{"QOS part_a"}},
		{head, "all", "QOS=part_a", "add qos part_a\n", slurmspec.R2605, false, nil},
		{head, "all", "QOS=part_a", "add qos part_a\ndelete qos part_a\n", slurmspec.R2605, false, []string{"QOS part_a"}},
		{head, "qos", "AllowQos=gold,normal", "", slurmspec.R2411, false, nil},
		{head, "qos", "AllowQos=gold,normal,lead QOS=part_a", "add qos silver\n", slurmspec.R2511, false, []string{"QOS part_a", "QOS gold", "QOS lead"}},
		{head, "qos", "DenyQos=gold", "", slurmspec.R2511, false, []string{"QOS gold"}},
		{head, "qos", "QOS=part_a", "ad qos part_a\n", slurmspec.R2605, false, nil}, // validate names the mistake
		{head, "qos", "QOS=part_a", "", slurmspec.R2605, true, nil},
		{"ClusterName=c\n#\n", "qos", "QOS=part_a", "", slurmspec.R2605, false, nil},
	} {
		dir := t.TempDir()
		files := map[string]string{"slurm.conf": test.head + "AccountingStorageEnforce=" + test.enforce + "\nNodeName=n1\nPartitionName=p Nodes=ALL " + test.partition + "\n"}
		if test.accounts != "" {
			files["accounts.sacctmgr"] = test.accounts
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cluster, err := conf.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		site, err := New(cluster, nil, Options{Release: test.release, WithoutAccounting: test.without})
		if err != nil {
			t.Fatal(err)
		}
		if got := site.UndeclaredQOS(); !slices.EqualFunc(got, test.want, strings.Contains) {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
