package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/rm/slurm/associations"
)

const dumpHeader = "JobID|User|UID|Group|GID|Account|Partition|QOS|Submit|Start|End|State|ReqCPUS\n"

// dump writes a dump with a job of each "USER|UID|GROUP|GID|ACCOUNT|PARTITION|QOS".
func dump(t *testing.T, jobs ...string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(dumpHeader)
	for i, job := range jobs {
		b.WriteString(strings.Join([]string{string(rune('1' + i)), job, "2024-03-01T08:00:00|2024-03-01T08:00:00|2024-03-01T09:00:00|COMPLETED|1\n"}, "|"))
	}
	path := filepath.Join(t.TempDir(), "x.sacct")
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// written builds a workload with a cluster directory, and returns its files. The directory
// contains a slurm.conf if one is given.
func written(t *testing.T, source string, opts Options, slurmConf ...string) (r *Result, users, accounts string) {
	t.Helper()
	r, err := From(t.Context(), Sacct, source, opts)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, text := range slurmConf {
		if err := os.Mkdir(filepath.Join(dir, "cluster"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cluster", "slurm.conf"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Write(filepath.Join(dir, "x.jsonl"), filepath.Join(dir, "cluster")); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, "cluster", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return r, read("users"), read("accounts.sacctmgr")
}

// TestAccountsOfJobs checks that a cluster directory made from a dump alone has every user, account
// and QOS that the jobs name, in a form that sacctmgr accepts.
func TestAccountsOfJobs(t *testing.T) {
	r, users, accounts := written(t, dump(t,
		"ann|501|phys|51|Physics|batch|high",
		"bob|||||batch|",
		"ann|501|phys|51|bio|batch|Normal",
		"ann|501|phys|51|bio|batch|long run",
		"cy||chem||bio|batch|high",
		"d:e||chem||bio|batch|high",
	), Options{})
	wantUsers := "ann:501:phys:51\nbob:20001:users:20001\ncy:20002:chem:20002\n"
	if diff := cmp.Diff(wantUsers, users); diff != "" {
		t.Errorf("users (-want +got)\n%s", diff)
	}
	const qos = `QOS=high,"long run",normal`
	wantAccounts := `add qos name=high
add qos name="long run"
add account name=bio parent=root ` + qos + `
add account name=physics parent=root ` + qos + `
add account name=default parent=root ` + qos + `
add user name=ann account=bio ` + qos + `
add user name=ann account=physics ` + qos + `
add user name=bob account=default ` + qos + `
add user name=cy account=bio ` + qos + `
add user name=d:e account=bio ` + qos + `
`
	if diff := cmp.Diff(wantAccounts, accounts); diff != "" {
		t.Errorf("accounts (-want +got)\n%s", diff)
	}
	said := strings.Join(r.Missing, "\n")
	for _, want := range []string{
		"has the 2 accounts, 4 users and 3 QOS that the jobs name (also account default, which no job names), without limits", "the UIDs of 2 users are not known", "1 user whose name",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("missing %q: no %q", r.Missing, want)
		}
	}
	if set := associations.Read([]byte(accounts), "accounts.sacctmgr", "vale", "gres/gpu"); len(set.Mistakes) > 0 {
		t.Errorf("mistakes %v", set.Mistakes)
	}
}

// TestAccountsOfDump checks that a dump of sacctmgr keeps its accounts.
func TestAccountsOfDump(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounts.dump")
	if err := os.WriteFile(path, []byte("Cluster - 'x':Fairshare=1:QOS='normal'\nParent - 'root'\nAccount - 'bio':Description='b':Organization='o'\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	r, _, accounts := written(t, dump(t, "ann|501|phys|51|bio|batch|high"), Options{Files: Files{Accounts: path}})
	if !strings.Contains(accounts, "bio") || strings.Contains(accounts, "high") || strings.Contains(strings.Join(r.Missing, "\n"), "the jobs name") {
		t.Errorf("missing %q, accounts\n%s", r.Missing, accounts)
	}
}

// TestPartitionsOfJobs checks that Missing names the partitions' restrictions that refuse jobs, and
// that the commands create the partitions' QOS.
func TestPartitionsOfJobs(t *testing.T) {
	const slurmConf = "ClusterName=vale\nSlurmctldHost=x\nNodeName=n1 CPUs=4\nPartitionName=DEFAULT Nodes=n1\n" +
		"PartitionName=batch QOS=Part_Batch AllowQos=high,urgent\n" +
		"PartitionName=closed AllowGroups=chem,bio AllowAccounts=bio\n" +
		"PartitionName=denied DenyAccounts=physics\n"
	jobs := dump(t,
		"ann|501|phys|51|physics|batch|high",
		"ann|501|phys|51|physics|closed|high",
		"ann|501|phys|51|physics|denied|high",
		"bob|502|chem|52|bio|closed|high",
	)
	r, _, accounts := written(t, jobs, Options{}, slurmConf)
	said := strings.Join(r.Missing, "\n")
	for _, want := range []string{
		"partition closed has AllowGroups=chem,bio, which refuses 1 job of ann: in the file users give them one of these groups (name:uid:group:gid:GROUP)",
		"partition closed has AllowAccounts=bio, which refuses 1 job of ann: add account physics to AllowAccounts",
		"partition denied has DenyAccounts=physics, which refuses 1 job of ann: take account physics out",
		"has the 2 accounts, 2 users and 1 QOS that the jobs name (also QOS normal, part_batch, urgent, which no job names), without limits",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if strings.Contains(said, "bob") || !strings.Contains(accounts, "add qos name=part_batch\n") || !strings.Contains(accounts, "add qos name=urgent\n") {
		t.Errorf("missing\n%s\naccounts\n%s", said, accounts)
	}
	if r, _, _ = written(t, jobs, Options{}, "Nonsense"); !strings.Contains(strings.Join(r.Missing, "\n"), "are not checked: ") {
		t.Errorf("missing %q", r.Missing)
	}
}

// TestNothingToWrite: if the jobs name no user, Missing says that the cluster directory gets no
// accounts. Jobs of root alone need no commands, but get a file of accounts: without the file, a
// replay makes accounts by its own rules and is not valid.
func TestNothingToWrite(t *testing.T) {
	for who, want := range map[string]string{"||||||": "", "root|0|root|0|root||normal": "# Every database"} {
		r, err := From(t.Context(), Sacct, dump(t, who), Options{})
		if err != nil {
			t.Fatal(err)
		}
		cluster := filepath.Join(t.TempDir(), "cluster")
		_, err = r.Write(filepath.Join(t.TempDir(), "x.jsonl"), cluster)
		accounts, _ := os.ReadFile(filepath.Join(cluster, "accounts.sacctmgr"))
		said := strings.Contains(strings.Join(r.Missing, "\n"), "cluster gets no file accounts.sacctmgr: it would be empty")
		if err != nil || !strings.HasPrefix(string(accounts), want) || said != (want == "") {
			t.Errorf("%s: %v, %q; missing: %s", who, err, accounts, r.Missing)
		}
	}
}

// TestMissingSize: records do not say the size of the machine, and the result names what follows.
func TestMissingSize(t *testing.T) {
	r, _, _ := written(t, dump(t, "ann|501|phys|51|bio|open|high"), Options{})
	if said := strings.Join(r.Missing, "\n"); !strings.Contains(said, "the size of the machine is not known: no utilization") {
		t.Errorf("missing %q", r.Missing)
	}
}
