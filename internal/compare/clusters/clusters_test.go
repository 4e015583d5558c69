package clusters

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// site are the files of a cluster.
func site() map[string]string {
	return map[string]string{
		"slurm.conf": `# a site
ClusterName=vale
SlurmctldHost=a
SlurmctldHost=b
PreemptType=preempt/none PreemptMode=OFF
SchedulerParameters=bf_interval=30,defer
Include nodes.conf
PartitionName=batch Nodes=c[1-4] MaxTime=1-0 Default=YES
`,
		"nodes.conf":         "NodeName=c[1-4] CPUs=4 \\\n RealMemory=1000\n",
		"gres.conf":          "NodeName=c1 Name=gpu File=/dev/nvidia0\nNodeName=c1 Name=gpu File=/dev/nvidia1\n",
		"accounts.sacctmgr":  "add qos low priority=1\nadd qos high priority=10 preempt=low maxwall=1-0\nadd cluster vale\nadd account physics\nadd user ada account=physics fairshare=3\n",
		"users":              "ada:1001:physics:2001\n# comment\n",
		"other/slurm.conf":   "PriorityType=priority/basic\n",
		"sacctmgr.unrelated": "x\n",
	}
}

// TestBetween changes each kind of thing in the files of a cluster, one at a time.
func TestBetween(t *testing.T) {
	if list := Between(site(), site()); len(list) > 0 {
		t.Fatalf("the same files differ: %v", list)
	}
	for _, c := range []struct {
		file, old, text string
		want            []Setting
	}{
		{"slurm.conf", "# a site", "# THE site\nsLURMCTLDpORT=1", []Setting{{"sLURMCTLDpORT", "", "1"}}},
		{"slurm.conf", "PreemptType=preempt/none PreemptMode=OFF", "preempttype=preempt/qos PreemptMode=REQUEUE\nPreemptExemptTime=10",
			[]Setting{{"PreemptType", "preempt/none", "preempt/qos"}, {"PreemptMode", "OFF", "REQUEUE"}, {"PreemptExemptTime", "", "10"}}},
		{"slurm.conf", "bf_interval=30,defer", "bf_interval=60",
			[]Setting{{"SchedulerParameters.bf_interval", "30", "60"}, {"SchedulerParameters.defer", "true", ""}}},
		{"slurm.conf", "SlurmctldHost=b\n", "", []Setting{{"SlurmctldHost", "a, b", "a"}}},
		{"slurm.conf", "MaxTime=1-0 ", "PriorityTier=2 ", []Setting{{"partition batch MaxTime", "1-0", ""}, {"partition batch PriorityTier", "", "2"}}},
		{"slurm.conf", "PartitionName=batch", "PartitionName=long", []Setting{
			{"partition batch", "Nodes=c[1-4] MaxTime=1-0 Default=YES", ""}, {"partition long", "", "Nodes=c[1-4] MaxTime=1-0 Default=YES"}}},
		{"slurm.conf", "Include nodes.conf", "Include /etc/slurm/nodes.conf", nil},
		{"nodes.conf", "RealMemory=1000", "RealMemory=2000", []Setting{{"node c[1-4] RealMemory", "1000", "2000"}}},
		{"gres.conf", "nvidia1", "nvidia2", []Setting{{"gres.conf: node c1 File", "/dev/nvidia0, /dev/nvidia1", "/dev/nvidia0, /dev/nvidia2"}}},
		{"accounts.sacctmgr", "preempt=low", "preempt=low priority=20", []Setting{{"qos high priority", "10", "20"}}},
		{"accounts.sacctmgr", " preempt=low maxwall=1-0", "\nmodify qos where name=high set maxwall=2-0 preempt+=normal",
			[]Setting{{"qos high preempt", "low", "normal"}, {"qos high maxwall", "1-0", "2-0"}}},
		{"accounts.sacctmgr", "add qos high priority=10 preempt=low maxwall=1-0\n", "",
			[]Setting{{"qos high", "priority=10 preempt=low maxwall=1-0", ""}}},
		{"accounts.sacctmgr", "fairshare=3", "fairshare=4\nadd account chemistry\nadd user ada account=chemistry",
			[]Setting{{"user ada in physics fairshare", "3", "4"}, {"account chemistry", "", "declared"}, {"user ada in chemistry", "", "declared"}}},
		{"users", "1001", "1002", []Setting{{"users: ada:1001:physics:2001", "there", ""}, {"users: ada:1002:physics:2001", "", "there"}}},
		{"other/slurm.conf", "basic", "multifactor", []Setting{{"other/slurm.conf: PriorityType", "priority/basic", "priority/multifactor"}}},
	} {
		changed := site()
		changed[c.file] = strings.Replace(changed[c.file], c.old, c.text, 1)
		if changed[c.file] == site()[c.file] {
			t.Fatalf("%s has no %q", c.file, c.old)
		}
		if diff := cmp.Diff(c.want, Between(site(), changed)); diff != "" {
			t.Errorf("%s: %q: %s", c.file, c.text, diff)
		}
	}
	if list := Between(nil, site()); list != nil {
		t.Errorf("unknown files differ: %v", list)
	}
}

