package simtest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/slurmspec/sbatch"
)

// Epoch is when the cases begin.
const Epoch = 1_000_000 * hpc.Second

// End is after all events of the cases.
const End = Epoch + 1_000_000*hpc.Second

// Case is a machine with its inputs. Config has no policy.
type Case struct {
	Config sim.Config
	Jobs   []*hpc.Job // in the order of their submission
	Inputs []Input    // in the order of their instants
	// Plain says that all inputs are submissions or cancellations.
	Plain bool
	// Hostile says that some jobs make absurd requests.
	Hostile bool
}

// Input is one input of a case.
type Input struct {
	At    hpc.Time
	Apply func(rm.ResourceManager) error
	Text  string
}

// Random makes a case.
func Random(c *Choices) *Case {
	k := &Case{Hostile: c.one(6), Plain: c.number(2) == 0}
	k.Config.Epoch = Epoch
	k.Config.Ties = pick(c, sim.EndsFirst, sim.ArrivalsFirst)
	if c.number(3) == 0 {
		k.Config.Processors = c.between(1, 24)
	} else {
		k.Config.Cluster = c.cluster()
	}
	at := Epoch
	for i := range c.between(1, 30) {
		at = at.Add(c.seconds(0, pick(c, 1, 10, 40)))
		k.Jobs = append(k.Jobs, c.job(k, i, at))
	}
	for _, j := range k.Jobs {
		k.submit(j)
	}
	if !k.Plain {
		k.administer(c, at)
	}
	slices.SortStableFunc(k.Inputs,
		func(a, b Input) int { return int(min(a.At, End)/hpc.Second - min(b.At, End)/hpc.Second) })
	return k
}

// input adds an input.
func (k *Case) input(at hpc.Time, apply func(rm.ResourceManager) error, text string, args ...any) {
	k.Inputs = append(k.Inputs, Input{at, apply, fmt.Sprintf(text, args...)})
}

func (k *Case) submit(j *hpc.Job) {
	k.input(j.Submit, func(m rm.ResourceManager) error { return m.Submit(j) },
		"submit %s: run %s %v exit %d %v: %s", j.ID, j.RunTime, j.TaskRunTimes, j.ExitCode, j.TaskExitCodes,
		strings.Join(sbatch.Format(&j.Request), " "))
	if j.CancelAfter > 0 {
		k.command(j.Submit.Add(j.CancelAfter), rm.Command{Kind: rm.Cancel, Job: j.ID})
	}
}

func (k *Case) command(at hpc.Time, command rm.Command) {
	k.input(at, func(m rm.ResourceManager) error { return m.Do(command) }, "job %s: %s %v", command.Job, command,
		command.Tasks)
}

// cluster makes a cluster of up to eight nodes.
func (c *Choices) cluster() *sim.Cluster {
	out := &sim.Cluster{
		CountMemory: c.number(2) == 0, WholeNodes: c.one(6), KillInvalidDepend: c.number(2) == 0,
		MinJobAge: c.seconds(0, 1) * time.Duration(pick(c, 5, 60, 300)),
	}
	equal := c.number(2) == 0
	kind := c.node()
	var names []string
	for i := range c.between(1, 8) {
		if !equal {
			kind = c.node()
		}
		n := kind
		n.Name = fmt.Sprint("n", i+1)
		names = append(names, n.Name)
		out.Nodes = append(out.Nodes, n)
	}
	for i := range c.number(4) {
		p := sim.Partition{Name: fmt.Sprint("p", i), Default: i == 0, WholeNodes: c.one(6)}
		for _, name := range names {
			if c.number(3) > 0 {
				p.Nodes = append(p.Nodes, name)
			}
		}
		if c.one(5) {
			p.Nodes = append(p.Nodes, names[0]) // the partition may list this node twice
		}
		if c.one(3) {
			p.MaxTime = c.seconds(20, 60)
		}
		if c.one(3) {
			p.DefaultTime = c.seconds(10, 60)
		}
		p.DefMemPerCPU = int64(pick(c, 0, 50, 100))
		p.DefMemPerNode = int64(pick(c, 0, 0, 300))
		out.Partitions = append(out.Partitions, p)
	}
	return out
}

func (c *Choices) node() hpc.Node {
	n := hpc.Node{CPUs: c.between(1, 8), RealMemory: int64(c.between(1, 10)) * 100, Weight: uint32(c.number(3))}
	if c.one(4) {
		n.MemSpecLimit = int64(c.between(0, 1200))
	}
	if c.number(3) == 0 {
		n.GRES = append(n.GRES, hpc.GRES{Name: "gpu", Type: pick(c, "", "a100", "v100"), Count: int64(c.between(0, 4))})
	}
	if c.one(3) {
		n.Features = pick(c, []string{"ib"}, []string{"ib", "big"}, []string{"big"})
	}
	if c.one(12) {
		n.State = pick(c, "DOWN", "DRAIN", "FUTURE")
	}
	return n
}

