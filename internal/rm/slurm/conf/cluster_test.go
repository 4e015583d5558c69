package conf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// TestHardware: Open computes processors as slurmctld does, with each of its corrections.
func TestHardware(t *testing.T) {
	type cpus struct{ boards, sockets, cores, threads, cpus int }
	for _, test := range []struct {
		attributes string
		want       cpus
		warning    string
	}{
		{"", cpus{1, 1, 1, 1, 1}, ""},
		{"CPUs=8", cpus{1, 8, 1, 1, 8}, ""},
		{"Procs=8", cpus{1, 8, 1, 1, 8}, ""},
		{"CPUs=8 Procs=4", cpus{1, 8, 1, 1, 8}, ""},
		{"CPUs=16 CoresPerSocket=4 ThreadsPerCore=2", cpus{1, 2, 4, 2, 16}, ""},
		{"CPUs=16 CoresPerSocket=5", cpus{1, 1, 5, 1, 5}, "CPUs=16 is not the number of sockets, cores or threads (1, 5, 5)"},
		{"Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", cpus{1, 2, 4, 2, 16}, ""},
		{"Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CPUs=8", cpus{1, 2, 4, 2, 8}, ""},
		{"Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 CPUs=12", cpus{1, 2, 4, 2, 16}, "CPUs=12 is not the number of"},
		{"Boards=2 SocketsPerBoard=2 CoresPerSocket=4", cpus{2, 4, 4, 1, 16}, ""},
		{"Boards=2 CoresPerSocket=4", cpus{2, 2, 4, 1, 8}, ""},
		{"Boards=4 Sockets=2", cpus{1, 2, 1, 1, 2}, "Sockets=2 is less than Boards=4"},
		{"Sockets=2 SocketsPerBoard=4", cpus{1, 4, 1, 1, 4}, "Sockets and SocketsPerBoard exclude each other"},
		{"Sockets=0", cpus{1, 1, 1, 1, 1}, "Sockets=0 is not possible"},
		{"CPUs=0x10 CoresPerSocket=010", cpus{1, 2, 8, 1, 16}, ""},
		{"Sockets=1 CoresPerSocket=2 CoreSpecCount=2", cpus{1, 1, 2, 1, 2}, "CoreSpecCount=2 leaves no core"},
		{"RealMemory=100 MemSpecLimit=100", cpus{1, 1, 1, 1, 1}, "MemSpecLimit=100 is not less than RealMemory=100"},
	} {
		c, err := openText(t, "ClusterName=c\nNodeName=n1 "+test.attributes+"\nPartitionName=p Nodes=n1\n")
		if err != nil {
			t.Errorf("%q: %v", test.attributes, err)
			continue
		}
		n := c.Nodes[0]
		if got := (cpus{n.Boards, n.Sockets, n.CoresPerSocket, n.ThreadsPerCore, n.CPUs}); got != test.want {
			t.Errorf("%q: %+v, want %+v", test.attributes, got, test.want)
		}
		warnings := strings.Join(c.Warnings, "\n")
		if (test.warning == "") != (warnings == "") || !strings.Contains(warnings, test.warning) {
			t.Errorf("%q: warnings %q, want %q", test.attributes, warnings, test.warning)
		}
	}
}

