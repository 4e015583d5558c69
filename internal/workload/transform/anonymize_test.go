package transform

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/example"
	"rmreplay/internal/workload/generate"
)

var key = []byte("sixteen bytes or more")

func anonymized(t *testing.T, key []byte, w *workload.Workload) *workload.Workload {
	t.Helper()
	a, err := NewAnonymizer(key, w, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := apply(t, w, Environment{}, a.Step())
	return out
}

// revealing returns a workload with a name in every field that can hold one.
func revealing() *workload.Workload {
	j := job("secretid", 0, 2, time.Hour, 2*time.Hour)
	j.Name, j.User, j.Group, j.Account, j.WCKey = "secretname", "secretuser", "secretgroup", "secretaccount", "secretkey"
	j.Reservation, j.Comment, j.MCSLabel, j.BurstBuffer = "secretresv", "/home/secretpath", "secretlabel", "#DW stage_in=/secretpath"
	j.NodeList, j.Exclude = "secretnode[1-2]", "secretnode07.secretsite.ch"
	j.Dependency = "singleton"
	later := job("secretlater", 1, 1, time.Hour, time.Hour)
	later.Dependency = "afterok:secretid"
	odd := job("secretodd", 2, 1, time.Hour, time.Hour)
	odd.Dependency = "whatever:secretid"
	array := job("secretarray", 3, 1, time.Hour, time.Hour)
	array.Array, array.Recorded = "1-2", &hpc.Recorded{TaskNodes: map[int]string{1: "secretnode1", 2: "othersecret[5-6]"}}
	running := preset("secretpreset", "secretnode[3-4]", 2, time.Hour, 2*time.Hour)
	return &workload.Workload{
		Epoch: epoch, Start: epoch, Source: "secretsource", Header: []string{"Installation: secretsite"},
		Unusable: []workload.Unusable{{Text: "secretline"}}, Transforms: []string{"--filter 'user == \"secretuser\"'"},
		Users:      []hpc.User{{Name: "secretuser", UID: 54321, Group: "secretgroup", GID: 65432}},
		Usage:      []hpc.Usage{{Account: "secretaccount", User: "secretuser", Raw: 1}},
		NodeEvents: []hpc.NodeEvent{{At: epoch, Nodes: "secretnode9", State: "down", Reason: "secretreason"}},
		Reservations: []hpc.ReservationEvent{{At: epoch, Action: "create", Reservation: hpc.Reservation{
			Name: "secretresv", Start: epoch, Duration: time.Hour, Nodes: "ALL", Users: []string{"-secretuser"}, Accounts: []string{"secretaccount"},
		}}},
		Jobs: workload.JobsOf(running, j, later, odd, array),
	}
}

func TestAnonymizeLeavesNothing(t *testing.T) {
	text := trace(t, anonymized(t, key, revealing()))
	for _, word := range []string{"secret", "54321", "65432", "/home", "run-", "ada", "physics"} {
		if strings.Contains(text, word) {
			t.Errorf("%q is still there:\n%s", word, text)
		}
	}
}

// Numbers of users and groups do not show the order of the old numbers. With the same key they are the same.
func TestAnonymizeNumbersAtRandom(t *testing.T) {
	var users []hpc.User
	for i := range uint32(30) {
		users = append(users, hpc.User{Name: fmt.Sprint("u", i), UID: 500 + i, Group: fmt.Sprint("g", i/2), GID: 900 + i/2})
	}
	numbered := func() (uids, gids []uint32) {
		a, err := NewAnonymizer(key, small(), nil, users)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range users {
			uids, gids = append(uids, a.uids[u.UID]), append(gids, a.gids[u.GID])
		}
		return uids, gids
	}
	uids, gids := numbered()
	for kind, list := range map[string][]uint32{"UIDs": uids, "GIDs": gids} {
		if slices.IsSorted(list) {
			t.Errorf("the new %s have the order of the old ones: %v", kind, list)
		}
	}
	if again, groups := numbered(); !slices.Equal(again, uids) || !slices.Equal(groups, gids) {
		t.Errorf("%v and %v, want %v and %v", again, groups, uids, gids)
	}
	slices.Sort(uids)
	slices.Sort(gids)
	if n := len(slices.Compact(uids)); n != 30 || uids[0] != firstAnonymousID || uids[29] != firstAnonymousID+29 {
		t.Errorf("UIDs %v", uids)
	}
	if n := len(slices.Compact(gids)); n != 15 || gids[0] != firstAnonymousID {
		t.Errorf("GIDs %v", gids)
	}
}

// TestRemaining: if partitions, features and licenses stay, the anonymizer lists those that contain a name.
func TestRemaining(t *testing.T) {
	w := small()
	job := w.Jobs.At(0)
	job.User, job.Account, job.Constraint, job.Licenses, job.Partition = "quinn", "batch", "quinnfeature&ib", "ansys_quinn:2", "batch"
	w.Jobs.Set(0, job)
	a, err := NewAnonymizer(key, w, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := apply(t, w, Environment{}, a.Step())
	want := []Found{{Word: "ansys_quinn", Name: "quinn", Kind: kindUser}, {Word: "quinnfeature", Name: "quinn", Kind: kindUser}}
	if got := out.Jobs.At(0); got.Constraint != job.Constraint || got.Licenses != job.Licenses {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(want, a.Remaining()); diff != "" || !slices.Equal(a.Shared(), []string{"batch"}) {
		t.Errorf("%s\n%q", diff, a.Shared())
	}
}

// TestAnonymizeKeepsStructure: equal names stay equal, and different names stay different.
func TestAnonymizeKeepsStructure(t *testing.T) {
	w := anonymized(t, key, revealing())
	j, later := w.Jobs.At(1), w.Jobs.At(2)
	if j.User != w.Users[0].Name || j.Account != w.Usage[0].Account || j.Reservation != w.Reservations[0].Name || w.Reservations[0].Users[0] != "-"+j.User {
		t.Errorf("%+v\n%+v", j, w.Reservations)
	}
	if later.Dependency != "afterok:"+j.ID || j.Dependency != "singleton" || w.Jobs.At(3).Dependency != "" {
		t.Errorf("%q, %q, %q", later.Dependency, j.Dependency, w.Jobs.At(3).Dependency)
	}
	if n, err := hostlist.Count(w.Jobs.At(0).Recorded.Nodes); n != 2 || err != nil || !strings.HasSuffix(w.Jobs.At(0).Recorded.Nodes, "[3-4]") {
		t.Errorf("nodes %s", w.Jobs.At(0).Recorded.Nodes)
	}
	if j.TimeLimit != 2*time.Hour || j.MinNodes != 2 || j.Partition != "batch" || len(workload.Validate(w, workload.Cluster{})) != 0 {
		t.Errorf("%+v\n%v", j, workload.Validate(w, workload.Cluster{}))
	}
	if again := anonymized(t, key, revealing()); trace(t, again) != trace(t, w) {
		t.Error("the same key gave other names")
	}
	if other := anonymized(t, []byte("another key of enough bytes"), revealing()); other.Jobs.At(1).User == j.User || other.Jobs.At(1).NodeList == j.NodeList {
		t.Error("another key gave the same names")
	}
}

// TestAnonymizeKeepsArrays: the tasks that a window took out of an array still count towards the array's limit. A "_"
// in another ID means nothing, and what follows it is not a task's number.
func TestAnonymizeKeepsArrays(t *testing.T) {
	task, rest := preset("7_1", "n1", 1, time.Hour, 2*time.Hour), job("7", 0, 1, time.Hour, 2*time.Hour)
	rest.Array = "2-3%1"
	after, other := job("8", 1, 1, time.Hour, time.Hour), job("8_4", 2, 1, time.Hour, time.Hour)
	after.Dependency = "afterok:7_1:7_2"
	w := anonymized(t, key, &workload.Workload{Epoch: epoch, Start: epoch, Jobs: workload.JobsOf(task, rest, after, other)})
	var ids []string
	for _, job := range w.Jobs.All() {
		ids = append(ids, job.ID)
	}
	if want := []string{"j2_1", "j2", "j3", "j4"}; !slices.Equal(ids, want) {
		t.Errorf("IDs %q, want %q", ids, want)
	}
	if got, want := w.Jobs.At(2).Dependency, "afterok:j2_1,afterok:j2_2"; got != want {
		t.Errorf("dependency %s, want %s", got, want)
	}
}

func TestAnonymizeRefuses(t *testing.T) {
	if _, err := NewAnonymizer([]byte("short"), small(), nil, nil); err == nil {
		t.Error("a short key was accepted")
	}
	w := small()
	w.Actions = []hpc.Action{{At: epoch, Shell: "mail ada"}}
	a, err := NewAnonymizer(key, w, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Apply(w, Environment{}, a.Step()); err == nil {
		t.Error("free text was accepted")
	}
}

// TestNodeOrder: the anonymous names sort like the originals and keep their numbers.
func TestNodeOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`(a|b|rack[0-3]-n|gpu|x[0-9]c)[0-9]{3}(\.site)?`), 2, 30, rapid.ID).Draw(rt, "names")
		a, err := NewAnonymizer(key, &workload.Workload{}, names, nil)
		if err != nil {
			rt.Fatal(err)
		}
		mapped := map[string]string{}
		for _, name := range names {
			if mapped[name], err = a.nodes(name); err != nil {
				rt.Fatal(err)
			}
		}
		digits := regexp.MustCompile(`[0-9]+`)
		for _, x := range names {
			for _, y := range names {
				px, nx := splitDigits(x)
				py, ny := splitDigits(y)
				px2, nx2 := splitDigits(mapped[x])
				_, ny2 := splitDigits(mapped[y])
				if x != y && mapped[x] == mapped[y] {
					rt.Errorf("%s and %s are both %s", x, y, mapped[x])
				}
				if slices.Equal(px, py) && slices.Compare(nx, ny) != slices.Compare(nx2, ny2) {
					rt.Errorf("%s, %s became %s, %s: another order", x, y, mapped[x], mapped[y])
				}
				if less := slices.Compare(px, py); less < 0 && strings.Join(px, "\x00") < strings.Join(py, "\x00") && mapped[x] > mapped[y] {
					rt.Errorf("%s, %s became %s, %s: another order", x, y, mapped[x], mapped[y])
				}
				if got := digits.FindAllString(mapped[x], -1); len(got)-1 != len(nx) || len(px2) == 0 {
					rt.Errorf("%s became %s", x, mapped[x])
				}
			}
		}
	})
}

