package pbs

import (
	"maps"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

func parse(t *testing.T, logs ...string) *workload.Workload {
	t.Helper()
	r := New("logs", workload.ReadOptions{})
	for _, log := range logs {
		if err := r.Read(strings.NewReader(log), "20240301"); err != nil {
			t.Fatal(err)
		}
	}
	w, _, err := r.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The records of a job in two daily files, as Torque writes them.
const (
	torqueDay1 = `03/01/2024 08:00:00;Q;41.head.site;queue=batch
03/01/2024 08:10:00;S;41.head.site;user=ann group=phys jobname=big run queue=batch ctime=1709280000 qtime=1709280000 etime=1709280001 start=1709280600 exec_host=n2/0+n2/1+n1/0-1 Resource_List.nodes=2:ppn=2:fast Resource_List.walltime=01:00:00
03/01/2024 08:11:00;L;license;floating license hour:3
`
	torqueDay2 = `03/02/2024 00:10:00;E;41.head.site;user=ann group=phys account=p1 jobname=big run queue=batch ctime=1709280000 qtime=1709280000 etime=1709280001 start=1709280600 owner=ann@login exec_host=n2/0+n2/1+n1/0-1 Resource_List.nodect=2 Resource_List.nodes=2:ppn=2:fast Resource_List.mem=4gb Resource_List.walltime=01:00:00 session=77 end=1709284200 Exit_status=271 resources_used.walltime=01:00:00
`
)

func TestTorque(t *testing.T) {
	for name, w := range map[string]*workload.Workload{
		"in order": parse(t, torqueDay1, torqueDay2), "the end alone": parse(t, torqueDay2), "one file": parse(t, torqueDay1+torqueDay2),
	} {
		j := w.Jobs.At(0)
		if w.Jobs.Len() != 1 || j.ID != "41" || j.Name != "big run" || j.User != "ann" || j.Group != "phys" || j.Account != "p1" || j.Partition != "batch" {
			t.Errorf("%s: %+v", name, j)
		}
		if j.MinNodes != 2 || j.Tasks != 4 || j.TasksPerNode != 2 || j.MemPerNode != 2048 || j.Constraint != "fast" || j.TimeLimit != time.Hour {
			t.Errorf("%s: request %+v", name, j.Request)
		}
		r := j.Recorded
		if r.State != hpc.TimedOut || j.RunTime != hpc.Unlimited || r.Nodes != "n[2,1]" || r.Processors != 4 || r.Start.Sub(j.Submit) != 10*time.Minute {
			t.Errorf("%s: recorded %+v", name, r)
		}
	}
	if n := parse(t, torqueDay1+torqueDay2).Rules[finished.NoteOtherRecord]; n != 1 {
		t.Errorf("%d other records", n)
	}
}

// proEnd returns the end of a job as PBS Professional writes it.
func proEnd(id, more string) string {
	return "03/01/2024 09:00:00;E;" + id + ".pbs;user=bob group=chem project=_pbs_project_default jobname=\"a b\" queue=workq ctime=1709280000 qtime=1709280000 etime=1709280000 start=1709280060 " + more + " session=1 end=1709280120 run_count=1\n"
}

func TestProfessional(t *testing.T) {
	for text, check := range map[string]func(j *hpc.Job) bool{
		"exec_host=a/0*4+b/0*4 exec_vnode=(a:ncpus=4)+(b:ncpus=4) Resource_List.ncpus=8 Resource_List.ngpus=2 Resource_List.nodect=2 Resource_List.place=scatter Resource_List.select=2:ncpus=4:ngpus=1 Exit_status=0": func(j *hpc.Job) bool {
			return j.Tasks == 8 && j.MinNodes == 2 && j.MaxNodes == 2 && j.GPUs == "2" && j.Name == "a b" && j.Account == "" && j.RunTime == time.Minute && j.Recorded.Nodes == "a,b"
		},
		"exec_host=a/0*8 Resource_List.place=free Resource_List.select=4:ncpus=2:mem=1gb Exit_status=3": func(j *hpc.Job) bool { // chunks share a node
			return j.Tasks == 8 && j.MinNodes == 1 && j.MemPerNode == 4096 && j.ExitCode == 3 && j.Recorded.State == hpc.Failed
		},
		"exec_host=a/0*2 Resource_List.select=ncpus=2 Exit_status=-29": func(j *hpc.Job) bool {
			return j.Tasks == 2 && j.Recorded.State == hpc.TimedOut
		},
		"exec_host=a/0*2 Resource_List.select=1:ncpus=2 Exit_status=265": func(j *hpc.Job) bool {
			return j.ExitCode == 137 && j.Recorded.State == hpc.Failed
		},
	} {
		w := parse(t, proEnd("7", text))
		j, want := w.Jobs.At(0), map[string]int{}
		if j.Recorded.State == hpc.TimedOut { // the limit is not known
			want[finished.NoteExitsForOther] = 1
		}
		if !check(j) || !maps.Equal(w.Rules, want) {
			t.Errorf("%s:\n%+v\n%+v %v", text, j, j.Recorded, w.Rules)
		}
	}
	if j := parse(t, proEnd("7", "exec_host=a/0*2 Resource_List.select=1:ncpus=2 Exit_status=0")).Jobs.At(0); j.Recorded.Nodes != "a" {
		t.Errorf("%+v", j.Recorded)
	}
}

// TestSharedNodes: Torque's nodes are virtual. If several were on one host, the job asks for as
// many nodes as it had hosts. If each was on its own host, or if the hosts are not known, the job
// keeps its request.
func TestSharedNodes(t *testing.T) {
	ask := " Resource_List.nodect=4 Resource_List.nodes=4:ppn=2 Exit_status=0"
	for hosts, want := range map[string]hpc.Request{
		"exec_host=a/0-3+b/0-3":             {Tasks: 8, MinNodes: 2, MaxNodes: 2},
		"exec_host=a/0-7":                   {Tasks: 8, MinNodes: 1, MaxNodes: 1},
		"exec_host=a/0-1+b/0-1+c/0-1+d/0-1": {Tasks: 8, MinNodes: 4, MaxNodes: 4, TasksPerNode: 2},
		"":                                  {Tasks: 8, MinNodes: 4, TasksPerNode: 2},
	} {
		end := proEnd("7", hosts+ask)
		w := parse(t, strings.Replace(end, ";E;", ";S;", 1)+end)
		got, shared := w.Jobs.At(0).Request, 0
		if want.TasksPerNode == 0 {
			shared = 1
		}
		if got.Tasks != want.Tasks || got.MinNodes != want.MinNodes || got.MaxNodes != want.MaxNodes ||
			got.TasksPerNode != want.TasksPerNode || w.Rules[NoteNodesShared] != shared {
			t.Errorf("%s: %+v, %v", hosts, got, w.Rules)
		}
	}
}

// TestVirtualMemory: a limit of virtual memory is not a request for memory. A note counts such
// jobs.
func TestVirtualMemory(t *testing.T) {
	for ask, n := range map[string]int{"vmem=8gb": 1, "pvmem=2gb": 1, "vmem=8gb Resource_List.mem=4gb": 0, "mem=4gb": 0} {
		w := parse(t, proEnd("7", "exec_host=a/0 Resource_List.nodes=1 Exit_status=0 Resource_List."+ask))
		if j := w.Jobs.At(0); (j.MemPerNode == 0) != (n == 1) || w.Rules[NoteVirtualMemory] != n {
			t.Errorf("%s: %+v, %v", ask, j.Request, w.Rules)
		}
	}
}

func TestArraysAndRuns(t *testing.T) {
	size := " exec_host=a/0 Resource_List.nodes=1:ppn=1 Exit_status=0"
	w := parse(t, proEnd("9[1]", size)+proEnd("9[2]", size)+proEnd("9[]", size))
	if j := w.Jobs.At(0); w.Jobs.Len() != 1 || j.ID != "9" || j.Array != "1-2" || w.Rules[NoteArrayParent] != 1 {
		t.Errorf("array: %d jobs, %+v, %v", w.Jobs.Len(), j, w.Rules)
	}
	rerun := strings.Replace(proEnd("5", size), ";E;", ";R;", 1)
	last := strings.NewReplacer("start=1709280060", "start=1709290000", "end=1709280120", "end=1709290007").Replace(proEnd("5", size))
	w = parse(t, rerun+last)
	if j := w.Jobs.At(0); w.Jobs.Len() != 1 || j.RunTime != 7*time.Second || len(j.Recorded.LostRuns) != 1 {
		t.Errorf("rerun: %d jobs, %+v, %v", w.Jobs.Len(), j, w.Rules)
	}
	ask := "user=u queue=q ctime=1709280000 Resource_List.nodes=1:ppn=3"
	w = parse(t, "03/01/2024 08:00:00;Q;1.s;"+ask+"\n03/01/2024 08:05:00;D;1.s;requestor=u@h\n"+
		"03/01/2024 08:00:00;Q;2.s;"+ask+"\n03/01/2024 08:01:00;S;3.s;"+ask+" start=1709280060 exec_host=a/0-2\n")
	deleted, running, queued := w.Jobs.At(0), w.Jobs.At(2), w.Jobs.At(1)
	if deleted.CancelAfter != 5*time.Minute || deleted.Recorded.State != hpc.Cancelled || queued.Recorded.State != hpc.Pending || running.Recorded.State != hpc.Running || running.Tasks != 3 {
		t.Errorf("%+v\n%+v\n%+v", deleted, queued, running)
	}
}

func TestDamaged(t *testing.T) {
	good := proEnd("1", "exec_host=a/0 Resource_List.nodes=1:ppn=1 Exit_status=0")
	for text, rule := range map[string]string{
		"hello\n":                              finished.RuleNoRecord,
		"03/01/2024 09:00:00;E;x.pbs;user=u\n": finished.RuleNoRecord,
		"99/01/2024 09:00:00;E;2.pbs;user=u\n": finished.RuleNoRecord,
		"03/01/2024 09:00:00;E;2.pbs;user=u ctime=x Exit_status=0\n":                                        finished.RuleBadValue,
		proEnd("2", "exec_host=a/0-99999999999 Resource_List.nodes=1"):                                      finished.RuleBadValue,
		proEnd("2", "Resource_List.nodes=2147483647:ppn=2147483647"):                                        finished.RuleNoSize,
		proEnd("2", "exec_host=a/0 Resource_List.nodes=1:ppn=1 Resource_List.walltime=1:2:3:4"):             finished.RuleBadValue,
		proEnd("1", "exec_host=a/0 Resource_List.nodes=1:ppn=1 Exit_status=0"):                              finished.RuleDuplicate,
		proEnd("2", "exec_host=a/0 Resource_List.nodes=1:ppn=1 Resource_List.mem="+strings.Repeat("9", 99)): finished.RuleBadValue,
	} {
		w := parse(t, good+text)
		if w.Rules[rule] == 0 || w.Jobs.Len() < 1 {
			t.Errorf("%.80q: %v", text, w.Rules)
		}
		if rule == finished.RuleNoRecord {
			r := New("x", workload.ReadOptions{Strict: true})
			if err := r.Read(strings.NewReader(good+text), "day"); err == nil || !strings.HasPrefix(err.Error(), "reading PBS accounting: day:2: ") {
				t.Errorf("%q, strict: %v", text, err)
			}
		}
	}
	two := New("x", workload.ReadOptions{})
	if err := two.Read(strings.NewReader(strings.ReplaceAll(good+good, ".pbs;", ".b;")+good), "x"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := two.Finish(); err == nil || !strings.Contains(err.Error(), "jobs of 2 clusters: b, pbs (want --cluster-name") {
		t.Errorf("two servers: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(torqueDay1 + torqueDay2)
	f.Add(proEnd("7[3]", "exec_host=a/0*4+b/0*4 Resource_List.select=2:ncpus=4:ngpus=1:mem=4gb+1:ncpus=2 Resource_List.place=scatter Exit_status=271"))
	f.Add("03/01/2024 08:00:00;Q;1.s;user=u Resource_List.nodes=h1+3:ppn=2:gpus=1#shared\n03/01/2024 08:00:01;D;1.s;\n03/01/2024 08:00:01;R;1.s;start=5\n")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Format.Read(strings.NewReader(text), "fuzz", workload.ReadOptions{})
		if err != nil {
			return
		}
		if w.Rows.Lost() != 0 {
			t.Errorf("rows %+v, rules %v", w.Rows, w.Rules)
		}
		for _, job := range w.Jobs.All() {
			if job.Submit <= 0 || job.ID == "" || job.RunTime < 0 || job.CancelAfter < 0 || job.TimeLimit < 0 || job.MemPerNode < 0 || job.MemPerCPU < 0 || workload.CPUs(&job.Request) < 1 {
				t.Errorf("job %+v", job)
			}
		}
	})
}

// TestOtherLogs reads records as other servers and schedulers write them.
func TestOtherLogs(t *testing.T) {
	end := func(text string) string { return "03/01/2024 09:00:00;E;7.s;user=u " + text + " Exit_status=0\n" }
	times := "ctime=1709280000 qtime=1709280001 etime=1709280001 start=1709280060 end=1709280120 "
	for text, check := range map[string]func(j *hpc.Job) bool{
		// PBS Professional on a Cray machine: exec_host is the host that starts the processing elements.
		times + "exec_host=login1/3 Resource_List.mppwidth=64 Resource_List.mppnppn=8 Resource_List.mppdepth=2 Resource_List.ncpus=1 Resource_List.select=1": func(j *hpc.Job) bool {
			return j.Tasks == 128 && j.MinNodes == 8 && j.TasksPerNode == 16 && j.Recorded.Nodes == "" && j.Recorded.Processors == 128
		},
		times + "exec_host=login1/3 Resource_List.mppwidth=3 Resource_List.ncpus=1": func(j *hpc.Job) bool { return j.Tasks == 3 && j.MinNodes == 0 },
		// The specification of the nodes is in nodect, which usually has only their number.
		times + "exec_host=a/0-27 Resource_List.nodect=1:ppn=24:gpu=4:mem=128:big": func(j *hpc.Job) bool {
			return j.Tasks == 24 && j.GPUs == "4" && j.Constraint == "big" && j.Begin == 0
		},
		// Cobalt writes no ctime, and times with decimals.
		"qtime=1709280000.75 start=1709280060.1 end=1709280120.9 exec_host=R00-M0 Resource_List.nodect=512": func(j *hpc.Job) bool {
			return j.MinNodes == 512 && j.RunTime == time.Minute && j.Recorded.Start.Sub(j.Submit) == time.Minute
		},
		strings.Replace(times, "etime=1709280001", "etime=1709280030", 1) + "exec_host=a/0 Resource_List.ncpus=1": func(j *hpc.Job) bool { return j.Begin == 30*time.Second },
	} {
		w := parse(t, end(text))
		if j := w.Jobs.At(0); !check(j) || w.Rules[finished.RuleBadValue] > 0 {
			t.Errorf("%s:\n%+v\n%+v %v", text, j, j.Recorded, w.Rules)
		}
	}
	w := parse(t, end(times+"exec_host=a/0 Resource_List.mppwidth=2147483647 Resource_List.mppdepth=2147483647"))
	if w.Jobs.Len() != 1 || w.Jobs.At(0).Tasks != 1 {
		t.Errorf("too many elements: %+v", w.Jobs.At(0))
	}
}

// TestUnevenChunks checks that jobs with chunks of different sizes are counted once each.
func TestUnevenChunks(t *testing.T) {
	for list, uneven := range map[string]int{
		"select=1:ncpus=16:mem=60gb+1:ncpus=4:mem=4gb": 1, "select=1:ncpus=4:ngpus=1+3:ncpus=4": 1, "nodes=1:ppn=16+2:ppn=4": 1,
		"select=2:ncpus=4:mem=4gb+1:ncpus=4:mem=4gb": 0, "select=3:ncpus=4": 0, "nodes=2:ppn=8": 0,
	} {
		w, err := Format.Read(strings.NewReader(proEnd("7", "exec_host=a/0*16+b/0*4 Resource_List."+list+" Resource_List.place=scatter Exit_status=0")), "x", workload.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if w.Rules[NoteChunks] != uneven {
			t.Errorf("%s: rules %v", list, w.Rules)
		}
	}
}
