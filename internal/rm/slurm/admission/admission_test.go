package admission

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// The comparison with the stock Slurm is experiment.TestAdmission. These tests need no Slurm.

func site(t *testing.T, text string) *Site {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := conf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cluster, []hpc.User{{Name: "ada"}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const small = "ClusterName=c\nSlurmctldHost=h\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nEnforcePartLimits=ALL\n" +
	"NodeName=n[1-3] CPUs=4 Sockets=1 CoresPerSocket=4 Feature=a,b\nPartitionName=p Nodes=n[1-3] Default=YES MaxTime=60\n"

func TestGroups(t *testing.T) {
	w := &workload.Workload{}
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		w.Jobs.Append(&hpc.Job{ID: id, Request: hpc.Request{User: "ada", Tasks: 13}})
	}
	w.Jobs.Append(&hpc.Job{ID: "8", Request: hpc.Request{User: "ada", Tasks: 12, Dependency: "afterok:7"}})
	w.Jobs.Append(&hpc.Job{ID: "10", Request: hpc.Request{User: "ada", Tasks: 12, Dependency: "afterok:7:6"}})
	w.Jobs.Append(&hpc.Job{ID: "11", Request: hpc.Request{User: "ada", Tasks: 12, Dependency: "afterok:1:2:3:9:4"}})
	w.Jobs.Append(&hpc.Job{ID: "9", Request: hpc.Request{User: "ada", Tasks: 12}})
	texts := map[string]string{}
	f := site(t, small).Foresee(w, func(job string, why Finding) { texts[job] = why.Text })
	if f.Rejected != 10 || f.NeverStarts != 0 || len(f.Groups) != 2 {
		t.Fatalf("%+v", f)
	}
	g := f.Groups[0]
	if g.Count != 7 || !slices.Equal(g.Jobs, []string{"1", "2", "3", "4", "5"}) || g.Slurm != "ESLURM_TOO_MANY_REQUESTED_CPUS" || g.Rule != RuleCPUs {
		t.Errorf("%+v", g)
	}
	if g = f.Groups[1]; g.Rule != RuleDependency || g.Jobs[0] != "8" ||
		g.Text != "the jobs depend on rejected jobs: 7, 6, 1 and 3 more" {
		t.Errorf("%+v", g)
	}
	for job, want := range map[string]string{"8": "it depends on the rejected job 7", "10": "it depends on rejected jobs: 7, 6",
		"11": "it depends on rejected jobs: 1, 2, 3 and 1 more"} {
		if texts[job] != want {
			t.Errorf("job %s: %s, want %s", job, texts[job], want)
		}
	}
}

// TestPreset: a job that runs when the window begins is judged as an operator submits it, in the
// window's reservation: a partition's limits on nodes hold for the job. Its MaxTime and its restriction to
// reservations do not, and MaxTime holds for pending jobs.
func TestPreset(t *testing.T) {
	s := site(t, small+"PartitionName=q Nodes=n[1-3] MaxTime=UNLIMITED ReqResv=YES\nPartitionName=r Nodes=n[1-3] MaxNodes=1 MaxTime=30\n")
	preset := func(id, partition string) *hpc.Job {
		return &hpc.Job{ID: id, Submit: 10 * hpc.Second, Recorded: &hpc.Recorded{Start: 20 * hpc.Second, Nodes: "n1"},
			Request: hpc.Request{User: "ada", Tasks: 1, TimeLimit: 2 * time.Hour, Partition: partition}}
	}
	endless, wide, pending := preset("endless", "p"), preset("wide", "r"), preset("pending", "p")
	endless.TimeLimit, pending.Recorded, wide.Recorded.Nodes, wide.Tasks = hpc.Unlimited, nil, "n[1-2]", 2
	w := &workload.Workload{Start: 30 * hpc.Second, Jobs: workload.JobsOf(preset("long", ""), preset("either", "p,r"), endless,
		preset("reserved", "q"), wide, pending)}
	rejected := map[string]string{}
	f := s.Foresee(w, func(job string, why Finding) { rejected[job] = why.Slurm })
	if f.Rejected != 2 || f.NeverStarts != 0 || rejected["wide"] != "ESLURM_INVALID_NODE_COUNT" || rejected["pending"] != "ESLURM_INVALID_TIME_LIMIT" {
		t.Errorf("%v", rejected)
	}
}

// TestSelectByDefault: without SelectType, the default of the site's release counts, as in a replay. If
// the configuration does not tell the release, the default of the release that runs counts.
func TestSelectByDefault(t *testing.T) {
	const text = "ClusterName=c\nSlurmctldHost=h\nNodeName=n1 CPUs=4\nPartitionName=p Nodes=n1 Default=YES\n"
	for _, test := range []struct {
		site, runs slurmspec.Release
		linear     bool
	}{
		{slurmspec.R2302, slurmspec.R2605, true}, {slurmspec.R2311, slurmspec.R2205, false},
		{slurmspec.Release{}, slurmspec.R2302, true}, {slurmspec.Release{}, slurmspec.R2311, false},
	} {
		cluster := site(t, text).cluster
		cluster.SiteRelease = test.site
		s, err := New(cluster, nil, Options{Release: test.runs})
		if err != nil {
			t.Fatal(err)
		}
		if s.linear != test.linear || s.consTRES == test.linear {
			t.Errorf("site %v, run %v: select/linear %v, select/cons_tres %v", test.site, test.runs, s.linear, s.consTRES)
		}
	}
}

// TestLimitReasons: every reason for a limit of a TRES is a reason of Slurm's.
func TestLimitReasons(t *testing.T) {
	for tres := range tresNames {
		for _, parts := range [][2]string{
			{"QOSGrp", ""}, {"AssocGrp", ""}, {"QOSGrp", "Minutes"}, {"AssocGrp", "Minutes"}, {"QOSGrp", "RunMinutes"},
			{"AssocGrp", "RunMinutes"}, {"QOSMax", "PerJob"}, {"AssocMax", "PerJob"}, {"QOSMax", "PerUser"},
			{"Max", "PerAccount"}, {"QOSMin", ""}, {"AssocMax", "MinutesPerJob"},
		} {
			reason := limitReason(parts[0], tres, parts[1])
			if _, known := slurmspec.ReasonNamed(reason); !known {
				t.Errorf("%s of %v: %s is not a reason of Slurm's", tres, parts, reason)
			}
		}
	}
	for want, is := range map[string]string{
		"QOSGrpMemLimit": limitReason("QOSGrp", "mem", ""), "AssocGrpCPUMinutesLimit": limitReason("AssocGrp", "cpu", "Minutes"),
		"QOSMinCpuNotSatisfied": limitReason("QOSMin", "cpu", ""), "QOSMaxGRESPerUser": limitReason("QOSMax", "gres/gpu", "PerUser"),
		"AssocGrpUnknown": limitReason("AssocGrp", "ic/ofed", ""),
	} {
		if is != want {
			t.Errorf("the reason is %s, want %s", is, want)
		}
	}
}

// TestRulesOfReleases has requests whose answers were found in random comparisons with slurmctld
// (acceptance.TestRandomRequests).
func TestRulesOfReleases(t *testing.T) {
	for _, c := range []struct {
		name    string
		request hpc.Request
		want    map[slurmspec.Release]Verdict
	}{
		{"several tasks on a node and no number of tasks", hpc.Request{TasksPerNode: 2},
			map[slurmspec.Release]Verdict{slurmspec.R2205: "", slurmspec.R2605: NeverStarts}},
		{"with a number of tasks", hpc.Request{TasksPerNode: 2, Tasks: 2},
			map[slurmspec.Release]Verdict{slurmspec.R2205: "", slurmspec.R2605: ""}},
		{"more tasks on a node than CPUs, with --overcommit", hpc.Request{TasksPerNode: 5, Tasks: 10, Overcommit: true},
			map[slurmspec.Release]Verdict{slurmspec.R2205: Rejected, slurmspec.R2605: Rejected}},
		{"more CPUs on a node than its tasks have", hpc.Request{TasksPerNode: 1, Tasks: 2, MinCPUsPerNode: 2},
			map[slurmspec.Release]Verdict{slurmspec.R2205: Rejected, slurmspec.R2605: Rejected}},
	} {
		for release, want := range c.want {
			s := site(t, small)
			s.release = release
			c.request.User = "ada"
			var is Verdict
			if why := s.Judge(&hpc.Job{ID: "j", Request: c.request}, nil); why != nil {
				is = why.Verdict
			}
			if is != want {
				t.Errorf("%s, %s: %q, want %q", c.name, release, is, want)
			}
		}
	}
}

// A rejection for an unknown partition suggests the partition with a similar name.
func TestMisspeltPartition(t *testing.T) {
	s := site(t, small+"PartitionName=interactive Nodes=ALL\n")
	why := s.Judge(&hpc.Job{ID: "j", Request: hpc.Request{User: "ada", Partition: "intreactive"}}, nil)
	if why == nil || !strings.Contains(why.Text, "there is no partition intreactive (did you mean interactive?)") {
		t.Errorf("%+v", why)
	}
}

func TestMeets(t *testing.T) {
	n := &hpc.Node{Features: []string{"a", "b"}}
	for text, want := range map[string]bool{
		"a": true, "a&b": true, "a,b": true, "a&c": false, "a|c": true, "c|a": true, "(a|c)&b": true, "(a|c)&d": false, "[a|c]": true, "[c*2&d*1]": true,
		"(c|d)&(a|b)": false, "(a|d)&(c|b)": true,
	} {
		list, err := parseFeatures(text)
		if err != nil || meets(list, n) != want {
			t.Errorf("%s: %v, %v; want %v", text, !want, err, want)
		}
	}
	for _, text := range []string{"&", "a&&b", "(a", "a)", "[a", "[a]&[b]", "a*0", "((a))", "*2"} {
		if list, err := parseFeatures(text); err == nil {
			t.Errorf("%s: read as %+v", text, list)
		}
	}
}

// Judge does not panic on any request.
func FuzzJudge(f *testing.F) {
	f.Add("a&(b|c)", "gpu:a:2", "n[1-2]", "n3", "m:2", "1-3", 4, 2)
	f.Fuzz(func(t *testing.T, constraint, gres, list, exclude, licenses, array string, tasks, nodes int) {
		s := site(t, small)
		s.Judge(&hpc.Job{ID: "j", Request: hpc.Request{
			User: "ada", Constraint: constraint, GRES: gres, GPUs: gres, NodeList: list, Exclude: exclude, Licenses: licenses, Array: array, Tasks: tasks, MinNodes: nodes,
		}}, nil)
	})
}