// TestAnonymizeSites anonymizes whole sites and searches the output for every name.
func TestAnonymizeSites(t *testing.T) {
	day, files := example.Example(1)
	daint, err := generate.Daint(generate.DaintOptions{GPULoad: generate.DefaultGPULoad, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, site := range []struct {
		w     *workload.Workload
		files map[string]string
		nodes string
	}{{day, files, "c[01-36],g[01-14]"}, {daint.Workload, daint.Files, "nid[00001-07139]"}} {
		dir := t.TempDir()
		for name, text := range site.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		users, err := workload.ParseUsers(strings.NewReader(site.files["users"]), "users")
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := hostlist.Expand(site.nodes)
		if err != nil {
			t.Fatal(err)
		}
		a, err := NewAnonymizer(key, site.w, nodes, users)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := apply(t, site.w, Environment{}, a.Step())
		text := trace(t, out)
		anonymous, err := a.Cluster(dir, []byte(site.files["accounts.sacctmgr"]), users)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range sortedKeys(anonymous) {
			text += anonymous[name]
		}
		searchNames(t, text, site.w, users, nodes)
		if left := a.Inventory("site", []byte(text)); len(left) > 0 || len(a.Remaining()) > 0 {
			t.Errorf("still there: %v, %v", left, a.Remaining())
		}
	}
}

// searchNames searches for every original name as a word, independently of the anonymizer.
func searchNames(t *testing.T, text string, w *workload.Workload, users []hpc.User, nodes []string) {
	t.Helper()
	words := map[string]bool{}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !isNameRune(r) }) {
		words[word] = true
	}
	names := slices.Clone(nodes)
	for _, u := range users {
		names = append(names, u.Name, u.Group)
	}
	for _, j := range w.Jobs.All() {
		names = append(names, j.ID, j.Name, j.User, j.Account, j.Reservation)
	}
	for _, ev := range w.Reservations {
		names = append(names, ev.Name)
	}
	for _, name := range names {
		if words[name] && name != "" {
			// New job IDs may equal old ones.
			if !regexp.MustCompile(`^j[0-9]+$`).MatchString(name) {
				t.Errorf("%q is still there", name)
			}
		}
	}
	if strings.Contains(text, "nid0") {
		t.Error("a host list has original names")
	}
}

