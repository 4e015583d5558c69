package conf

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testEnvironment is a complete environment that does not depend on this machine. It has no
// PluginDir, so Adapt does not look for plugins.
func testEnvironment() Environment {
	return Environment{
		StateDir: "/shm/run", LogDir: "/run/logs", DaemonUser: "me", Hostname: "workstation",
		ControlAddress: netip.MustParseAddr("127.3.0.1"), ControlPort: 7001, DBPort: 7002, NodePort: 7003,
		NodeAddress: LoopbackAddresses(1),
	}
}

func mustOpen(t *testing.T, dir string) *Cluster {
	t.Helper()
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustAdapt(t *testing.T, c *Cluster, env Environment) *Adapted {
	t.Helper()
	ad, err := Adapt(c, slurmspec.R2205, env)
	if err != nil {
		t.Fatal(err)
	}
	return ad
}

// openText opens a cluster that has only a slurm.conf.
func openText(t *testing.T, text string) (*Cluster, error) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "slurm.conf"), text)
	return Open(dir)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

var sites = []string{"micro", "gpu", "full", "old"}

func TestAdaptGolden(t *testing.T) {
	for _, site := range sites {
		t.Run(site, func(t *testing.T) {
			ad := mustAdapt(t, mustOpen(t, filepath.Join("testdata", site)), testEnvironment())
			var got bytes.Buffer
			names := make([]string, 0, len(ad.Files))
			for name := range ad.Files {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				got.WriteString("-- " + name + " --\n")
				got.Write(ad.Files[name])
			}
			got.WriteString("-- changes --\n")
			if err := ad.Render(&got); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", site+".golden"), got.Bytes())
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		writeFile(t, path, string(got))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got; regenerate with -update):\n%s", path, diff)
	}
}

// TestAdaptTwice: an adapted configuration needs no further adaptation and has the same nodes and
// partitions.
func TestAdaptTwice(t *testing.T) {
	for _, site := range sites {
		t.Run(site, func(t *testing.T) {
			c := mustOpen(t, filepath.Join("testdata", site))
			ad := mustAdapt(t, c, testEnvironment())
			dir := t.TempDir()
			if err := ad.Write(dir); err != nil {
				t.Fatal(err)
			}
			again := mustOpen(t, dir)
			if diff := cmp.Diff(hardwareOf(c), hardwareOf(again)); diff != "" {
				t.Errorf("nodes changed (-site +adapted):\n%s", diff)
			}
			for i, p := range again.Partitions {
				if diff := cmp.Diff(c.Partitions[i].Nodes, p.Nodes); diff != "" {
					t.Errorf("partition %s (-site +adapted):\n%s", p.Name, diff)
				}
			}
			twice := mustAdapt(t, again, testEnvironment())
			for _, change := range twice.Changes {
				if change.File != "" && change.Key[0] != 'N' { // Adapt drops and sets the NodeAddr of NodeName lines
					t.Errorf("adapting again changes %+v", change)
				}
			}
			if !bytes.Equal(sorted(ad.Files["slurm.conf"]), sorted(twice.Files["slurm.conf"])) {
				t.Errorf("adapting again gives another slurm.conf:\n%s", cmp.Diff(string(sorted(ad.Files["slurm.conf"])), string(sorted(twice.Files["slurm.conf"]))))
			}
		})
	}
}

// sorted sorts the lines of a file, since the second adaptation keeps the lines that the first
// one set.
func sorted(data []byte) []byte {
	list := strings.SplitAfter(string(data), "\n")
	list = slices.DeleteFunc(list, func(l string) bool { return strings.HasPrefix(l, "#") || l == "\n" })
	slices.Sort(list)
	return []byte(strings.Join(list, ""))
}

func hardwareOf(c *Cluster) []string {
	var list []string
	for _, n := range c.Nodes {
		n.State = ""
		for i := range n.GRES {
			n.GRES[i].File = false // Adapt drops device files
		}
		data, _ := json.Marshal(n)
		list = append(list, string(data))
	}
	return list
}

// TestEveryKeyIsClassified compares the table with the list of 22.05's keys.
func TestEveryKeyIsClassified(t *testing.T) {
	data, err := os.ReadFile("testdata/keys-22.05.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for key := range strings.FieldsSeq(string(data)) {
		known[key] = true
		r := ruleOf(key, slurmspec.R2205)
		if r == nil {
			t.Errorf("%s has no rule", key)
		} else if r.key != key {
			t.Errorf("%s is spelled %s", key, r.key)
		}
	}
	seen := make(map[string]bool)
	for _, r := range rules {
		if seen[r.key] {
			t.Errorf("%s has two rules", r.key)
		}
		seen[r.key] = true
		if !known[r.key] && r.known.Includes(slurmspec.R2205) {
			t.Errorf("%s is not a key of 22.05", r.key)
		}
		if known[r.key] && !r.known.Includes(slurmspec.R2205) {
			t.Errorf("%s is a key of 22.05, and its lifetime says otherwise", r.key)
		}
		if !r.known.Includes(slurmspec.R2205) && (r.known.Since.IsZero() || !r.known.Since.Since(slurmspec.R2205)) {
			if r.action != unclassified {
				t.Errorf("%s is classified, but no release from 22.05 on knows it", r.key)
			}
			continue
		}
		switch r.action {
		case keep:
			if (r.reason != "") != (r.value != nil) {
				t.Errorf("%s is kept, and has a reason without a value, or the reverse", r.key)
			}
		case change:
			if r.reason == "" || r.value == nil && r.attributes == nil {
				t.Errorf("%s is changed without a reason or a value", r.key)
			}
		case drop:
			if r.reason == "" || r.value != nil {
				t.Errorf("%s is dropped without a reason, or has a value", r.key)
			}
		default:
			t.Errorf("%s is not classified", r.key)
		}
	}
}

// TestKeysByRelease: the release decides which rule a key has. A key that the release does not have
// is dropped, and the reason says so.
func TestKeysByRelease(t *testing.T) {
	for key := range history.Keys {
		if rulesByKey[strings.ToLower(key)] == nil {
			t.Errorf("%s has a lifetime and no rule", key)
		}
	}
	for _, test := range []struct {
		key     string
		release slurmspec.Release
		action  action
		reason  string
	}{
		{"maxnodecount", slurmspec.R2205, keep, ""},
		{"maxnodecount", slurmspec.R2108, drop, "21.08 does not have it (new in 22.05)"},
		{"SlurmctldPlugstack", slurmspec.R2205, drop, "a plugin that needs the site"},
		{"SlurmctldPlugstack", slurmspec.Release{Major: 23, Minor: 2, Patch: 7}, drop, "23.02 does not have it (removed in 23.02): there are no such plugins any more"},
		{"TLSType", slurmspec.R2205, drop, "22.05 does not have it (new in 24.05)"},
		{"TLSType", slurmspec.R2405, drop, "no connection leaves this machine, so none is encrypted"},
	} {
		r := ruleOf(test.key, test.release)
		if r.action != test.action || r.reason != test.reason {
			t.Errorf("%s in %s: action %d, reason %q; want %d, %q", test.key, test.release, r.action, r.reason, test.action, test.reason)
		}
	}
	if r := ruleOf("NoSuchKey", slurmspec.R2205); r != nil {
		t.Errorf("NoSuchKey has the rule %+v", r)
	}
	for _, release := range []slurmspec.Release{{}, slurmspec.R2108, {Major: 26, Minor: 11}} {
		_, err := Adapt(mustOpen(t, "testdata/micro"), release, testEnvironment())
		if err == nil || !strings.Contains(err.Error(), "want one of 22.05, 23.02, 23.11, 24.05, 24.11, 25.05, 25.11, 26.05") {
			t.Errorf("adapting to %v: %v, want an error with the known releases", release, err)
		}
	}
}

// TestFullSiteHasEveryKey: the configuration for the test with the real daemon leaves out only
// keys that exclude another key or that 22.05 refuses.
func TestFullSiteHasEveryKey(t *testing.T) {
	elsewhere := map[string]string{
		"AccountingStorageLoc": "old", "AccountingStoreJobComment": "old", "BackupAddr": "old",
		"BackupController": "old", "ControlAddr": "old", "ControlMachine": "old", "CryptoType": "old",
		"FastSchedule": "old", "FrontendName": "old", "SallocDefaultCommand": "old", "SchedulerAuth": "old",
		"DefMemPerNode": "excludes DefMemPerCPU", "MaxMemPerCPU": "excludes MaxMemPerNode",
		"PropagateResourceLimits": "excludes PropagateResourceLimitsExcept",
	}
	c := mustOpen(t, "testdata/full")
	for _, r := range rules {
		if _, has := c.statement(r.key); !has && elsewhere[r.key] == "" && r.known.Includes(slurmspec.R2205) {
			t.Errorf("testdata/full has no %s", r.key)
		}
	}
}

func TestSchedulingKeysAreKept(t *testing.T) {
	for _, prefix := range []string{"SelectType", "Priority", "Scheduler", "Preempt", "Topology", "DefMem", "DefCPU", "MaxMem", "MaxJob"} {
		for _, r := range rules {
			if strings.HasPrefix(r.key, prefix) && r.known.Includes(slurmspec.R2205) && r.action != keep &&
				!strings.HasPrefix(r.key, "PrioritySiteFactor") && r.key != "SchedulerAuth" && r.key != "PriorityWeightTRES" &&
				r.key != "PriorityUsageResetPeriod" { // kept except for NOW: see TestAdaptValues
				t.Errorf("%s is not kept", r.key)
			}
		}
	}
}

func TestAdaptValues(t *testing.T) {
	const base = "ClusterName=c\nNodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL\n"
	for _, test := range []struct {
		name, text string
		want       map[string]string // "" for a key that must be absent
	}{
		{"contain becomes alloc once", "PrologFlags=Alloc,Contain,X11,Serial", map[string]string{"PrologFlags": "Alloc,Serial"}},
		{"number level", "SlurmctldDebug=7", map[string]string{"SlurmctldDebug": "info"}},
		{"low level", "SlurmctldDebug=error", map[string]string{"SlurmctldDebug": "error"}},
		{"quiet level", "SlurmctldDebug=quiet", map[string]string{"SlurmctldDebug": "error"}},
		{"fatal level", "SlurmctldDebug=1", map[string]string{"SlurmctldDebug": "error"}},
		{"reset at once", "PriorityUsageResetPeriod=now", map[string]string{"PriorityUsageResetPeriod": "NONE"}},
		{"reset from time to time", "PriorityUsageResetPeriod=Weekly", map[string]string{"PriorityUsageResetPeriod": "Weekly"}},
		{"sched log", "SlurmSchedLogLevel=1\nSlurmSchedLogFile=/x", map[string]string{"SlurmSchedLogFile": "", "SlurmSchedLogLevel": ""}},
		{"mysql becomes slurmdbd", "AccountingStorageType=accounting_storage/mysql\nAccountingStorageEnforce=limits",
			map[string]string{"AccountingStorageType": "accounting_storage/slurmdbd", "AccountingStorageEnforce": "limits", "AccountingStoragePort": "7002"}},
		{"no accounting, nothing to enforce", "AccountingStorageEnforce=limits", map[string]string{"AccountingStorageEnforce": "", "AccountingStorageHost": "", "AccountingStorageType": ""}},
		{"file accounting is none", "AccountingStorageType=accounting_storage/filetxt", map[string]string{"AccountingStorageType": "accounting_storage/none"}},
		{"comment flag", "AccountingStoreJobComment=yes", map[string]string{"AccountingStoreFlags": "job_comment", "AccountingStoreJobComment": ""}},
		{"bound tasks", "TaskPlugin=task/cgroup", map[string]string{"TaskPlugin": "task/affinity"}},
		{"unbound tasks", "", map[string]string{"TaskPlugin": "task/none"}},
		{"own submit plugins", "JobSubmitPlugins=lua,job_submit/throttle,partition", map[string]string{"JobSubmitPlugins": "job_submit/throttle,partition"}},
		{"resources need slurmdbd", "AccountingStorageTRES=gres/gpu\nPriorityWeightTRES=CPU=1,GRES/gpu=2,Mem=.5",
			map[string]string{"AccountingStorageTRES": "", "PriorityWeightTRES": "CPU=1,Mem=.5"}},
		{"resources with slurmdbd", "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageTRES=gres/gpu\nPriorityWeightTRES=CPU=1,GRES/gpu=2",
			map[string]string{"AccountingStorageTRES": "gres/gpu", "PriorityWeightTRES": "CPU=1,GRES/gpu=2"}},
		{"scripts", "PrologSlurmctld=/x", map[string]string{"PrologSlurmctld": ""}},
		{"options", "SlurmctldParameters=cloud_dns,Enable_RPC_queue,node_reg_mem_percent=80,power_save_interval=1",
			map[string]string{"SlurmctldParameters": "Enable_RPC_queue,node_reg_mem_percent=80"}},
		{"the last of a key", "kIllWait=1\nKILLWAIT=2", map[string]string{"KillWait": "2"}},
		{"no tree of fair-shares", "PriorityFlags=NO_FAIR_TREE,SMALL_RELATIVE_TO_TIME", map[string]string{"PriorityFlags": "SMALL_RELATIVE_TO_TIME"}},
		{"no tree of fair-shares with slurmdbd", "AccountingStorageType=accounting_storage/slurmdbd\nPriorityFlags=NO_FAIR_TREE", map[string]string{"PriorityFlags": "NO_FAIR_TREE"}},
		{"blanks and comment signs", `PriorityParameters="a b\#c"`, map[string]string{"PriorityParameters": "a b#c"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := openText(t, base+test.text+"\n")
			if err != nil {
				t.Fatal(err)
			}
			ad := mustAdapt(t, c, testEnvironment())
			dir := t.TempDir()
			if err := ad.Write(dir); err != nil {
				t.Fatal(err)
			}
			got := mustOpen(t, dir)
			for key, want := range test.want {
				value, set := got.Get(key)
				if value != want || set != (want != "") {
					t.Errorf("%s=%q (set: %v), want %q", key, value, set, want)
				}
			}
		})
	}
}

func TestAdaptKeepsScriptsWhenAsked(t *testing.T) {
	env := testEnvironment()
	env.KeepScripts = true
	ad := mustAdapt(t, mustOpen(t, "testdata/full"), env)
	for _, want := range []string{"PrologSlurmctld=/etc/slurm/prolog.ctld\n", "EpilogSlurmctld=/etc/slurm/epilog.ctld\n"} {
		if !bytes.Contains(ad.Files["slurm.conf"], []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
}

func TestAdaptStates(t *testing.T) {
	ad := mustAdapt(t, mustOpen(t, "testdata/old"), testEnvironment())
	got := make(map[string]string)
	for _, n := range ad.Nodes {
		got[n.Name] = n.State
	}
	want := map[string]string{"n1": "", "n2": "", "n3": "", "n4": "DOWN", "f1": "FUTURE", "f2": "FUTURE", "x1": "", "x2": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// TestDownComesUp: at a site with ReturnToService=2, a node that is down comes up.
func TestDownComesUp(t *testing.T) {
	c, err := openText(t, "ClusterName=c\nReturnToService=2\nNodeName=n1 State=DOWN\nPartitionName=p Nodes=n1\n")
	if err != nil {
		t.Fatal(err)
	}
	if ad := mustAdapt(t, c, testEnvironment()); ad.Nodes[0].State != "" {
		t.Errorf("state %q, want none", ad.Nodes[0].State)
	}
}

func TestAdaptErrors(t *testing.T) {
	plugins := t.TempDir()
	writeFile(t, filepath.Join(plugins, "select_cons_tres.so"), "")
	for _, test := range []struct {
		name, text, want string
		edit             func(*Environment)
	}{
		{"plugin not installed", "SelectType=select/cray_aries", "SelectType=select/cray_aries: Slurm's plugin select_cray_aries.so is not in", func(e *Environment) { e.PluginDir = plugins }},
		{"not a plugin", "SelectType=cons_tres", "SelectType=cons_tres: not a plugin name (want select/NAME)", nil},
		{"no user", "", "DaemonUser is not set", func(e *Environment) { e.DaemonUser = "" }},
		{"not loopback", "", "ControlAddress 10.0.0.1: not a loopback address", func(e *Environment) { e.ControlAddress = netip.MustParseAddr("10.0.0.1") }},
		{"no port", "", "ControlPort and NodePort must be set", func(e *Environment) { e.NodePort = 0 }},
		{"no database port", "AccountingStorageType=accounting_storage/slurmdbd", "DBPort is not set", func(e *Environment) { e.DBPort = 0 }},
		{"addresses run out", "", "node n1: no loopback address is left for it", func(e *Environment) {
			e.NodeAddress = func(int) netip.Addr { return netip.Addr{} }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := openText(t, "ClusterName=c\nNodeName=n1\nPartitionName=p Nodes=n1\n"+test.text+"\n")
			if err != nil {
				t.Fatal(err)
			}
			env := testEnvironment()
			if test.edit != nil {
				test.edit(&env)
			}
			_, err = Adapt(c, slurmspec.R2205, env)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestSecretsAreHidden(t *testing.T) {
	ad := mustAdapt(t, mustOpen(t, "testdata/full"), testEnvironment())
	var table bytes.Buffer
	if err := ad.Render(&table); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(ad)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{table.Bytes(), data, ad.Files["slurm.conf"]} {
		if bytes.Contains(text, []byte("hunter2")) {
			t.Errorf("the password is in %s", text)
		}
	}
	if !bytes.Contains(data, []byte(`{"key":"JobCompPass","from":"(hidden)","to":"","reason":`)) {
		t.Errorf("JobCompPass is not reported: %s", data)
	}
}

func TestLoopbackAddresses(t *testing.T) {
	address := LoopbackAddresses(254)
	for _, test := range []struct {
		node int
		want string
	}{
		{0, "127.254.0.1"}, {249, "127.254.0.250"}, {250, "127.254.1.1"}, {63999, "127.254.255.250"},
		{64000, "127.255.0.1"}, {127999, "127.255.255.250"}, {128000, "invalid IP"}, {-1, "invalid IP"},
	} {
		if got := address(test.node).String(); got != test.want {
			t.Errorf("node %d: %s, want %s", test.node, got, test.want)
		}
	}
}

// TestUnplayed: Unplayed returns warnings of Adapt without an adaptation.
func TestUnplayed(t *testing.T) {
	c, err := openText(t, "ClusterName=c\nSlurmctldHost=h\nSelectType=select/cons_tres\nSuspendProgram=/off\nRebootProgram=/boot\n"+
		"BurstBufferType=burst_buffer/lua\nPowerPlugin=power/none\nNodeName=n1\nNodeName=n2 State=CLOUD\nPartitionName=p Nodes=ALL\n")
	if err != nil {
		t.Fatal(err)
	}
	list := c.Unplayed()
	if len(list) != 4 { // PowerPlugin=power/none changes nothing
		t.Errorf("%q: %d things that are not played, want 4", list, len(list))
	}
	all := strings.Join(mustAdapt(t, c, testEnvironment()).Warnings, "\n") + "\n"
	for _, text := range list {
		if !strings.Contains(all, text+"\n") {
			t.Errorf("Adapt does not warn of %q: %s", text, all)
		}
	}
}
