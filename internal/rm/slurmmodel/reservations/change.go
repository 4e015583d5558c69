package reservations

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// Unsupported are the flags that the model does not have.
var Unsupported = []string{
	"ANY_NODES", "FIRST_CORES", slurmspec.FlagTimeFloat, "REPLACE", "REPLACE_DOWN",
}

const (
	year = 365 * 24 * 3600
	// oldestStart is how long before its creation a reservation may begin (MAX_RESV_DELAY).
	oldestStart = 600
)

// Apply creates, changes or deletes a reservation. It returns the reservation that it deletes. The
// parameter used reports whether jobs use a reservation. The error says why slurmctld refuses the
// event.
func (l *List) Apply(
	ev hpc.ReservationEvent, now int64, used func(*Reservation) bool,
) (gone *Reservation, err error) {
	if ev.Action == "delete" {
		return l.Delete(ev.Name, used)
	}
	update := ev.Action == "update"
	d, err := rpc.NewReservationDesc(ev.Reservation, update)
	switch {
	case err != nil:
	case update:
		err = l.Update(d, now)
	default:
		err = l.Create(d, now)
	}
	return nil, err
}

// Create makes a reservation (create_resv). The error says why slurmctld refuses it.
func (l *List) Create(d *rpc.ReservationDesc, now int64) error {
	r := &Reservation{Name: d.Name, Partition: d.Partition, Start: d.Start, End: d.End}
	if d.Flags != slurmspec.NoVal64 {
		r.flags = d.Flags
	}
	if r.Start == int64(slurmspec.NoVal) {
		r.Start = now
	}
	switch {
	case r.Start < now-oldestStart:
		return errors.New("invalid time specified: it begins more than 10 minutes in the past")
	case d.End != int64(slurmspec.NoVal):
	case d.Duration == slurmspec.Infinite:
		r.End = r.Start + year
	default:
		r.minutes = int64(d.Duration)
		r.End = r.Start + 60*r.minutes
	}
	if err := l.setWho(r, d); err != nil {
		return err
	}
	if d.Nodes == "" && len(d.NodeCounts) == 0 {
		return errors.New("it gives neither nodes nor a number of nodes")
	}
	if err := l.setNodes(r, d); err != nil {
		return err
	}
	if r.named && (l.overlapsOthers(r) || l.overlapsJobs(r)) {
		return errors.New("another reservation or a running job has one of its nodes at that time")
	}
	if l.Find(d.Name) != nil {
		return errors.New("reservation name is a duplicate")
	}
	r.setIdle(d.Flags, d.PurgeComp)
	l.all = append(l.all, r)
	l.remember(r)
	return nil
}

// Update changes a reservation (update_resv). If slurmctld refuses the change, the error says why,
// and the reservation stays as it is.
func (l *List) Update(d *rpc.ReservationDesc, now int64) error {
	old := l.Find(d.Name)
	if old == nil {
		return fmt.Errorf("there is no reservation %s", d.Name)
	}
	r := *old
	r.Nodes = old.Nodes.Clone()
	if d.Flags != slurmspec.NoVal64 {
		for _, f := range slurmspec.ReservationFlags {
			if d.Flags&f.Off != 0 {
				r.flags &^= f.On
			}
			r.flags |= d.Flags & f.On
		}
	}
	if d.Partition != "" {
		r.Partition = d.Partition
	}
	if err := l.setWho(&r, d); err != nil {
		return err
	}
	if err := r.setTimes(d, now); err != nil {
		return err
	}
	if d.Nodes != "" || len(d.NodeCounts) > 0 {
		if err := l.setNodes(&r, d); err != nil {
			return err
		}
	}
	r.setIdle(d.Flags, d.PurgeComp)
	saved := *old
	*old = r
	if l.overlapsOthers(old) || l.overlapsJobs(old) {
		*old = saved
		return errors.New("another reservation or a running job has one of its nodes at that time")
	}
	l.remember(old)
	return nil
}