// TestInherited: a partition has the values of the line DEFAULT above it, unless it sets its own.
func TestInherited(t *testing.T) {
	const top, above = "PartitionName=DEFAULT MaxTime=1-0 State=UP\nPartitionName=a Nodes=c1\n", "PartitionName=default MaxTime=2-0\n"
	of := func(text string) map[string]string { return map[string]string{"slurm.conf": top + text} }
	for _, c := range []struct {
		baseline, set string
		want          []Setting
	}{
		{"PartitionName=b Nodes=c1", "PartitionName=b Nodes=c1 MaxTime=6:00:00",
			[]Setting{{"partition b MaxTime", "1-0, of PartitionName=DEFAULT", "6:00:00"}}},
		{above + "PartitionName=b MaxTime=6:00:00 State=DOWN", above + "PartitionName=b", []Setting{
			{"partition b MaxTime", "6:00:00", "2-0, of PartitionName=DEFAULT"}, {"partition b State", "DOWN", "UP, of PartitionName=DEFAULT"}}},
		{"PartitionName=b PriorityTier=2", "PartitionName=b MaxTime=1-0", []Setting{{"partition b PriorityTier", "2", ""}}},
	} {
		if diff := cmp.Diff(c.want, Between(of(c.baseline), of(c.set))); diff != "" {
			t.Errorf("%q, %q: %s", c.baseline, c.set, diff)
		}
	}
}

// TestDump takes the settings from a dump of sacctmgr as from commands.
func TestDump(t *testing.T) {
	const dump = "Cluster - 'vale':Fairshare=1:QOS='normal'\nParent - 'root'\nUser - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1\n" +
		"Account - 'physics':Description='physics':Organization='uni':Fairshare=%d\n"
	side := func(share int) map[string]string {
		return map[string]string{"slurm.conf": "ClusterName=vale\n", "accounts.sacctmgr": fmt.Sprintf(dump, share)}
	}
	if diff := cmp.Diff([]Setting{{"account physics fairshare", "3", "5"}}, Between(side(3), side(5))); diff != "" {
		t.Error(diff)
	}
}

// TestRender bounds the lines and the names.
func TestRender(t *testing.T) {
	var list []Setting
	for i := range maxLines + 2 {
		list = append(list, Setting{fmt.Sprint("Key", i), "a", ""})
	}
	var b bytes.Buffer
	Render(&b, list, "A", "B")
	if text := b.String(); strings.Count(text, "\n") != maxLines+3 || !strings.Contains(text, "  Key0: unset instead of a\n") ||
		!strings.HasSuffix(text, "  and 2 more (compare --json has all)\n") {
		t.Error(text)
	}
	if names := Names(list); names != "Key0, Key1, Key2 and 19 more" {
		t.Error(names)
	}
	if b.Reset(); len(Names(nil)) > 0 {
		t.Error("nothing has names")
	}
	if Render(&b, nil, "A", "B"); b.Len() > 0 {
		t.Errorf("nothing differs: %s", b.String())
	}
}

// A run with scaled nodes has the files of the site. A size that is not known does not differ.
func TestPlayed(t *testing.T) {
	got := Played(Size{50, 1824}, Size{60, 2192})
	want := []Setting{{"nodes of the machine as it was played", "50", "60"}, {"processors of the machine as it was played", "1824", "2192"}}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Played(Size{50, 1824}, Size{50, 1900}); len(got) != 1 || got[0].Set != "1900" {
		t.Errorf("%q", got)
	}
	for _, other := range []Size{{}, {50, 1824}} {
		if got := Played(Size{50, 1824}, other); got != nil {
			t.Errorf("%v: %q", other, got)
		}
	}
}

// A node has the processors that its line or the lines DEFAULT above it give.
func TestProcessors(t *testing.T) {
	got := Processors(map[string]string{
		"slurm.conf": "NodeName=n0\nNodeName=DEFAULT Boards=2 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=2\nNodeName=a[1-2]\n" +
			"NodeName=b Procs=4\nNodeName=c CPUs=many\nInclude more.conf\nPartitionName=p Nodes=ALL\n",
		"more.conf": "NodeName=DEFAULT CPUs=48\nNodeName=d\nNodeName=e CPUs=6\n",
		"gres.conf": "NodeName=x Name=gpu Count=2\n",
	})
	if want := map[string]int{"n0": 1, "a1": 32, "a2": 32, "b": 4, "d": 48, "e": 6}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	got = Processors(map[string]string{"slurm.conf": "NodeName=n[1-2] Sockets=2 CoresPerSocket=12\n"})
	if want := map[string]int{"n1": 24, "n2": 24}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
