package linear

import (
	"rmreplay/internal/rm/nodeset"
	"rmreplay/internal/rm/slurmmodel/hardware"
)

// HasDevices reports whether an empty node has the generic resources that a job requests. If gres.conf gives
// the cores of the resources, all cores of the node must be close to those that the job could get: the job
// gets no part of a node (_job_count_bitmap, gres_job_test in gres.c).
func HasDevices(r *hardware.Request, n *hardware.Node) bool {
	for k := range r.Devices {
		if !hasDevices(&r.Devices[k], n) {
			return false
		}
	}
	return true
}

func hasDevices(d *hardware.DeviceRequest, n *hardware.Node) bool {
	least, total, placed := d.Least(), 0, false
	for i := range n.Devices {
		if of := &n.Devices[i]; of.Kind == d.Kind {
			total += of.Count
			placed = placed || of.Type != "" || of.BySocket != nil
		}
	}
	if !placed {
		return total > 0 && n.CountFor(d) >= least
	}
	return total >= least && closeCores(d, n, least) == n.CoreCount()
}

// closeCores returns how many cores are close to the resources of a job: one of each line of gres.conf at a
// time, first of the line that adds the most cores. It returns 0 if the node has too few.
func closeCores(d *hardware.DeviceRequest, n *hardware.Node, least int) int {
	covered, left := nodeset.New(n.CoreCount()), map[int]nodeset.Set{}
	for i := range n.Devices {
		of := &n.Devices[i]
		if of.Count == 0 || !d.Wants(of) {
			continue
		}
		cores := nodeset.New(n.CoreCount())
		for c := range n.CoreCount() {
			cores.Put(c, of.Cores == nil || of.Cores.Has(c))
		}
		left[i] = cores
	}
	total := 0
	for range least {
		best, most := -1, -1
		for i := range n.Devices {
			if cores, is := left[i]; is {
				if adds := cores.Count() - cores.CountAnd(covered); adds > most {
					best, most = i, adds
				}
			}
		}
		if best < 0 {
			if total < least {
				return 0
			}
			break
		}
		covered.Or(left[best])
		total += n.Devices[best].Count
		delete(left, best)
	}
	return covered.Count()
}