// setTimes changes the times of a reservation.
func (r *Reservation) setTimes(d *rpc.ReservationDesc, now int64) error {
	if d.Start != int64(slurmspec.NoVal) {
		switch {
		case r.Start <= now:
			return errors.New("the reservation has begun")
		case d.Start < now-60:
			return errors.New("invalid start time")
		}
		r.Start = d.Start
		if r.minutes > 0 {
			r.End = r.Start + 60*r.minutes
		}
	}
	switch {
	case d.End != int64(slurmspec.NoVal) && d.End < now-60:
		return errors.New("invalid end time")
	case d.End != int64(slurmspec.NoVal):
		r.End, r.minutes = d.End, 0
	case d.Duration == slurmspec.Infinite:
		r.End, r.minutes = r.Start+year, year/60
	case d.Duration != slurmspec.NoVal && d.Duration != 0:
		r.minutes = int64(d.Duration)
		r.End = max(now, r.Start+60*r.minutes)
	}
	if r.Start >= r.End {
		return errors.New("it ends before it starts")
	}
	return nil
}

// setWho sets the users and accounts of a reservation if the request gives them.
func (l *List) setWho(r *Reservation, d *rpc.ReservationDesc) error {
	list := func(text string) []string {
		return strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return c == ',' })
	}
	if d.Users != "" {
		r.users = list(d.Users)
	}
	if d.Accounts != "" {
		r.accounts = list(d.Accounts)
		for _, name := range r.accounts {
			if !l.cluster.KnowsAccount(strings.TrimPrefix(name, "-")) {
				return fmt.Errorf("invalid account or account/partition combination specified: %s", name)
			}
		}
	}
	return nil
}

// setNodes sets the nodes that a request names, or chooses the requested number of nodes.
func (l *List) setNodes(r *Reservation, d *rpc.ReservationDesc) error {
	if d.Nodes == "" {
		return l.chooseNodes(r, int(d.NodeCounts[0]))
	}
	r.named, r.allNodes = true, false
	if strings.EqualFold(d.Nodes, "ALL") {
		return l.setAllNodes(r)
	}
	r.flags &^= partNodes
	names, err := hostlist.Expand(d.Nodes)
	if err != nil {
		return err
	}
	r.Nodes = l.cluster.none()
	for _, name := range names {
		i, known := l.cluster.Place[name]
		if !known {
			return fmt.Errorf("invalid node name specified: %s", name)
		}
		r.Nodes.Set(i)
	}
	return nil
}

func (l *List) setAllNodes(r *Reservation) error {
	if r.has(partNodes) {
		nodes, _, known := l.cluster.PartitionNodes(r.Partition)
		if !known {
			return fmt.Errorf("invalid partition name specified: %s", r.Partition)
		}
		r.Nodes = nodes.Clone()
		return nil
	}
	r.allNodes = true
	r.Nodes = l.cluster.all()
	return nil
}

// Delete removes a reservation unless jobs use it (delete_resv).
func (l *List) Delete(name string, used func(*Reservation) bool) (*Reservation, error) {
	r := l.Find(name)
	switch {
	case r == nil:
		return nil, fmt.Errorf("there is no reservation %s", name)
	case used(r):
		return nil, errors.New("the reservation is in use")
	}
	l.all = slices.DeleteFunc(l.all, func(one *Reservation) bool { return one == r })
	l.forget(r)
	return r, nil
}

// overlapsOthers reports whether another reservation has one of the nodes at the same time
// (_resv_overlap).
func (l *List) overlapsOthers(r *Reservation) bool {
	if r.has(maint | overlap) {
		return false
	}
	return slices.ContainsFunc(l.all, func(o *Reservation) bool {
		return o != r && !o.has(maint|overlap) && o.Nodes.Overlaps(r.Nodes) && meet(r, o)
	})
}

// overlapsJobs reports whether running jobs may still have one of the nodes when the reservation
// begins (_job_overlap).
func (l *List) overlapsJobs(r *Reservation) bool {
	if r.has(ignoreJobs) {
		return false
	}
	return slices.ContainsFunc(l.cluster.HeldAfter(r.Start, r), r.Nodes.Overlaps)
}

// meet reports whether two reservations are active at the same time within a week
// (_resv_time_overlap). It considers all repetitions of hourly and daily reservations.
func meet(a, b *Reservation) bool {
	const hour, week = 3600, 7 * 24 * 3600
	step := func(r *Reservation) int64 {
		switch {
		case r.has(hourly):
			return hour
		case r.has(daily):
			return 24 * hour
		}
		return week
	}
	for i := int64(0); i < week; i += step(a) {
		for j := int64(0); j < week; j += step(b) {
			if a.Start+i < b.End+j && a.End+i > b.Start+j {
				return true
			}
		}
	}
	return false
}
