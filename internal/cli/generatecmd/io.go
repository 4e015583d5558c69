// Package generatecmd has `workload generate io`. Package cli passes the functions that read and
// write workloads.
package generatecmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/generate"
)

// Lent has the functions of package cli that the command uses.
type Lent struct {
	// AddOutput adds --output and --seed.
	AddOutput func(c *cobra.Command, path *string, seed *uint64)
	// Replaces returns an error for an output file that a trace must not replace. Read reads a
	// workload. Save writes a workload and prints its path.
	Replaces func(path string, inputs ...string) error
	Read     func(path string) (*workload.Workload, error)
	Save     func(w *workload.Workload, path string, seed uint64, json bool) error
}

// ioFlags are the flags of `workload generate io`.
type ioFlags struct {
	set, counts, rate, start, addTo string
	fileSystems                     []string
	cycles                          int
	declare                         bool
	load                            float64
	zone                            flags.Zone
	seed                            uint64
	output                          string
	json                            bool
}

// IO returns the command `workload generate io`.
func (l Lent) IO() *cobra.Command {
	var o ioFlags
	c := &cobra.Command{
		Use:   "io",
		Short: "Generate jobs that read and write a shared file system",
		Long: `Generates the workloads on which the authors of workload-adaptive scheduling tested it:
jobs of one node that write to Lustre or sleep, for a machine of eight nodes. two-jobs
has cycles of jobs that write 16 GiB and of jobs that sleep for 300 s. six-jobs also has
four classes of jobs that write less and sleep. --add-to adds I/O to the classes of jobs
of another workload instead. docs/GENERATORS.md has the sources and the assumptions.`,
		Example: `  rmreplay workload generate io --set two-jobs --counts 15,15 --seed 1 -o io.jsonl
  rmreplay simulate io.jsonl --policy io-aware -o run
  rmreplay workload generate io --add-to day.jsonl --filesystem lustre=100GiB/s \
    -o io-day.jsonl`,
		Args: console.WantArgs(),
		RunE: func(*cobra.Command, []string) error { return l.runIO(&o) },
	}
	f := c.Flags()
	f.StringVar(&o.set, "set", "two-jobs", "`NAME` of the set: two-jobs or six-jobs")
	f.StringVar(&o.counts, "counts", "", "`COUNTS` of jobs of each class in a cycle, as N,N... (default: 10,50, or 10 "+
		"of each for six-jobs)")
	console.AddCount(f, &o.cycles, "cycles", 8, "generate `N` cycles")
	f.StringArrayVar(&o.fileSystems, "filesystem", []string{"lustre=200MiB/s"},
		"file system and its `BANDWIDTH`, such as lustre=200MiB/s")
	f.StringVar(&o.rate, "rate", "50MiB/s", "`RATE` at which a job writes when no other job uses the file system")
	f.BoolVar(&o.declare, "declare-licenses", false, "each job requests licenses for its mean rate")
	f.StringVar(&o.start, "start", "2024-03-04", "`TIME` at which the window begins")
	f.StringVar(&o.addTo, "add-to", "", "`WORKLOAD` whose jobs get I/O by class, instead of a set")
	f.Float64Var(&o.load, "load", 0.5, "with --add-to: the jobs together request on average `L` times the bandwidth")
	o.zone.Add(f)
	l.AddOutput(c, &o.output, &o.seed)
	console.AddJSON(c, &o.json)
	return c
}

func (l Lent) runIO(o *ioFlags) error {
	if len(o.fileSystems) != 1 {
		return console.Usagef("--filesystem: %d file systems (want one)", len(o.fileSystems))
	}
	fs, err := hpc.ParseFileSystem(o.fileSystems[0])
	if err != nil {
		return console.Usagef("--filesystem %w", err)
	}
	if err := l.Replaces(o.output, o.addTo); err != nil {
		return fmt.Errorf("writing the workload: %w", err)
	}
	if o.addTo != "" {
		w, err := l.Read(o.addTo)
		if err != nil {
			return err
		}
		if err := generate.AddIO(w, generate.MixOptions{FileSystem: fs, Load: o.load, Seed: o.seed}); err != nil {
			return console.BadInput(fmt.Errorf("%s: %w", o.addTo, err))
		}
		return l.Save(w, o.output, o.seed, o.json)
	}
	options := generate.IOOptions{Set: o.set, Cycles: o.cycles, FileSystem: fs, Declare: o.declare, Seed: o.seed}
	if options.Rate, err = hpc.ParseRate(o.rate); err != nil {
		return console.Usagef("--rate %w", err)
	}
	if options.Start, err = o.zone.Instant("start", o.start); err != nil {
		return console.Usagef("%w", err)
	}
	if options.Start <= 0 || o.cycles <= 0 {
		return console.Usagef("--start %s, --cycles %d: want an instant after 1970 and at least one cycle", o.start, o.cycles)
	}
	for text := range strings.SplitSeq(o.counts, ",") {
		if o.counts == "" {
			break
		}
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return console.Usagef("--counts %s: not a list of numbers (want, for example, 10,50)", o.counts)
		}
		options.Counts = append(options.Counts, n)
	}
	w, err := generate.IO(options)
	if err != nil {
		return console.Usagef("--%w", err)
	}
	return l.Save(w, o.output, o.seed, o.json)
}
