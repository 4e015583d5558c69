package accounting

import (
	"strings"
	"testing"
)

func TestSacctmgrScript(t *testing.T) {
	for commands, want := range map[string]string{
		"# x\n\nadd account a\n":        "add cluster tiny\nadd account a\n",
		"create clus name=tiny\nadd x":  "create clus name=tiny\nadd x\n",
		"  ADD Cluster tiny\n# nothing": "ADD Cluster tiny\n",
	} {
		if got := script(commands, "tiny"); got != want {
			t.Errorf("%q: got %q, want %q", commands, got, want)
		}
	}
}

// TestRegistration: each named resource is registered once and in order. Resources that slurmdbd
// registers itself, and texts that are no resource, become no SQL.
func TestRegistration(t *testing.T) {
	const into = "INSERT IGNORE INTO slurm_acct_db.tres_table (creation_time, type, name) VALUES "
	for list, want := range map[string]string{
		"":                              "",
		"cpu,mem,billing,fs/disk,gres/": "",
		"gres/gpu":                      "(0, 'gres', 'gpu')",
		"License/Big, gres/gpu,cpu,gres/gpu:a100": "(0, 'license', 'big'), (0, 'gres', 'gpu'), (0, 'gres', 'gpu:a100')",
		"gres/a'),('b,gres/c\\,gres/d;,gres/e\nf": "",
		"gres/" + strings.Repeat("x", 300):        "",
	} {
		got := registration(list)
		_, values, found := strings.Cut(got, into)
		if found != (want != "") || found && strings.TrimSuffix(values, ";\n") != want || !found && got != "" {
			t.Errorf("%q: got %q, want the values %q", list, got, want)
		}
		if strings.Count(got, "\n") != strings.Count(got, ";\n") {
			t.Errorf("%q: a statement has several lines: %q", list, got)
		}
	}
}
