package fairshare

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// tiny are the accounts of a small cluster, as sacctmgr lists them.
func tiny(t *testing.T) *Accounts {
	t.Helper()
	lists := map[string]string{
		"assoc": "1|root||||||\n2|Physics||root||||\n3|physics|ann|||normal|cpu=100,gres/gpu=5|\n4|physics|ben||gpu|high||\n5|physics|ben||||billing=7|01:00:00\n",
		"user":  "ann|physics\nben|physics\n",
		"qos":   "normal|1|| \nhigh|2|cpu=10|\n",
	}
	known, err := ReadAccounts("tiny", func(args ...string) (string, error) {
		return strings.ReplaceAll(lists[args[0]], "| \n", "|\n"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// An account's own usage is its given usage minus the usage of its users and of preset jobs.
func TestLedger(t *testing.T) {
	known := tiny(t)
	l := &ledger{Accounts: known, accrued: make([]float64, len(known.list)), own: make([]float64, len(known.list))}
	l.accrue(hpc.Accrual{Usage: hpc.Usage{User: "ann", Account: "physics", Raw: 10}}, "batch")
	l.accrue(hpc.Accrual{Usage: hpc.Usage{User: "ben", Raw: 20}, Partition: "gpu"}, "batch") // QOS high counts twice
	l.accrue(hpc.Accrual{Usage: hpc.Usage{User: "nobody", Raw: 5}}, "batch")
	l.balance([]hpc.Usage{
		{Account: "physics", Raw: 1000}, {Account: "physics", User: "ann", Raw: 110}, {Account: "physics", User: "ben",
			Raw: 30}, {Account: "chemistry", Raw: 1},
	})
	byID := map[uint32]float64{}
	for i, a := range known.list {
		byID[a.id] = l.own[i]
	}
	for id, want := range map[uint32]float64{1: 0, 2: 1000 - 110 - 40, 3: 100, 4: 0, 5: 0} {
		if got := byID[id]; math.Abs(got-want) > 1e-9 {
			t.Errorf("association %d starts with %v, want %v", id, got, want)
		}
	}
	if fmt.Sprint(l.unknown) != "[chemistry]" || fmt.Sprint(l.exceeded) != "[physics/ben]" {
		t.Errorf("unknown %v, exceeded %v", l.unknown, l.exceeded)
	}
}

// CheckLimits warns of limits on usage that the workload does not give, if limits are enforced.
func TestCheckLimits(t *testing.T) {
	known := tiny(t)
	for _, tt := range []struct {
		usage Usage
		want  string
	}{
		{Usage{}, ""},
		{Usage{LimitsEnforced: true},
			"physics/ann GrpTRESMins=cpu=100,gres/gpu=5; physics/ben GrpTRESMins=billing=7 GrpWall=01:00:00; QOS high GrpTRESMins=cpu=10"},
		{Usage{LimitsEnforced: true, BillsProcessors: true, Given: []hpc.Usage{{}}},
			"physics/ann GrpTRESMins=gres/gpu=5; physics/ben GrpWall=01:00:00; QOS high GrpTRESMins=cpu=10"},
	} {
		got := ""
		tt.usage.CheckLimits(known, func(code, text string, affects bool) { got = text })
		if (got == "") != (tt.want == "") || !strings.HasSuffix(got, tt.want) {
			t.Errorf("%+v: warned of %q, want %q", tt.usage, got, tt.want)
		}
	}
}

// Files returns two files, or nil if the workload gives no usage.
func TestFiles(t *testing.T) {
	codec, err := rpc.NewCodec(slurmspec.R2205)
	if err != nil {
		t.Fatal(err)
	}
	warn := func(code, text string, _ bool) { t.Errorf("warned of %s: %s", code, text) }
	if files := (Usage{}).Files(tiny(t), codec, hpc.Unix(100), warn); files != nil {
		t.Errorf("files without usage: %v", files)
	}
	files := Usage{Given: []hpc.Usage{{Account: "physics", User: "ann", Raw: 5}}, At: hpc.Unix(50)}.Files(tiny(t), codec,
		hpc.Unix(100), warn)
	if f := files["assoc_usage"]; len(f) < 10 || f[0] != 38 || f[9] != 100 || !strings.Contains(string(f), "5=5.000000") {
		t.Errorf("assoc_usage is %q", f)
	}
	if f := files["priority_last_decay_ran"]; len(f) != 16 || f[15] != 50 {
		t.Errorf("priority_last_decay_ran is %q", f)
	}
}

// Output of sacctmgr in an unexpected form is an error.
func TestReadAccountsRefuses(t *testing.T) {
	for list, want := range map[string]string{"1|root\n": "want format=ID", "x|root||||||\n": "not a number"} {
		_, err := ReadAccounts("tiny", func(...string) (string, error) { return list, nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
}

// TestDeclaredAccounts: the declared accounts equal the accounts that slurmdbd lists after the
// commands.
func TestDeclaredAccounts(t *testing.T) {
	set := associations.Read([]byte(`add cluster tiny
add qos high usagefactor=2 grptresmins=cpu=10
add account late
add account Physics
add user ann account=physics grptresmins=cpu=100,gres/gpu=5 defaultqos=normal
add user ben account=physics partition=gpu defaultqos=high
add user ben account=physics grptresmins=billing=7 grpwall=60
add account moved
modify account late set parent=moved
`), "a", "tiny", "gres/gpu")
	if len(set.Mistakes) > 0 {
		t.Fatal(set.Mistakes)
	}
	declared, listed := DeclaredAccounts(set), tiny(t)
	for _, u := range []Usage{{LimitsEnforced: true}, {LimitsEnforced: true, Given: []hpc.Usage{{Account: "physics",
		Raw: 1}}}} {
		var got, want []string
		u.CheckLimits(declared, func(_, text string, _ bool) { got = append(got, text) })
		u.CheckLimits(listed, func(_, text string, _ bool) { want = append(want, text) })
		if strings.Join(got, "") != strings.Join(want, "") {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	given := Usage{
		Given: []hpc.Usage{{Account: "physics", Raw: 1000}, {Account: "physics", User: "ben", Raw: 30}, {Account: "moved",
			Raw: 9}, {Account: "late", Raw: 4}},
		Accrued: []hpc.Accrual{{Usage: hpc.Usage{User: "ben", Raw: 10}, Partition: "gpu"}},
	}
	owns := map[string]float64{}
	for _, own := range given.Own(declared, func(code, text string, _ bool) { t.Errorf("%s: %s", code, text) }) {
		owns[own.Account+"/"+own.User+"/"+own.Partition] = own.Raw
	}
	for name, want := range map[string]float64{"physics//": 970, "physics/ben/": 10, "moved//": 5, "late//": 4} {
		if owns[name] != want {
			t.Errorf("%s starts with %v, want %v", name, owns[name], want)
		}
	}
}