// job makes a job of a case.
func (c *Choices) job(k *Case, i int, at hpc.Time) *hpc.Job {
	j := &hpc.Job{ID: fmt.Sprint("j", i), Submit: at}
	j.User, j.Name = pick(c, "ada", "bob"), pick(c, "", "", "x", "y")
	most := max(k.Config.Processors, 8)
	j.Tasks = c.between(0, most+most/8)
	if c.number(2) == 0 {
		j.Tasks = 1
	}
	limit := c.between(1, 60)
	j.TimeLimit = pick(c, time.Duration(limit)*time.Second, time.Duration(limit)*time.Second, 0, hpc.Unlimited,
		10*time.Second)
	j.RunTime = pick(c, c.seconds(0, limit), c.seconds(0, limit+10), time.Duration(limit)*time.Second, 0, hpc.Unlimited)
	if j.RunTime == hpc.Unlimited && (j.TimeLimit == 0 || j.TimeLimit == hpc.Unlimited) {
		j.CancelAfter = c.seconds(100, 1000) // so that the case ends
	}
	j.ExitCode = pick(c, 0, 0, 1)
	if c.one(8) {
		j.CancelAfter = c.seconds(1, 60)
	}
	if c.one(10) {
		j.Begin = c.seconds(1, 60)
	}
	if c.one(15) {
		j.Deadline = c.seconds(1, 120)
	}
	if c.one(20) {
		j.Hold = true
	}
	if c.one(6) {
		c.array(j)
	}
	if i > 0 && c.one(3) {
		j.Dependency = c.dependency(i)
	}
	if c.one(6) {
		yes := c.number(2) == 0
		j.KillOnInvalidDep = &yes
	}
	if k.Config.Cluster != nil {
		c.place(k, j)
	}
	if k.Hostile && c.one(3) {
		c.absurd(j)
	}
	return j
}

func (c *Choices) array(j *hpc.Job) {
	j.Array = pick(c, "1-3", "0-4%2", "2,5,9", "1-8:3%1")
	if c.number(2) == 0 {
		j.TaskRunTimes = map[int]time.Duration{2: c.seconds(0, 30)}
		j.TaskExitCodes = map[int]int{2: 1}
	}
}

// dependency returns dependencies of job i on earlier jobs.
func (c *Choices) dependency(i int) string {
	var terms []string
	for range c.between(1, 3) {
		on := fmt.Sprint("j", c.number(i))
		switch c.number(12) {
		case 0:
			terms = append(terms, "singleton")
			continue
		case 1:
			on += fmt.Sprint("_", c.number(6))
		case 2:
			on += "_[2-4]"
		case 3:
			on += ":" + fmt.Sprint("j", c.number(i))
		}
		kind := pick(c, "afterok", "afterany", "afternotok", "after", "aftercorr")
		if kind == "after" && c.number(2) == 0 {
			on += "+1"
		}
		terms = append(terms, kind+":"+on)
	}
	return strings.Join(terms, pick(c, ",", ",", "?"))
}

// place adds a job's demands for nodes.
func (c *Choices) place(k *Case, j *hpc.Job) {
	cluster := k.Config.Cluster
	if c.one(3) {
		j.MinNodes = c.between(1, 4)
		j.MaxNodes = pick(c, 0, j.MinNodes, c.number(6))
	}
	if c.one(4) {
		j.TasksPerNode = c.between(1, 4)
	}
	if c.one(4) {
		j.CPUsPerTask = c.between(1, 4)
	}
	switch c.number(8) {
	case 0:
		j.MemPerNode = int64(c.between(1, 600))
	case 1:
		j.MemPerCPU = int64(c.between(1, 200))
	case 2:
		j.MemPerNode = hpc.AllMemory
	}
	switch c.number(14) {
	case 0:
		j.GRES = pick(c, "gpu:1", "gpu:a100:1", "gpu", "gpu:0")
	case 1:
		j.GPUs = pick(c, "1", "3", "a100:2")
	case 2:
		j.GPUsPerTask, j.CPUsPerGPU = "1", c.number(3)
	case 3:
		j.MemPerGPU, j.GPUsPerNode = int64(c.between(1, 100)), "2"
	}
	name := func() string { return fmt.Sprint("n", c.between(1, len(cluster.Nodes)+c.number(2))) }
	switch c.number(16) {
	case 0:
		j.NodeList = name()
	case 1:
		j.NodeList = name() + "," + name()
	case 2:
		j.Exclude = name()
	case 3:
		j.Constraint = pick(c, "ib", "ib&big", "ib|big", "none")
	case 4:
		j.Exclusive = "node"
	}
	if n := len(cluster.Partitions); n > 0 {
		j.Partition = pick(c, "", "", fmt.Sprint("p", c.number(n)), "p0,p1")
	}
	if c.one(10) {
		j.Reservation = pick(c, "r0", "r1")
	}
	if c.one(5) {
		yes := c.number(2) == 0
		j.Requeue = &yes
	}
	j.NoKill = c.one(15)
}

