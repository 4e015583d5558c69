package pbs

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
)

// read reads the attributes of a record. It counts and ignores an attribute that it cannot read.
func (s *reader) read(j *job, text []byte) error {
	var bad error
	request := request{placement: "free"}
	seen := make(map[string]bool)
	for key, value := range attributes(text) {
		if seen[key] { // a word in the command line of submit_args looks like this key
			continue
		}
		seen[key] = true
		err := j.attribute(key, value)
		if name, isResource := strings.CutPrefix(key, "Resource_List."); isResource {
			err = request.resource(&j.Job, name, string(value))
		}
		if err != nil && bad == nil {
			bad = s.b.Fall(finished.RuleBadValue, "job %s: %s %.60q: %v", j.ID, key, value, err)
		}
	}
	if bad != nil {
		return bad
	}
	if j.Eligible.Sub(j.Submit) <= time.Second { // the server takes a moment to queue a job
		j.Eligible = 0
	}
	if request.set(&j.Job) && !j.asked {
		j.asked = true
		if request.host {
			s.b.Note(NoteHostDropped)
		}
		if request.uneven() {
			s.b.Note(NoteChunks)
		}
		if request.virtual && j.Memory == 0 && j.MemPerCPU == 0 {
			s.b.Note(NoteVirtualMemory)
		}
	}
	if request.shared && !j.shared {
		j.shared = true
		s.b.Note(NoteNodesShared)
	}
	return nil
}

// attribute reads an attribute that is not a resource. Unknown attributes are ignored.
func (j *job) attribute(key string, value []byte) (err error) {
	text := func() string { return lines.UTF8(value) }
	switch key {
	case "user":
		j.User = text()
	case "group":
		j.Group = text()
	case "account":
		j.Account = text()
	case "project":
		if p := text(); j.Account == "" && p != "_pbs_project_default" {
			j.Account = p
		}
	case "jobname":
		j.Name = text()
	case "queue":
		j.Partition = text()
	case "resvname", "resvID":
		j.Reservation = cmp.Or(j.Reservation, text())
	case "ctime":
		j.Submit, err = instant(value)
	case "qtime": // logs in PBS's format, such as Cobalt's, have no ctime
		if j.Submit == 0 {
			j.Submit, err = instant(value)
		}
	case "etime":
		j.Eligible, err = instant(value)
	case "start":
		j.Start, err = instant(value)
	case "end":
		j.End, err = instant(value)
	case "run_count":
		if n, err := strconv.Atoi(string(value)); err == nil && n > 1 {
			j.Restarts = min(n-1, math.MaxInt32)
		}
	case "Exit_status":
		if j.ExitCode, err = strconv.Atoi(string(value)); err != nil {
			j.ExitCode, err = 1, errors.New("not an exit status (want a number)")
		}
		j.HasExit = err == nil
	case "exec_host":
		j.NodeList, j.AllocNodes, j.AllocCPUs, err = hosts(string(value))
	}
	return err
}

// hosts reads the list of hosts of a job: "n1/0+n1/1" has a part for each processor. In "n1/0-3,6"
// (Torque) a part has several processors, and in "n1/0*8" (PBS Professional) it has eight.
func hosts(text string) (list string, nodes, cpus int, err error) {
	var names []string
	known := make(map[string]bool)
	for part := range strings.SplitSeq(text, "+") {
		name, slots, _ := strings.Cut(part, "/")
		if name == "" || strings.ContainsAny(name, "[](), ") {
			return "", 0, 0, errors.New("not a list of hosts (want n1/0+n1/1)")
		}
		if !known[name] {
			known[name] = true
			names = append(names, name)
		}
		n := slotsOf(slots)
		if n < 0 || cpus > math.MaxInt32-n {
			return "", 0, 0, errors.New("not a list of slots (want n1/0-3, or n1/0*4)")
		}
		cpus += n
	}
	return hostlist.Compress(names), len(names), cpus, nil
}

