package live

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware/driver"
	"rmreplay/internal/workload"
)

// reservations returns when nodes are reserved. If scontrol fails, nodes do not count as reserved.
// Released jobs that cannot start because of a reservation are then held again.
func (c *Cluster) reservations(now hpc.Time) driver.Bookings {
	text, err := c.Run(c.ctx, "scontrol", "-o", "show", "reservation")
	var list []driver.Reservation
	if err == nil {
		list, err = readReservations(text, now)
	}
	if err != nil && !c.blind {
		c.Say("reservations are not known: %v (a job that a reservation keeps from starting is held again, until "+
			"scontrol shows the reservations)", err)
	}
	c.blind = err != nil
	return driver.Book(list)
}

// readReservations parses the output of "scontrol -o show reservation", with times in UTC. It
// returns the reservations that have nodes and have not ended. scontrol shows the nodes that
// slurmctld has chosen and, for a recurring reservation, the next occurrence.
func readReservations(text []byte, now hpc.Time) (list []driver.Reservation, err error) {
	const source = "scontrol show reservation"
	if !bytes.HasSuffix(text, []byte("\n")) {
		return nil, errors.New(source + ": the output is cut off (want complete lines)")
	}
	events, err := workload.ReadReservations(bytes.NewReader(text), source, workload.ReadOptions{Start: now})
	if err != nil {
		return nil, err
	}
	for i := range events {
		r := &events[i].Reservation
		nodes, err := hostlist.Expand(r.Nodes)
		if err != nil {
			return nil, fmt.Errorf("%s: the nodes of %s: %w", source, r.Name, err)
		}
		if len(nodes) > 0 { // a reservation without nodes is for licenses, or still waits for nodes
			list = append(list, driver.Reservation{Begin: r.Start, End: r.Start.Add(r.Duration), Nodes: nodes})
		}
	}
	return list, nil
}

// members maps partitions to their nodes in service.
type members map[string]map[string]bool

// size returns the number of different nodes.
func (m members) size() int {
	all := map[string]bool{}
	for _, nodes := range m {
		maps.Copy(all, nodes)
	}
	return len(all)
}

// count is a [driver.Count].
func (m members) count(nodes iter.Seq[string]) (all int, uses map[string]int) {
	uses = map[string]int{}
	for n := range nodes {
		serves := false
		for partition, list := range m {
			if list[n] {
				uses[partition]++
				serves = true
			}
		}
		if serves {
			all++
		}
	}
	return all, uses
}