// absurd makes a job request something that no real job requests.
func (c *Choices) absurd(j *hpc.Job) {
	huge := pick(c, math.MaxInt, math.MaxInt32, math.MaxInt/2+1, 1<<32)
	switch c.number(17) {
	case 0:
		j.Tasks = huge
	case 1:
		j.CPUsPerTask = huge
	case 2:
		j.Tasks, j.CPUsPerTask = 1<<32, 1<<32
	case 3:
		j.MinNodes, j.TasksPerNode = huge, pick(c, 0, 2, huge)
	case 4:
		j.MaxNodes = huge
	case 5:
		j.MinNodes, j.MaxNodes = 5, 2
	case 6:
		j.MemPerNode = int64(huge)
	case 7:
		j.MemPerCPU, j.CPUsPerTask = int64(huge), 3
	case 8:
		j.GPUs = pick(c, "2147483647", "99999999999999", ":::", "gpu:-1")
	case 9:
		j.GPUsPerTask, j.CPUsPerGPU = "2147483647", huge
	case 10:
		j.RunTime = pick(c, hpc.Unlimited-1, hpc.Unlimited/2)
	case 11:
		j.TimeLimit = pick(c, hpc.Unlimited-1, 1)
	case 12:
		j.Begin = pick(c, hpc.Unlimited, hpc.Unlimited-1)
	case 13:
		j.Deadline = hpc.Unlimited - 1
	case 14:
		j.Dependency = pick(c, "afterok:"+j.ID, "afterok:", "after:j0+2000000000", "afterok:j0_[0-4000000]", "?",
			"afterok:j0_[9-1]", "expand:j0", "afterany:j0+1")
	case 15:
		j.Array = pick(c, "9-1", "0-4000001", "x", "1-2%0", "")
	case 16:
		j.NodeList = pick(c, "n[1-", "n[1-99999999999]", "n[1-1000]", ",,")
	}
}

// administer adds events of nodes and reservations, and commands to jobs.
func (k *Case) administer(c *Choices, last hpc.Time) {
	instant := func() hpc.Time { return Epoch.Add(c.seconds(0, int(last.Sub(Epoch)/time.Second)+60)) }
	if cluster := k.Config.Cluster; cluster != nil {
		for range c.number(4) {
			ev := hpc.NodeEvent{At: instant(), Nodes: fmt.Sprintf("n[%d-%d]", c.between(1, len(cluster.Nodes)),
				len(cluster.Nodes)), State: pick(c, "down", "drain", "resume", "fail")}
			k.input(ev.At, func(m rm.ResourceManager) error { return m.SetNode(ev) }, "node %+v", ev)
		}
		for range c.number(3) {
			ev := c.reservation(instant(), len(cluster.Nodes))
			k.input(ev.At, func(m rm.ResourceManager) error { return m.Reserve(ev) }, "reservation %+v", ev)
		}
	}
	for range c.number(5) {
		command := rm.Command{Job: fmt.Sprint("j", c.number(len(k.Jobs)))}
		if c.one(4) {
			command.Tasks = []int{c.number(4)}
		}
		switch c.number(7) {
		case 0:
			command.Kind = rm.Hold
		case 1:
			command.Kind = rm.Release
		case 2:
			command.Kind = rm.Cancel
		case 3:
			command.Kind, command.TimeLimit = rm.SetTimeLimit, pick(c, c.seconds(1, 90), hpc.Unlimited-1)
		case 4:
			command.Kind, command.Factor = rm.Stretch, pick(c, 0.5, 2, 1e300, 1e-300)
		case 5:
			command.Kind, command.RunTime = rm.SetRunTime, c.seconds(0, 60)
		case 6:
			if k.Config.Cluster == nil {
				continue
			}
			command.Kind, command.Nodes = rm.SetNodes, c.between(1, 4)
		}
		k.command(instant(), command)
	}
}

func (c *Choices) reservation(at hpc.Time, nodes int) hpc.ReservationEvent {
	ev := hpc.ReservationEvent{At: at, Action: pick(c, "create", "create", "create", "update", "delete", "make")}
	ev.Name, ev.Users = pick(c, "r0", "r1"), []string{"ada"}
	ev.Start, ev.Duration = at.Add(c.seconds(-20, 60)), c.seconds(0, 90)
	switch c.number(4) {
	case 0:
		ev.Nodes = "ALL"
	case 1:
		ev.NodeCount = c.between(1, 4)
	default:
		ev.Nodes = fmt.Sprintf("n[1-%d]", c.between(1, nodes))
	}
	switch c.number(6) {
	case 0:
		ev.Flags = []string{"FLEX"}
	case 1:
		ev.Flags = []string{"OVERLAP"}
	case 2:
		ev.Flags = []string{"NO_HOLD_JOBS_AFTER_END"}
	}
	return ev
}
