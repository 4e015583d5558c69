package conf

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const smallest = "ClusterName=c\nNodeName=n1\nPartitionName=p Nodes=n1\n"

// hostile are cluster directories at which a reader without limits uses up the memory, the time or
// the stack. want is the expected error.
func hostile() map[string]struct {
	files map[string]string
	want  string
} {
	type files = map[string]string
	bomb := files{"/slurm.conf": smallest + "Include a0\n"}
	for i := range 25 {
		bomb[fmt.Sprintf("/a%d", i)] = fmt.Sprintf("Include a%d\nInclude a%d\n", i+1, i+1)
	}
	bomb["/a25"] = ""
	return map[string]struct {
		files files
		want  string
	}{
		"includes that double": {bomb, "the cluster has more than 1000 files (want fewer)"},
		"include loop":         {files{"/slurm.conf": smallest + "Include a\n", "/a": "Include b\n", "/b": "Include a\n"}, "/b:1: Include a: the file includes itself"},
		"too large":            {files{"/slurm.conf": strings.Repeat("#\n", maxBytes/2+1)}, "/slurm.conf: the cluster's files up to this one have more than 64 MiB"},
		"too large together":   {files{"/slurm.conf": smallest, "/users": strings.Repeat("#\n", maxBytes/2)}, "/users: the cluster's files up to this one have more than 64 MiB"},
		"accounts too large":   {files{"/slurm.conf": smallest, "/accounts.sacctmgr": strings.Repeat("#\n", maxBytes/2)}, "/accounts.sacctmgr: the cluster's files up to this one have more than 64 MiB"},
		"long line":            {files{"/slurm.conf": smallest + "KillWait=" + strings.Repeat("1", maxLine)}, "/slurm.conf:4: line of more than 1 MiB"},
		"long joined line":     {files{"/slurm.conf": smallest + "KillWait=" + strings.Repeat("1\\\n", maxLine+1)}, "/slurm.conf:4: line of more than 1 MiB"},
		"long line of a user":  {files{"/slurm.conf": smallest, "/users": strings.Repeat("a", maxLine+1)}, "/users:1: line of more than 1 MiB"},
		"NUL":                  {files{"/slurm.conf": smallest, "/gres.conf": "#\n\x00"}, "/gres.conf:2: NUL byte"},
		"lone CR":              {files{"/slurm.conf": "# a site\rClusterName=c\rNodeName=n1\r"}, "/slurm.conf:1: lines end in CR alone (want LF or CR LF"},
		"lone CR of accounts":  {files{"/slurm.conf": smallest, "/accounts.sacctmgr": "add account a\radd user u account=a\r"}, "/accounts.sacctmgr:1: lines end in CR alone"},
		"one name":             {files{"/slurm.conf": smallest + "NodeName=m[0-999999999]\n"}, "more than 1048576 names"},
		"nodes":                {files{"/slurm.conf": smallest + "NodeName=m[1-262144]\n"}, "/slurm.conf:4: NodeName=m[1-262144]: more than 262144 nodes in the cluster"},
		"names of partitions": {files{"/slurm.conf": smallest + "NodeName=m[1-100000]\n" + numbered("PartitionName=p%d Nodes=ALL\n", 100)},
			"the host lists of slurm.conf and the files beside it have more than 4194304 names together"},
		"names of a node set": {files{"/slurm.conf": smallest + "NodeName=m[1-100000] Feature=f\nNodeSet=s Feature=f\nPartitionName=q Nodes=" + strings.Repeat("s,", 100) + "\n"},
			"have more than 4194304 names together"},
		"names of switches": {files{"/slurm.conf": smallest + "NodeName=m[1-100000]\nTopologyPlugin=topology/tree\n", "/topology.conf": numbered("SwitchName=s%d Nodes=m[1-100000]\n", 100)},
			"/topology.conf:"},
		"statements": {files{"/slurm.conf": smallest + strings.Repeat("KillWait=1\n", maxStatements)}, "more than 262144 statements in the cluster's files together"},
		"mistakes":   {files{"/slurm.conf": strings.Repeat("?\n", maxBytes/2-1)}, "/slurm.conf:20:"},
		// These are within the limits, so reading them must itself take little time and memory.
		"blank lines":   {files{"/slurm.conf": smallest + strings.Repeat("\n", maxBytes/8)}, ""},
		"defaults":      {files{"/slurm.conf": numbered("NodeName=DEFAULT Weight=%[1]d\nNodeName=n%[1]d\nPartitionName=DEFAULT MaxNodes=%[1]d\n", 50_000) + smallest[:14] + "PartitionName=p Nodes=n1\n"}, ""},
		"attributes":    {files{"/slurm.conf": smallest + "NodeName=DEFAULT " + strings.Repeat("Procs=1 ", maxLine/8-10) + "\n"}, ""},
		"partitions":    {files{"/slurm.conf": smallest + numbered("PartitionName=p%d Nodes=n1\n", 200_000)}, ""},
		"unknown nodes": {files{"/slurm.conf": smallest + "DownNodes=" + numbered("q%d,", 100_000) + "\n"}, ""},
	}
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestHostileCluster: no cluster directory takes more memory than a stated limit, and the error
// says which limit.
func TestHostileCluster(t *testing.T) {
	const most = 2 << 30 // bytes that are allocated in all; fewer are in use at the same time
	for name, test := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := openMemory(test.files)
			runtime.ReadMemStats(&after)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %.200v, want %q", err, test.want)
			}
			if err != nil && len(err.Error()) > 10_000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > most {
				t.Errorf("%d MiB allocated", n>>20)
			}
		})
	}
}

// TestEndlessFile: a file that never ends is refused.
func TestEndlessFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "slurm.conf")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "a device (want a regular file)") {
		t.Errorf("slurm.conf: %v", err)
	}
}
