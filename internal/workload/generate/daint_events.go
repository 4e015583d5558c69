package generate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rmreplay/internal/hpc"
)

// site is a reservation that exists on every day. Different sites have no nodes in common.
type site struct {
	name          string
	kind          kind
	nodes         int
	created       time.Duration // after midnight, on the first day; later days: a day before the start
	start, length time.Duration
	flags         []string
	accounts      int // the number of accounts that may use it
	then          []change
}

// change updates or deletes a reservation. Fields that are set have new values.
type change struct {
	at     time.Duration
	action string
	length time.Duration
}

// sites make ten events a day (section V.B): five reservations are created, three are
// changed, and two are deleted. All have the flag IGNORE_JOBS, because a site reserves
// nodes whether jobs run there or not. Reservations that jobs use are created before the
// window, because otherwise other jobs would occupy their nodes.
var sites = []site{
	{name: "course", kind: gpu, nodes: 32, created: -3 * time.Hour, start: 9 * time.Hour, length: 3 * time.Hour,
		accounts: 2,
		then:     []change{{8*time.Hour + 30*time.Minute, "update", 4 * time.Hour}}},
	{name: "acceptance", kind: mc, nodes: 64, created: -2 * time.Hour, start: 14 * time.Hour, length: 2 * time.Hour,
		accounts: 1,
		then:     []change{{10 * time.Hour, "update", 3 * time.Hour}}},
	{name: "campaign", kind: gpu, nodes: 16, created: -time.Hour, start: 10 * time.Hour, length: 6 * time.Hour,
		accounts: 1,
		then:     []change{{13 * time.Hour, "update", 5 * time.Hour}}},
	{name: "firmware", kind: mc, nodes: 8, created: 7 * time.Hour, start: 8 * time.Hour, length: 2 * time.Hour,
		flags: []string{"MAINT"}, accounts: 1,
		then: []change{{9*time.Hour + 30*time.Minute, "delete", 0}}},
	{name: "demo", kind: gpu, nodes: 8, created: 11 * time.Hour, start: 16 * time.Hour, length: 90 * time.Minute,
		accounts: 1,
		then:     []change{{17*time.Hour + 20*time.Minute, "delete", 0}}},
}

// reservations makes the reservations of all days, and some jobs for them. The reserved nodes have no preset job and
// are the same every day. A reservation of a later day is announced earlier than the longest time limit before it
// begins, so that no job can still run on its nodes.
func (g *daint) reservations() {
	g.reserved = map[int]bool{}
	for _, s := range sites {
		p := g.pools[s.kind]
		nodes := slices.Clone(p.free[len(p.free)-s.nodes:])
		p.free = p.free[:len(p.free)-s.nodes]
		for _, n := range nodes {
			g.reserved[n] = true
		}
		for day := range g.days {
			g.reserve(&s, day, nodeList(nodes))
		}
	}
	slices.SortStableFunc(g.reservationList, func(a, b hpc.ReservationEvent) int { return cmp.Compare(a.At, b.At) })
}

// reserve makes the events of a reservation on one day.
func (g *daint) reserve(s *site, day int, nodes string) {
	midnight := daintStart.Add(time.Duration(day) * 24 * time.Hour)
	r := hpc.Reservation{
		Name: s.name, Start: midnight.Add(s.start), Duration: s.length, Nodes: nodes,
		Flags: append([]string{"IGNORE_JOBS", "NO_HOLD_JOBS_AFTER_END"}, s.flags...),
	}
	created := midnight.Add(s.created)
	if day > 0 {
		r.Name = fmt.Sprintf("%s-%d", s.name, day+1)
		created = r.Start.Add(-26*time.Hour - time.Duration(day%7)*time.Minute)
	}
	for range s.accounts {
		r.Accounts = append(r.Accounts, g.people.someone(g.rng).account)
	}
	r.Accounts = slices.Compact(slices.Sorted(slices.Values(r.Accounts)))
	g.reservationList = append(g.reservationList, hpc.ReservationEvent{At: created, Action: "create", Reservation: r})
	length := s.length
	for _, c := range s.then {
		ev := hpc.ReservationEvent{At: midnight.Add(c.at), Action: c.action,
			Reservation: hpc.Reservation{Name: r.Name, Duration: c.length}}
		g.reservationList = append(g.reservationList, ev)
		if c.length > 0 {
			length = min(length, c.length)
		}
	}
	if s.flags == nil && s.then[0].action != "delete" {
		g.useReservation(&r, s.kind, r.Start.Add(length))
	}
}

// maxReserved is the largest number of jobs in one reservation, and the largest number of nodes of such a job.
const maxReserved = 8