// TestDefaults: DEFAULT lines add up and apply to the lines below them.
func TestDefaults(t *testing.T) {
	c, err := openText(t, `ClusterName=c
NodeName=a1
NodeName=DEFAULT RealMemory=100 Features=x
NodeName=b1
NodeName=default Weight=3 RealMemory=200
NodeName=c1 Feature=y
NodeName=d1 Weight=INFINITE TmpDisk=5
PartitionName=p1 Nodes=a1
PartitionName=DEFAULT MaxTime=5 ExclusiveUser=YES Nodes=ALL Default=YES
PartitionName=p2
PartitionName=p3 MaxTime=6 Nodes="b1 c1" AllowAccounts=A,b DenyAccounts=z
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range c.Nodes {
		got = append(got, fmt.Sprint(n.Name, " ", n.RealMemory, " ", n.Weight, " ", n.Features, " ", n.TmpDisk))
	}
	want := []string{"a1 1 1 [] 0", "b1 100 1 [x] 0", "c1 200 3 [y] 0", "d1 200 4294967294 [x] 5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	got = nil
	for _, p := range c.Partitions {
		limit, _ := p.Get("maxtime")
		exclusive, _ := p.Get("ExclusiveUser")
		got = append(got, fmt.Sprint(p.Name, " ", p.Nodes, " ", limit, exclusive, " ", p.Default, p.AllowAccounts, p.DenyAccounts))
	}
	want = []string{"p1 [a1]  false [] []", "p2 [a1 b1 c1 d1] 5 false [] []", "p3 [b1 c1] 6 true [a b] []"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
}

func TestOpenErrors(t *testing.T) {
	const nodes = "NodeName=n[1-2]\n"
	for _, test := range []struct{ name, text, want string }{
		{"no name", nodes, "ClusterName is not set (want ClusterName=NAME)"},
		{"no nodes", "ClusterName=c\nPartitionName=p\n", "no nodes (want NodeName=… lines)"},
		{"no partitions", "ClusterName=c\n" + nodes, "no partitions (want PartitionName=… lines)"},
		{"node twice", "ClusterName=c\n" + nodes + "NodeName=n2\nPartitionName=p\n", "slurm.conf:3: node n2 is defined twice (first in "},
		{"node twice in one line", "ClusterName=c\nNodeName=n1,n1\nPartitionName=p\n", "slurm.conf:2: node n1 is defined twice (first in the same line)"},
		{"partition twice", "ClusterName=c\n" + nodes + "PartitionName=p\nPartitionName=p\n", "slurm.conf:4: partition p is defined twice (first in "},
		{"unknown node", "ClusterName=c\n" + nodes + "PartitionName=p Nodes=n[1-5]\n", "slurm.conf:3: partition p: Nodes=n[1-5]: no such node: n[3-5]"},
		{"unknown node of a set", "ClusterName=c\n" + nodes + "NodeSet=s Nodes=x1\nPartitionName=p Nodes=s\n", "slurm.conf:3: NodeSet=s: no such node: x1"},
		{"bad list", "ClusterName=c\nNodeName=n[1-\nPartitionName=p\n", "slurm.conf:2: NodeName=n[1-: "},
		{"endless list", "ClusterName=c\nNodeName=n[1-99999999999]\nPartitionName=p\n", "slurm.conf:2: NodeName=n[1-99999999999]: "},
		{"reserved", "ClusterName=c\nNodeName=ALL\nPartitionName=p\n", "slurm.conf:2: NodeName=ALL: a word that Slurm reserves"},
		{"address of all", "ClusterName=c\nNodeName=DEFAULT NodeAddr=x\n" + nodes + "PartitionName=p\n", "slurm.conf:2: NodeAddr is not allowed with NodeName=DEFAULT"},
		{"state", "ClusterName=c\nNodeName=n1 State=broken\nPartitionName=p\n", "slurm.conf:2: State=broken: not a node state (want UNKNOWN, IDLE, DOWN"},
		{"resource", "ClusterName=c\nGresTypes=gpu\nNodeName=n1 Gres=gpu:a:b:1\nPartitionName=p\n", `slurm.conf:3: Gres=gpu:a:b:1: "gpu:a:b:1": not a generic resource`},
		{"resource count", "ClusterName=c\nGresTypes=gpu\nNodeName=n1 Gres=gpu:1x\nPartitionName=p\n", `slurm.conf:3: Gres=gpu:1x: "1x": not a count`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := openText(t, test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "reading cluster: ") {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestOpenDirectoryErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeFile(t, file, "")
	for path, want := range map[string]string{
		filepath.Join(dir, "gone"): "no such file or directory (want a directory that has slurm.conf)",
		file:                       "not a directory (want the directory that has slurm.conf)",
		dir:                        "no such file or directory (a cluster directory needs the site's slurm.conf)",
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	c, err := openText(t, `ClusterName=c
KillWait=1
KillWait=2
SchedulerParameters+=bf_continue,bf_intervall=30
NodeName=n[1-6]
DownNodes=n1,x1 State=DOWN
DownNodes=n2 State=gone
PartitionName=p Nodes=n[1-3] Default=YES
PartitionName=q Default=YES
`)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(c.Warnings, "\n")
	for _, want := range []string{
		"slurm.conf:3: KillWait is set again (first in ",
		"slurm.conf:4: SchedulerParameters has no option bf_intervall, so Slurm ignores it; did you mean bf_interval?",
		"slurm.conf:4: SchedulerParameters+=bf_continue,bf_intervall=30: Slurm ignores the sign",
		"slurm.conf:6: DownNodes=n1,x1: there is no node x1",
		"slurm.conf:7: DownNodes=n2 is ignored: State=gone: not a node state",
		"slurm.conf:8: partition p is not the default: q has Default=YES too",
		"3 nodes are in no partition, so no job can run there: n[4-6]",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning %q in\n%s", want, all)
		}
	}
	if len(c.Warnings) != 7 {
		t.Errorf("%d warnings, want 7:\n%s", len(c.Warnings), all)
	}
	if v, ok := c.Get("killwait"); v != "2" || !ok {
		t.Errorf("KillWait=%q, want the last", v)
	}
	if c.Nodes[0].State != "DOWN" || c.Nodes[1].State != "" {
		t.Errorf("states %q and %q", c.Nodes[0].State, c.Nodes[1].State)
	}
}

func TestGRES(t *testing.T) {
	c := mustOpen(t, "testdata/gpu")
	get := func(name string) []hpc.GRES {
		i, ok := c.Node(name)
		if !ok {
			t.Fatalf("no node %s", name)
		}
		return c.Nodes[i].GRES
	}
	want := []hpc.GRES{
		{Name: "gpu", Type: "a100", Count: 2, File: true, Cores: "0-7", Links: "-1,2"},
		{Name: "gpu", Type: "a100", Count: 2, File: true, Cores: "8-15"},
		{Name: "shard", Count: 16},
		{Name: "bandwidth", Count: 4 << 30},
	}
	if diff := cmp.Diff(want, get("g2")); diff != "" {
		t.Errorf("g2 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]hpc.GRES{{Name: "gpu", Type: "v100", Count: 2, File: true}}, get("v1")); diff != "" {
		t.Errorf("v1, whose devices are detected (-want +got):\n%s", diff)
	}
	if got := get("c01"); len(got) != 0 {
		t.Errorf("c01 has %v", got)
	}
}

func TestMergeGRES(t *testing.T) {
	for _, test := range []struct {
		name, wanted, file string
		want               []hpc.GRES
		warning            string
	}{
		{"no gres.conf", "gpu:2", "", []hpc.GRES{{Name: "gpu", Count: 2}}, ""},
		{"one without a number", "gpu", "Name=gpu", []hpc.GRES{{Name: "gpu", Count: 1}}, ""},
		{"type from gres.conf", "gpu:2", "Name=gpu Type=a100 File=/dev/n[0-1]", []hpc.GRES{{Name: "gpu", Type: "a100", Count: 2, File: true}}, ""},
		{"two types", "gpu:a:1,gpu:b:2", "Name=gpu Type=b File=/dev/n[1-2] Cores=4-7\nName=gpu Type=a File=/dev/n0 Cores=0-3",
			[]hpc.GRES{{Name: "gpu", Type: "a", Count: 1, File: true, Cores: "0-3"}, {Name: "gpu", Type: "b", Count: 2, File: true, Cores: "4-7"}}, ""},
		{"type before none", "gpu:a:1", "Name=gpu File=/dev/n0\nName=gpu Type=a File=/dev/n1 Cores=1",
			[]hpc.GRES{{Name: "gpu", Type: "a", Count: 1, File: true, Cores: "1"}}, "gres.conf has 2 of gpu, slurm.conf 1"},
		{"fewer than wanted", "gpu:3", "Name=gpu File=/dev/n0 Cores=0", []hpc.GRES{{Name: "gpu", Count: 1, File: true, Cores: "0"}, {Name: "gpu", Count: 2, File: true}}, "gres.conf has 1 of gpu, slurm.conf 3"},
		{"another node's", "gpu:1", "NodeName=other Name=gpu File=/dev/n0", []hpc.GRES{{Name: "gpu", Count: 1}}, "no such node in slurm.conf: other"},
		{"several files make one", "gpu:1", "Name=gpu MultipleFiles=/dev/a,/dev/b Flags=one_sharing", []hpc.GRES{{Name: "gpu", Count: 1, File: true, Flags: "one_sharing"}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "slurm.conf"), "ClusterName=c\nGresTypes=gpu\nNodeName=n1 Gres="+test.wanted+"\nPartitionName=p Nodes=n1\n")
			if test.file != "" {
				writeFile(t, filepath.Join(dir, "gres.conf"), test.file+"\n")
			}
			c := mustOpen(t, dir)
			if diff := cmp.Diff(test.want, c.Nodes[0].GRES); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if warnings := strings.Join(c.Warnings, "\n"); (test.warning == "") != (warnings == "") || !strings.Contains(warnings, test.warning) {
				t.Errorf("warnings %q, want %q", warnings, test.warning)
			}
		})
	}
}

func TestSideFileErrors(t *testing.T) {
	const site = "ClusterName=c\nGresTypes=gpu\nTopologyPlugin=topology/tree\nNodeName=n1 Gres=gpu:1\nPartitionName=p Nodes=n1\n"
	const tree = "SwitchName=s Nodes=n1\n"
	for _, test := range []struct{ file, text, want string }{
		{"gres.conf", "NodeName=n1 Count=2", "gres.conf:1: no Name= (want the resource's name"},
		{"gres.conf", "Name=gpu File=/dev/n[0-3] Count=2", "gres.conf:1: Count=2, but File= names 4"},
		{"gres.conf", "Name=gpu Count=lots", "gres.conf:1: Count=lots: "},
		{"gres.conf", "Nam=gpu", "gres.conf:1: Nam: unrecognized key; did you mean Name?"},
		{"gres.conf", "Include gone", "gres.conf:1: Include gone: "},
		{"gres.conf", "Name=gpu File=/a MultipleFiles=/b,/c", "gres.conf:1: File and MultipleFiles exclude each other"},
		{"topology.conf", "SwitchName=s Nodes=n1 Switches=t", "topology.conf:1: switch s: both Nodes= and Switches="},
		{"topology.conf", tree + "SwitchName=s Nodes=n1", "topology.conf:2: switch s is defined twice"},
		{"topology.conf", tree + "SwitchName=r Switches=s,t", "topology.conf:2: switch r: no such switch: t"},
		{"passwd", "joe:x:1000", "passwd:1: \"joe:x:1000\": want name:x:id:… as in /etc/passwd"},
		{"passwd", "joe:x:1000:5:::", "passwd:1: user joe: group 5 is not in "},
		{"passwd", "joe:x:many:100:::", "passwd:1: \"many\": not a numeric id"},
		{"users", "joe:x", "users"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"slurm.conf": site, "topology.conf": tree, "group": "users:x:100:\n"} {
			writeFile(t, filepath.Join(dir, name), text)
		}
		writeFile(t, filepath.Join(dir, test.file), test.text+"\n")
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %q: error %v, want %q", test.file, test.text, err, test.want)
		}
	}
}

func TestUsersAndAccounts(t *testing.T) {
	const site = "ClusterName=Mine\nNodeName=n1\nPartitionName=p Nodes=n1\n"
	joe := hpc.User{Name: "joe", UID: 1000, Group: "physics", GID: 100}
	for _, files := range []map[string]string{
		{"users": "joe:1000:physics:100\n"},
		{"users.sim": "joe:1000:physics:100\n"},
		{"passwd": "# people\njoe:x:1000:100:Joe:/home/joe:/bin/sh\n", "group": "physics:x:100:joe\n"},
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "slurm.conf"), site)
		for name, text := range files {
			writeFile(t, filepath.Join(dir, name), text)
		}
		c := mustOpen(t, dir)
		if diff := cmp.Diff([]hpc.User{joe}, c.Users); diff != "" {
			t.Errorf("%v (-want +got):\n%s", files, diff)
		}
		got, madeUp := c.AccountCommands([]hpc.User{joe, {Name: "ann", UID: 1001, Group: "Physics", GID: 100}})
		want := "add cluster Name=mine\n" +
			"add account Name=physics Cluster=mine Fairshare=1\n" +
			"add user Name=joe Cluster=mine Account=physics DefaultAccount=physics Fairshare=1\n" +
			"add user Name=ann Cluster=mine Account=physics DefaultAccount=physics Fairshare=1\n"
		if string(got) != want || !madeUp {
			t.Errorf("commands %q (made up: %v), want %q", got, madeUp, want)
		}
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "slurm.conf"), site)
	writeFile(t, filepath.Join(dir, "sacctmgr.script"), "add cluster x\n")
	c := mustOpen(t, dir)
	if got, madeUp := c.AccountCommands(nil); string(got) != "add cluster x\n" || madeUp {
		t.Errorf("commands %q (made up: %v), want the directory's", got, madeUp)
	}
	if c.Users != nil {
		t.Errorf("users %v in a directory without any", c.Users)
	}
}

// TestSlurmDBD: slurmctld and slurmdbd both track wckeys, or neither does.
func TestSlurmDBD(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "TrackWCKey=yes": true, "AccountingStorageEnforce=qos,wckeys": true, "AccountingStorageEnforce=all": true, "TrackWCKey=no": false,
	} {
		c, err := openText(t, "ClusterName=c\nAccountingStorageType=accounting_storage/slurmdbd\nNodeName=n1\nPartitionName=p Nodes=n1\n"+text+"\n")
		if err != nil {
			t.Fatal(err)
		}
		adapted := mustAdapt(t, c, testEnvironment())
		if got := strings.Contains(string(adapted.Files["slurmdbd.conf"]), "TrackWCKey=yes\n"); got != want {
			t.Errorf("%q: TrackWCKey %v, want %v", text, got, want)
		}
	}
}

func TestWriteIsPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := mustAdapt(t, mustOpen(t, "testdata/micro"), testEnvironment()).Write(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "slurmdbd.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, which slurmdbd refuses", info.Mode())
	}
}

// FuzzOpen: Open and Adapt do not panic on any configuration that parses, and Open reads the
// adapted configuration.
func FuzzOpen(f *testing.F) {
	for _, site := range sites {
		data, err := os.ReadFile(filepath.Join("testdata", site, "slurm.conf"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.ReplaceAll(string(data), "Include", "#"), "Name=gpu Count=2\n")
	}
	f.Add("ClusterName=c\nGresTypes=gpu\nNodeName=n1 Gres=gpu:x:2(S:0),gpu Boards=9 CPUs=0\nPartitionName=p Nodes=ALL\n", "NodeName=n1 Name=gpu File=/dev/n[0-1]\n")
	f.Fuzz(func(t *testing.T, slurm, gres string) {
		c, err := openMemory(map[string]string{"/slurm.conf": slurm, "/gres.conf": gres, "/users": "joe:1000:users:100\n"})
		if err != nil {
			return
		}
		ad, err := Adapt(c, slurmspec.R2205, testEnvironment())
		if err != nil {
			return
		}
		files := make(map[string]string)
		for name, data := range ad.Files {
			files["/"+name] = string(data)
		}
		again, err := openMemory(files)
		if err != nil {
			t.Fatalf("%v\n%s", err, ad.Files["slurm.conf"])
		}
		if len(again.Nodes) != len(c.Nodes) || len(again.Partitions) != len(c.Partitions) {
			t.Errorf("%d nodes and %d partitions became %d and %d", len(c.Nodes), len(c.Partitions), len(again.Nodes), len(again.Partitions))
		}
	})
}

// openMemory opens a cluster from files in memory, given by path.
func openMemory(files map[string]string) (*Cluster, error) {
	return load("/slurm.conf", memory(files))
}
