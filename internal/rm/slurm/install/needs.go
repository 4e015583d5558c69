package install

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"rmreplay/internal/resources"
)

// Needs describes the resources that a replay needs from this machine at its busiest instant.
type Needs struct {
	Nodes      int  // of the cluster
	Accounting bool // slurmdbd and MariaDB run
}

// large are the needs of a large replay, for which the machine should be sufficient.
var large = Needs{Nodes: 10_000, Accounting: true}

// The largest numbers of simultaneous connections. The driver opens at most 200 to slurmctld.
// slurmctld opens at most 256 to the nodes, one for each of its message threads. A node has at
// most one connection of each kind.
const (
	toController = 200
	toNodes      = 256
)

// files is the number of open files that the driver needs. The clock also reads a file in /proc for
// each of slurmctld's threads that waits in the kernel.
func (n Needs) files() uint64 {
	return uint64(64 + min(n.Nodes, toController) + 2*min(n.Nodes, toNodes))
}

// processes is the number of processes and threads of a replay.
func (n Needs) processes() uint64 {
	count := uint64(80 + min(n.Nodes, toNodes))
	if n.Accounting {
		count += 100
	}
	return count
}

// memory is the memory of a replay, in bytes. The driver and slurmctld need about 32 KiB each for
// every node.
func (n Needs) memory() uint64 {
	size := uint64(128<<20) + uint64(n.Nodes)<<16
	if n.Accounting {
		size += 192 << 20
	}
	return size
}

// Below these values of the limits on a process's address space and on a file's size, every replay
// fails. The driver and slurmctld reserve far more address space than they use.
const (
	minAddressSpace = 3 << 30
	minFileSize     = 64 << 20
)

// checks compares the needs of this replay with this machine's limits. If the machine suffices for
// this replay but not for a large one, the check says so.
func (n Needs) checks() []Check {
	files, filesErr := resources.Limit(unix.RLIMIT_NOFILE)
	processes, processesErr := resources.Processes()
	memory, memoryErr := resources.Memory()
	space, spaceErr := resources.Limit(unix.RLIMIT_AS)
	size, sizeErr := resources.Limit(unix.RLIMIT_FSIZE)
	return []Check{
		compare("open files", "connections of the nodes", files, filesErr, n.files(), large.files(), resources.Count,
			"raise it with: ulimit -n 65536"),
		compare("processes", "threads of the daemons", processes, processesErr, n.processes(), large.processes(),
			resources.Count,
			"raise it with: ulimit -u 4096 (in a container: docker run --pids-limit 4096)"),
		compare("memory", "the daemons and the jobs", memory, memoryErr, n.memory(), large.memory(), resources.Size,
			"end other programs, or raise the memory limit of the container or job"),
		compare("address space", "the daemons reserve more than they use", space, spaceErr, minAddressSpace, minAddressSpace,
			resources.Size,
			"raise it with: ulimit -v unlimited"),
		compare("file size", "the daemons' state and the record", size, sizeErr, minFileSize, minFileSize, resources.Size,
			"raise it with: ulimit -f unlimited"),
	}
}

// compare makes the check of a resource. The parameter need is the amount that this replay needs, and most the amount
// that a large replay needs.
func compare(name, why string, have uint64, err error, need, most uint64, text func(uint64) string, fix string) Check {
	c := Check{Name: name, Why: why, Fix: fix, Found: text(have)}
	switch {
	case err != nil:
		c.Found = err.Error()
	case have < need:
		c.Required = true
		c.Found += fmt.Sprintf(" (want %s: %s more)", text(need), text(need-have))
	case have < most:
		c.Found += fmt.Sprintf(" (want %s for %d nodes)", text(most), large.Nodes)
	default:
		c.OK = true
	}
	return c
}

// Admit raises the limit of open files if that helps. It returns an [*UnfitError] if this machine
// lacks what a replay needs.
func (n Needs) Admit() error {
	if err := resources.RaiseOpenFiles(large.files()); err != nil {
		return err
	}
	var short []string
	for _, c := range append(n.checks(), checkScratch()) {
		if c.Required && !c.OK {
			short = append(short, fmt.Sprintf("%s: %s; %s", c.Name, c.Found, c.Fix))
		}
	}
	if len(short) > 0 {
		return &UnfitError{short}
	}
	return nil
}

// checkTemp looks at the directory for temporary files.
func checkTemp() Check {
	c := Check{Name: "temporary files", Why: "rmreplay asks Slurm's programs for their versions, with a configuration there",
		Fix: "set TMPDIR to a directory that you can write to", Found: os.TempDir()}
	free, err := usable(os.TempDir())
	switch {
	case err != nil:
		c.Found += ": " + err.Error()
	case free < 1<<20:
		c.Found += ": " + resources.Size(free) + " free (want 1 MiB)"
	default:
		c.OK = true
		c.Found += ", " + resources.Size(free) + " free"
	}
	return c
}
