package accounting

import "testing"

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