// useReservation submits some short jobs to a reservation, long before it ends: a job that still
// waits at the end would lose its reservation.
func (g *daint) useReservation(r *hpc.Reservation, k kind, end hpc.Time) {
	n := 0
	for _, job := range g.jobs {
		short := job.RunTime <= 20*time.Minute && job.MinNodes <= 2
		if job.Submit < r.Start || job.Submit.Add(90*time.Minute) > end || !short || n == maxReserved ||
			job.Partition != "normal" || job.Constraint != k.feature() || job.Dependency != "" {
			continue
		}
		account := r.Accounts[g.rng.IntN(len(r.Accounts))]
		i := slices.IndexFunc(g.people.users, func(p person) bool { return p.account == account })
		job.User, job.Account, job.Reservation = g.people.users[i].name, account, r.Name
		job.TimeLimit = 30 * time.Minute
		n++
	}
}

// dayNodeEvents is the number of node state changes of a day (section V.B).
const dayNodeEvents = 51

// outages makes the node events.
type outages struct {
	g    *daint
	busy map[int]hpc.Time // nodes that are out of service, and until when
	left []int            // nodes that are out of service until single resumes them
}

// nodeEvents takes nodes out of service and resumes them.
func (g *daint) nodeEvents() {
	o := &outages{g: g, busy: map[int]hpc.Time{}}
	o.firstDay()
	for day := 1; day < len(g.days); day++ {
		o.day(daintStart.Add(time.Duration(day) * 24 * time.Hour))
	}
	slices.SortStableFunc(g.nodeEventList, func(a, b hpc.NodeEvent) int { return cmp.Compare(a.At, b.At) })
}

// firstDay makes the events of the first day. It begins with the nodes that are down at the
// window's start, and resumes some of them.
func (o *outages) firstDay() {
	down := append(slices.Clone(o.g.pools[gpu].down), o.g.pools[mc].down...)
	for i, n := range down {
		o.add(daintStart, n, "down", "not responding")
		o.busy[n] = never
		if i%2 == 0 {
			o.add(o.within(daintStart, 1, 20), n, "resume", "")
			o.busy[n] = daintStart.Add(24 * time.Hour)
			continue
		}
		o.left = append(o.left, n)
	}
	for range 2 {
		o.episode(daintStart, "fail", "node failure")
	}
	for dayNodeEvents-len(o.g.nodeEventList) > 2 {
		o.episode(daintStart, "drain", "hardware error")
	}
	o.single(daintStart, dayNodeEvents-len(o.g.nodeEventList))
}

// day makes the events of a later day.
func (o *outages) day(midnight hpc.Time) {
	for i := range dayNodeEvents / 2 {
		state, reason := "drain", "hardware error"
		if i < 2 {
			state, reason = "fail", "node failure"
		}
		o.episode(midnight, state, reason)
	}
	o.single(midnight, dayNodeEvents%2)
}

const never = hpc.Time(1<<63 - 1)

// single resumes nodes that have been out of service for long. If all of these nodes are in service again, single
// drains a node without resuming it.
func (o *outages) single(midnight hpc.Time, n int) {
	for range n {
		at := o.within(midnight, 8, 17)
		if len(o.left) > 0 {
			o.add(at, o.left[0], "resume", "")
			o.busy[o.left[0]] = at
			o.left = o.left[1:]
			continue
		}
		node := o.healthy(at, at)
		o.add(at, node, "drain", "to be replaced")
		o.busy[node] = never
		o.left = append(o.left, node)
	}
}

// episode takes a node out of service for some hours of a day.
func (o *outages) episode(midnight hpc.Time, state, reason string) {
	at := o.within(midnight, 1, 18)
	back := at.Add(time.Duration(60+o.g.rng.IntN(300)) * time.Minute)
	until := at
	if state == "fail" {
		until = never
	}
	node := o.healthy(at, until)
	o.add(at, node, state, reason)
	o.add(back, node, "resume", "")
	o.busy[node] = back
}

// within returns an instant between two hours of a day.
func (o *outages) within(midnight hpc.Time, from, to int) hpc.Time {
	return midnight.Add(time.Duration(from*3600+o.g.rng.IntN((to-from)*3600)) * time.Second)
}

func (o *outages) add(at hpc.Time, node int, state, reason string) {
	o.g.nodeEventList = append(o.g.nodeEventList, hpc.NodeEvent{At: at, Nodes: nodeName(node), State: state,
		Reason: reason})
}

// healthy returns a node that is in service at an instant and in no reservation. If the node will
// fail, no preset job runs on it, because preset jobs are recorded to complete.
func (o *outages) healthy(at, until hpc.Time) int {
	for {
		n := 1 + o.g.rng.IntN(gpuNodes+mcNodes)
		if o.g.reserved[n] || o.busy[n] != 0 && o.busy[n] >= at || until == never && o.g.hasPreset(n) {
			continue
		}
		return n
	}
}

func (g *daint) hasPreset(node int) bool {
	for _, p := range g.pools {
		if slices.Contains(p.free, node) {
			return false
		}
	}
	return true
}
