package coverage

import (
	"strings"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurmmodel"
	"rmreplay/internal/rm/slurmmodel/config"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// lines returns the keys of lines such as "SelectType=select/cons_tres".
func lines(text string) func(string) (string, bool) {
	keys := map[string]string{}
	for line := range strings.FieldsSeq(text) {
		key, v, _ := strings.Cut(line, "=")
		keys[key] = v
	}
	return func(key string) (string, bool) {
		v, ok := keys[key]
		return v, ok
	}
}

// TestLacksNamesWhatTheModelDoesNotHave adds one thing that the model does not have, and expects
// its name.
func TestLacksNamesWhatTheModelDoesNotHave(t *testing.T) {
	plain := func() (*slurmmodel.Config, *workload.Workload) {
		jobs := []*hpc.Job{{ID: "1"}, {ID: "2"}}
		return &slurmmodel.Config{
			Release: slurmspec.R2205, Get: lines("SelectType=select/cons_tres SelectTypeParameters=CR_Core_Memory"),
			Nodes: []hpc.Node{{Name: "n1"}}, Partitions: []config.Partition{{Name: "p", Nodes: []string{"n1"}, Get: lines("")}},
		}, &workload.Workload{Jobs: workload.JobsOf(jobs...)}
	}
	cfg, w := plain()
	if list := Lacks(cfg, w); len(list) > 0 {
		t.Errorf("of a plain cluster the model lacks %v", list)
	}
	site := func(text string) func(*slurmmodel.Config, *workload.Workload) {
		return func(c *slurmmodel.Config, _ *workload.Workload) { c.Get = lines(text) }
	}
	job := func(change func(*hpc.Job)) func(*slurmmodel.Config, *workload.Workload) {
		return func(_ *slurmmodel.Config, w *workload.Workload) {
			one := &hpc.Job{ID: "1"}
			change(one)
			w.Jobs = workload.JobsOf(one, &hpc.Job{ID: "2"})
		}
	}
	twoKinds := func(c *slurmmodel.Config) {
		c.Get, c.Nodes = lines("SelectType=select/linear"), []hpc.Node{{Name: "n1", CPUs: 4}, {Name: "n2", CPUs: 8}}
		c.Partitions[0].Nodes = []string{"n1", "n2"}
	}
	const cons = "SelectType=select/cons_tres "
	for what, change := range map[string]func(*slurmmodel.Config, *workload.Workload){
		"many messages":            site(cons + "SchedulerParameters=max_rpc_cnt=20"),
		"completing jobs":          site(cons + "CompleteWait=5 SchedulerParameters=reduce_completing_frag"),
		"suspended jobs":           site(cons + "PreemptType=preempt/qos PreemptMode=SUSPEND,GANG"),
		"jobs that are requeued":   site(cons + "PreemptType=preempt/qos PreemptMode=REQUEUE,WITHIN"),
		"nodes that are always on": site(cons + "SuspendProgram=/bin/true"),
		"whole nodes":              site("SelectType=select/linear SelectTypeParameters=CR_Memory"),
		"nodes for one user": func(c *slurmmodel.Config, w *workload.Workload) {
			c.Partitions[0].Get = lines("ExclusiveUser=YES State=DOWN MaxCPUsPerNode=2")
			job(func(j *hpc.Job) { j.Exclusive = "user" })(c, w)
		},
		"GPUs of a type": func(c *slurmmodel.Config, w *workload.Workload) {
			c.Nodes[0].GRES = []hpc.GRES{{Name: "gpu", Type: "a", Count: 2}}
			job(func(j *hpc.Job) { j.GRES, j.GPUsPerNode = "gpu:a:1", "a:1" })(c, w)
		},
		"GPUs with types and files": func(c *slurmmodel.Config, w *workload.Workload) {
			c.Nodes[0].GRES = []hpc.GRES{{Name: "gpu", Type: "a", Count: 2, File: true}}
			job(func(j *hpc.Job) { j.GRES = "gpu:1" })(c, w)
		},
		"features in brackets": job(func(j *hpc.Job) { j.Constraint = "c&[a|b]" }),
		"nodes of a cloud":     func(c *slurmmodel.Config, _ *workload.Workload) { c.Nodes[0].State = "CLOUD" },
	} {
		cfg, w := plain()
		change(cfg, w)
		if list := Lacks(cfg, w); len(list) > 0 {
			t.Errorf("%s: the model lacks %v", what, list)
		}
	}
	for want, change := range map[string]func(*slurmmodel.Config, *workload.Workload){
		"SelectType=select/cons_res (2 jobs)":    site("SelectType=select/cons_res"),
		"preemption with select/linear (2 jobs)": site("SelectType=select/linear PreemptType=preempt/qos PreemptMode=REQUEUE"),
		"ranges of nodes with select/linear on nodes with different numbers of CPUs (1 jobs)": func(
			c *slurmmodel.Config, w *workload.Workload,
		) {
			twoKinds(c)
			c.Release = slurmspec.R2411
			job(func(j *hpc.Job) { j.MinNodes, j.MaxNodes = 1, 2 })(c, w)
		},
		"select/linear before 23.02 on nodes with different numbers of CPUs (2 jobs)": func(
			c *slurmmodel.Config, _ *workload.Workload,
		) {
			twoKinds(c)
		},
		"PriorityType=priority/multifacor (2 jobs)":     site(cons + "PriorityType=priority/multifacor"),
		"SchedulerType=sched/backfil (2 jobs)":          site(cons + "SchedulerType=sched/backfil"),
		"PreemptType=preempt/qoss (2 jobs)":             site(cons + "PreemptType=preempt/qoss PreemptMode=REQUEUE"),
		"preemption with PreemptMode=PRIORITY (2 jobs)": site(cons + "PreemptType=preempt/qos PreemptMode=PRIORITY"),
		"preemption with send_user_signal (2 jobs)": site(cons + "PreemptType=preempt/qos PreemptMode=REQUEUE " +
			"SlurmctldParameters=preempt_send_user_signal"),
		"preemption with PreemptMode=GANG,PRIORITY (2 jobs)": func(c *slurmmodel.Config, _ *workload.Workload) {
			c.Get = lines(cons + "PreemptType=preempt/qos PreemptMode=CANCEL")
			c.Associations = &associations.Set{Policies: map[string]*associations.Policy{"q": {PreemptMode: "gang,priority"}}}
		},
		"GPUs for a job, a socket or a task, or of any of several types of a node, where gres.conf has no files of typed GPUs (1 jobs)": func(
			c *slurmmodel.Config, w *workload.Workload,
		) {
			c.Nodes[0].GRES = []hpc.GRES{{Name: "gpu", Type: "a", Count: 2}}
			job(func(j *hpc.Job) { j.GPUsPerTask = "a:1" })(c, w)
		},
		"SelectTypeParameters=CR_SOCKET (2 jobs)": site(cons + "SelectTypeParameters=CR_Socket"),
		"SelectTypeParameters=CR_CPU with gang scheduling (2 jobs)": site(cons +
			"SelectTypeParameters=CR_CPU PreemptType=preempt/qos PreemptMode=SUSPEND,GANG TaskPlugin=task/none"),
		"MaxMemPerCPU and MaxMemPerNode with --mem-per-gpu or DefMemPerGPU (1 jobs)": func(c *slurmmodel.Config, w *workload.Workload) {
			c.Partitions[0].Get = lines("DefMemPerCPU=100 MaxMemPerCPU=100 DefMemPerGPU=101 DefCpuPerGPU=2")
			job(func(j *hpc.Job) { j.GRES = "gpu:1" })(c, w)
		},
		"SchedulerParameters=max_rpc_cnt=2 (2 jobs)": site(cons + "SchedulerParameters=max_rpc_cnt=2"),
		"TopologyPlugin=topology/block (2 jobs)":     site(cons + "TopologyPlugin=topology/block"),
		"SchedulerParameters=bf_licenses (2 jobs)":   site(cons + "SchedulerParameters=bf_licenses"),
		"TopologyParam=Dragonfly (2 jobs)": func(c *slurmmodel.Config, _ *workload.Workload) {
			c.Release, c.Get = slurmspec.R2411, lines(cons+"SelectTypeParameters=CR_Core TopologyParam=Dragonfly")
		},
		"State of nodes in slurm.conf (2 jobs)": func(c *slurmmodel.Config, _ *workload.Workload) {
			c.Nodes[0].State = "DOWN"
		},
		"specialized cores of nodes (2 jobs)": func(c *slurmmodel.Config, _ *workload.Workload) { c.Nodes[0].CoreSpecCount = 1 },
		"OverSubscribe with preemption (2 jobs)": func(c *slurmmodel.Config, _ *workload.Workload) {
			c.Get = lines(cons + "PreemptMode=GANG")
			c.Partitions[0].Get = lines("OverSubscribe=FORCE:1")
		},
		"MaxCPUsPerNode or MaxCPUsPerSocket where jobs share cores (2 jobs)": func(c *slurmmodel.Config, _ *workload.Workload) {
			c.Partitions[0].Get = lines("MaxCPUsPerNode=2 OverSubscribe=YES")
		},
		"reservations with REPLACE, licences (2 jobs)": func(_ *slurmmodel.Config, w *workload.Workload) {
			w.Reservations = []hpc.ReservationEvent{
				{Reservation: hpc.Reservation{Flags: []string{"MAINT", "MAGNETIC", "PURGE_COMP=5:00"}}},
				{Reservation: hpc.Reservation{Flags: []string{"REPLACE"}, Licenses: "matlab"}},
			}
		},
		"jobs that outlive their nodes (--no-kill) (1 jobs)": func(_ *slurmmodel.Config, w *workload.Workload) {
			w.NodeEvents, w.Jobs = []hpc.NodeEvent{{}}, workload.JobsOf(&hpc.Job{ID: "1", Request: hpc.Request{NoKill: true}})
		},
		"licences of other servers (1 jobs)":      job(func(j *hpc.Job) { j.Licenses = "matlab@flex" }),
		"several reservations for a job (1 jobs)": job(func(j *hpc.Job) { j.Reservation = "r,s" }),
		"tasks for each GPU (1 jobs)":             job(func(j *hpc.Job) { j.TasksPerGPU = 2 }),
		"GPUs for a socket on nodes whose GPUs have neither cores nor types (1 jobs)": func(
			c *slurmmodel.Config, w *workload.Workload,
		) {
			c.Nodes[0].GRES = []hpc.GRES{{Name: "gpu", Count: 2}}
			job(func(j *hpc.Job) { j.GPUsPerSocket = "1" })(c, w)
		},
		"--gres-flags=enforce-binding (1 jobs)":        job(func(j *hpc.Job) { j.GRESFlags = "enforce-binding" }),
		"--exclusive=mcs (1 jobs)":                     job(func(j *hpc.Job) { j.Exclusive = "mcs" }),
		"shards and MPS of GPUs (1 jobs)":              job(func(j *hpc.Job) { j.GRES = "nvme:1,shard:2" }),
		"features with counts or parentheses (1 jobs)": job(func(j *hpc.Job) { j.Constraint = "[a*2&b*1]" }),
		"features in brackets with --nodelist (1 jobs)": job(func(j *hpc.Job) {
			j.Constraint, j.NodeList = "[a|b]", "n1"
		}),
		"features in brackets with select/linear (1 jobs)": func(c *slurmmodel.Config, w *workload.Workload) {
			c.Get = lines("SelectType=select/linear")
			job(func(j *hpc.Job) { j.Constraint = "[a|b]" })(c, w)
		},
		"--prefer (1 jobs)": job(func(j *hpc.Job) { j.Prefer = "a" }),
	} {
		cfg, w := plain()
		change(cfg, w)
		list := Lacks(cfg, w)
		if len(list) != 1 || list[0].String() != want {
			t.Errorf("the model lacks %v, want %s", list, want)
		}
	}
}

// TestCountedGPUs: of GPUs that have a type and no file, the model has a number for each node, of any type only if the
// node has one type.
func TestCountedGPUs(t *testing.T) {
	one, files := hpc.GRES{Name: "gpu", Type: "a", Count: 2}, hpc.GRES{Name: "gpu", Type: "a", Count: 2, File: true}
	other := hpc.GRES{Name: "gpu", Type: "b", Count: 2}
	for _, test := range []struct {
		node    []hpc.GRES
		request hpc.Request
		lacks   bool
	}{
		{[]hpc.GRES{one}, hpc.Request{GRES: "gpu:1"}, false}, {[]hpc.GRES{one}, hpc.Request{GPUsPerNode: "1"}, false},
		{[]hpc.GRES{one, other}, hpc.Request{GRES: "gpu:a:1"}, false}, {[]hpc.GRES{one, other}, hpc.Request{GRES: "gpu"}, true},
		{[]hpc.GRES{one, other}, hpc.Request{GPUsPerNode: "1"}, true}, {[]hpc.GRES{one}, hpc.Request{GPUs: "a:1"}, true},
		{[]hpc.GRES{one}, hpc.Request{GPUsPerSocket: "1", SocketsPerNode: 1}, true}, {[]hpc.GRES{files}, hpc.Request{GPUs: "1"}, false},
		{[]hpc.GRES{one, other}, hpc.Request{GRES: "nvme:1"}, false}, {[]hpc.GRES{one}, hpc.Request{}, false},
	} {
		cfg := &slurmmodel.Config{Release: slurmspec.R2411, Nodes: []hpc.Node{{Name: "n1", GRES: test.node}}}
		_, n := countedGPUs(cfg, &workload.Workload{Jobs: workload.JobsOf(&hpc.Job{ID: "1", Request: test.request})})
		if n > 0 != test.lacks {
			t.Errorf("%+v on %+v: the model lacks %d jobs", test.request, test.node, n)
		}
	}
}

// TestLacksNothing has a MaxMemPerCPU that a job exceeds, and jobs that share cores.
func TestLacksNothing(t *testing.T) {
	cfg := &slurmmodel.Config{
		Release: slurmspec.R2205, Get: lines("SelectType=select/cons_tres SelectTypeParameters=CR_CPU_Memory"),
		Nodes: []hpc.Node{{Name: "n1", Sockets: 2, CoresPerSocket: 18, ThreadsPerCore: 2, CPUs: 72}},
		Partitions: []config.Partition{{
			Name: "p", Nodes: []string{"n1"}, Get: lines("DefMemPerCPU=7150 MaxMemPerCPU=7150 OverSubscribe=FORCE:2"),
		}},
	}
	w := &workload.Workload{Jobs: workload.JobsOf(&hpc.Job{ID: "1"}, &hpc.Job{ID: "2", Request: hpc.Request{MemPerCPU: 7151, Partition: "p"}})}
	if list := Lacks(cfg, w); len(list) > 0 {
		t.Errorf("the model lacks %v", list)
	}
}