// slotsOf returns the number of slots in "0", "0*8" or "0-3,6", and -1 for any other text.
func slotsOf(text string) (count int) {
	if _, times, found := strings.Cut(text, "*"); found {
		return number(times)
	}
	for slot := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(slot, "-")
		if !isRange {
			count++
			continue
		}
		from, to := number(first), number(last)
		if from < 0 || to < from {
			return -1
		}
		count += to - from + 1
	}
	return count
}

// number reads a count, and returns -1 for any other text.
func number(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

// request is what a job asked for, from the list of its resources.
type request struct {
	chunks     []chunk
	isSelect   bool // the request has chunks (PBS Professional); otherwise it has Torque's nodes
	placement  string
	cpus, gpus int // totals for the job
	nodes      int
	host       bool // the job requested a host by its name
	virtual    bool // the job limited its virtual memory
	shared     bool // the job ran on fewer hosts than nodes
	// On machines of Cray, PBS Professional counts processing elements. Then ncpus and select have
	// one processor, for the program that starts the processing elements.
	elements, perNode, depth int
}

// chunk is a part of a request: COUNT nodes or virtual nodes with the same resources.
type chunk struct {
	count, cpus, gpus int
	memory            int64 // MiB
	features          []string
}

// resource reads a resource of the list. Unknown resources are ignored.
func (q *request) resource(j *finished.Job, name, value string) (err error) {
	count := func(to *int) {
		if *to = number(value); *to < 0 {
			*to, err = 0, errors.New("not a count")
		}
	}
	switch name {
	case "walltime":
		if j.TimeLimit, err = duration(value); err == nil && j.TimeLimit == 0 {
			j.TimeLimit = hpc.Unlimited
		}
	case "ncpus", "procs":
		count(&q.cpus)
	case "ngpus":
		count(&q.gpus)
	case "mppwidth":
		count(&q.elements)
	case "mppnppn":
		count(&q.perNode)
	case "mppdepth":
		count(&q.depth)
	case "nodect", "nodes", "select":
		return q.size(name, value)
	case "place":
		q.placement = value
	case "mem":
		j.Memory, err = mebibytes(value)
	case "pmem":
		j.MemPerCPU, err = mebibytes(value)
	case "vmem", "pvmem":
		q.virtual = true
	case "qos":
		j.QOS = value
	case "software":
		j.Licenses = value
	}
	return err
}

// size reads a resource that requests a number of nodes.
func (q *request) size(name, value string) (err error) {
	switch name {
	case "nodect":
		if strings.Contains(value, ":") { // some schedulers write the list of nodes into nodect
			q.chunks, q.host, err = chunks(value)
		} else if q.nodes = number(value); q.nodes < 0 {
			q.nodes, err = 0, errors.New("not a count")
		}
	case "select":
		q.isSelect = true
		q.chunks, q.host, err = chunks(value)
	case "nodes":
		if q.isSelect { // PBS Professional derives nodes from select
			return nil
		}
		q.chunks, q.host, err = chunks(value)
	}
	return err
}

// chunks reads "2:ppn=8:gpus=1:fast+1:ppn=4" (Torque) and "2:ncpus=8:mem=4gb:ngpus=1" (PBS
// Professional). A chunk without a count is one node; the result host says that a chunk names a
// host.
func chunks(text string) (list []chunk, host bool, err error) {
	text, _, _ = strings.Cut(text, "#") // options for all nodes follow, such as "#shared"
	for part := range strings.SplitSeq(text, "+") {
		words := strings.Split(part, ":")
		c := chunk{count: number(words[0]), cpus: 1}
		if c.count >= 0 {
			words = words[1:]
		} else {
			c.count = 1
			host = host || !strings.Contains(words[0], "=")
			if !strings.Contains(words[0], "=") {
				words = words[1:]
			}
		}
		for _, word := range words {
			if err := c.take(word); err != nil {
				return nil, false, err
			}
		}
		list = append(list, c)
	}
	return list, host, nil
}

// take reads a word of a chunk: a resource, or the name of a property.
func (c *chunk) take(word string) (err error) {
	name, value, isResource := strings.Cut(word, "=")
	n := number(value)
	switch {
	case !isResource:
		if word != "" && word != "shared" && word != "exclusive" && word != "default" {
			c.features = append(c.features, word)
		}
		return nil
	case name == "mem":
		c.memory, err = mebibytes(value)
		return err
	case name != "ppn" && name != "ncpus" && name != "gpus" && name != "gpu" && name != "ngpus":
		return nil
	case n < 0:
		return errors.New("not a list of nodes or chunks (want 2:ppn=8, or 2:ncpus=8)")
	case name == "ppn", name == "ncpus":
		c.cpus = n
	default:
		c.gpus = n
	}
	return nil
}

// set sets the request of the job. It reports whether the list of resources has the size of the
// job.
func (q *request) set(j *finished.Job) bool {
	if q.elements > 0 {
		return q.setElements(j)
	}
	nodes, cpus, gpus, memory := 0, 0, 0, int64(0)
	for _, c := range q.chunks {
		if c.count > math.MaxInt32 || c.count*max(c.cpus, c.gpus, 1) > math.MaxInt32-max(nodes, cpus, gpus) ||
			int64(c.count)*c.memory > 1<<40-memory {
			return false
		}
		nodes += c.count
		cpus += c.count * c.cpus
		gpus += c.count * c.gpus
		memory += int64(c.count) * c.memory
	}
	if q.isSelect {
		switch place, _, _ := strings.Cut(q.placement, ":"); {
		case place == "pack":
			nodes = 1
		case place != "scatter" && place != "vscatter" && nodes > 1:
			nodes = 0 // chunks may share a node
		}
	} else if q.nodes > 0 {
		nodes = q.nodes
	}
	if cpus = cmp.Or(max(q.cpus, cpus), nodes); cpus == 0 && nodes == 0 {
		return false
	}
	if q.shared = !q.isSelect && len(q.chunks) > 0 && j.AllocNodes < nodes && j.AllocCPUs >= cpus; q.shared {
		nodes = 0 // the nodes were virtual. With fewer CPUs, only the script's host is recorded
	}
	j.ReqCPUs, j.ReqNodes = cpus, nodes
	if gpus = cmp.Or(q.gpus, gpus); gpus > 0 {
		j.GPUs = strconv.Itoa(gpus)
	}
	if j.Memory == 0 && j.MemPerCPU == 0 {
		j.Memory = memory
	}
	if len(q.chunks) == 1 {
		c := q.chunks[0]
		if !q.isSelect && !q.shared && c.count > 1 && cpus == c.count*c.cpus {
			j.TasksPerNode = c.cpus
		}
		j.Constraint = strings.Join(c.features, "&")
	}
	return true
}

// uneven reports whether the chunks have different processors, GPUs or memory.
func (q *request) uneven() bool {
	return q.elements == 0 && slices.ContainsFunc(q.chunks, func(c chunk) bool {
		first := q.chunks[0]
		return c.cpus != first.cpus || c.gpus != first.gpus || c.memory != first.memory
	})
}

// setElements is [request.set] for processing elements. The host in exec_host only starts the
// processing elements: it is not one of the job's nodes.
func (q *request) setElements(j *finished.Job) bool {
	depth := max(1, q.depth)
	if depth > math.MaxInt32/q.elements {
		return false
	}
	j.ReqCPUs, j.NodeList, j.AllocNodes, j.AllocCPUs = q.elements*depth, "", 0, q.elements*depth
	if q.perNode > 0 {
		j.ReqNodes, j.TasksPerNode = (q.elements-1)/q.perNode+1, q.perNode*depth
	}
	return true
}