func TestConfigLines(t *testing.T) {
	a, err := NewAnonymizer(key, &workload.Workload{}, []string{"n1", "n2", "n3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	node := a.patterns["n\x00"]
	account, user := a.word(kindAccount, "physics"), a.word(kindUser, "ada")
	for line, want := range map[string]string{
		`NodeName=n[1-3] NodeAddr=10.0.0.[1-3] CPUs=4`:    "NodeName=" + node + "[1-3] CPUs=4",
		`NodeName=DEFAULT CPUs=8`:                         "NodeName=DEFAULT CPUs=8",
		`PartitionName=p Nodes=ALL AllowAccounts=physics`: "PartitionName=p Nodes=ALL AllowAccounts=" + account,
		`SlurmctldHost=ctl(10.0.0.1)`:                     "SlurmctldHost=controller",
		`Epilog=/home/ada/epilog.sh`:                      "Epilog=/etc/slurm/epilog",
		`AccountingStoragePass=hunter2`:                   "",
		`SchedulerParameters="bf_continue,bf_window=60"`:  `SchedulerParameters="bf_continue,bf_window=60"`,
		``: "",
	} {
		got, err := a.configLine(line)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"NodeName=n[9", "NodeName=m1", "what"} {
		if got, err := a.configLine(line); err == nil {
			t.Errorf("%s: %q", line, got)
		}
	}
	for line, want := range map[string]string{
		"add account name=physics parent=root description='the lab'":       "add account name=" + account + " parent=root",
		"add user name=ada account=physics,physics defaultaccount=physics": "add user name=" + user + " account=" + account + "," + account + " defaultaccount=" + account,
		"modify user where name=ada set qos+=high":                         "modify user where name=" + user + " set qos+=high",
		"add qos name=high priority=10":                                    "add qos name=high priority=10",
		"# comment about ada":                                              "",
	} {
		got, err := a.accounts(line + "\n")
		if err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
	if _, err := a.accounts("Account - 'physics':Description='x'\n"); err == nil {
		t.Error("a dump was accepted")
	}
}

// TestStrictWords: names are replaced where a name can stand, also within words, and Slurm's own words stay.
func TestStrictWords(t *testing.T) {
	w := small()
	job := w.Jobs.At(0)
	job.User, job.Account, job.Name, job.Partition, job.Made = "quinn", "gb", "suspend", "test", "account=gb:2+users:1,time_limit=max"
	w.Jobs.Set(0, job)
	other := w.Jobs.At(1)
	other.Name, other.User, other.WCKey = "test", "max", "gang"
	w.Jobs.Set(1, other)
	w.Completion = &workload.Completion{Fields: []workload.MadeField{{Field: "account", Rule: "gb:2,users:1"}, {Field: "time_limit", Rule: "max"}}}
	a, err := NewAnonymizerWith(key, w, []string{"n1"}, nil, Anonymity{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	gb, test, feature := a.word(kindAccount, "gb"), a.replacement(kindWord, "test"), a.replacement(kindWord, "quinnfeature")
	for line, want := range map[string]string{
		"PreemptMode=SUSPEND,GANG":                    "PreemptMode=SUSPEND,GANG",
		"SchedulerParameters=bf_max_job_test=5,test":  "SchedulerParameters=bf_max_job_test=5,test",
		"PartitionName=test State=UP QOS=normal":      "PartitionName=" + test + " State=UP QOS=normal",
		"NodeName=DEFAULT Feature=quinnfeature,ib":    "NodeName=DEFAULT Feature=" + feature + ",ib",
		"PartitionName=p TRESBillingWeights=Mem=25GB": "PartitionName=p TRESBillingWeights=Mem=25GB",
	} {
		if got, err := a.configLine(line); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
	for line, want := range map[string]string{
		"add user name=max acct=gb maxwall=1-0":                   "add user name=" + a.word(kindUser, "max") + " acct=" + gb + " maxwall=1-0",
		"add qos test preempt=test preemptmode=suspend":           "add qos " + test + " preempt=" + test + " preemptmode=suspend",
		"modify user quinn set grptres=cpu=2,gres/quinnfeature=1": "modify user " + a.word(kindUser, "quinn") + " set grptres=cpu=2,gres/" + feature + "=1",
	} {
		if got, err := a.accounts(line); err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
	if got := strings.Join(a.Shared(), " "); got != "GANG SUSPEND suspend test" {
		t.Errorf("words of Slurm: %s", got)
	}
	out, _ := apply(t, w, Environment{}, a.Step())
	made := "account=" + gb + ":2+" + a.word(kindAccount, "users") + ":1,time_limit=max"
	if job := out.Jobs.At(0); job.Made != made || job.Partition != test || out.Completion.Fields[0].Rule != gb+":2,"+a.word(kindAccount, "users")+":1" {
		t.Errorf("%+v\n%+v", job, out.Completion)
	}
	if left := a.Inventory("workload.jsonl", []byte(trace(t, out))); len(left) > 0 {
		t.Errorf("%+v", left)
	}
}

func FuzzConfigLine(f *testing.F) {
	for _, s := range []string{"NodeName=n[1-3] CPUs=4", `A="b c" D='e`, "=", "Nodes=ALL", "Include x"} {
		f.Add(s)
	}
	a, err := NewAnonymizer(key, &workload.Workload{}, []string{"n1"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if out, err := a.configLine(line); err == nil && strings.Contains(strings.ToLower(out), "pass=") && strings.HasPrefix(strings.ToLower(out), "accountingstoragepass=") {
			t.Errorf("%q became %q", line, out)
		}
		_, _ = a.accounts(line)
	})
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{"nodes > 1", `user in ["a"]`, "[1][nodes]", "name matches '('"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		step, err := Filter(text)
		if err != nil {
			return
		}
		if out, _, err := Apply(small(), Environment{}, step); err == nil && out.Jobs.Len() == 0 {
			t.Errorf("%q leaves nothing", text)
		}
	})
}

func TestSplitDigits(t *testing.T) {
	for name, want := range map[string]string{
		"nid00012": "[nid ] [00012]", "a1b2.ch": "[a b .ch] [1 2]", "7": "[ ] [7]", "login": "[login] []", "": "[] []",
	} {
		texts, numbers := splitDigits(name)
		if got := fmt.Sprint(texts, " ", numbers); got != want && fmt.Sprintf("%v %v", texts, numbers) != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	if diff := cmp.Diff(26, len(letters(make([]byte, 26)))); diff != "" {
		t.Error(diff)
	}
}
