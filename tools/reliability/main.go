// Command reliability replays a workload many times. It disturbs each replay at a random instant,
// and checks that the replay ends as documented and leaves nothing behind:
//
//	go run ./tools/reliability -n 1000 -cluster cluster workload.events
//
// A disturbance (a hit) is one of these: a signal to the program, to the guard of its daemons, or
// to any process below them; a second signal shortly after the first; a pause of a process; random
// bytes that other processes send to the daemons' ports; or nothing. After each replay the command
// checks that
//
//   - the program has ended in time, with the documented exit status;
//   - only the run record is left: all processes and other files are gone;
//   - the record can be read, and has the run's state;
//   - a valid run has the result of an undisturbed run.
//
// The same seed gives the same hits, except for the choice among processes that exist at the
// instant of the hit. The command prints a line for each replay that failed a check, and a table
// at the end. Its exit status is 1 if a check failed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// options are the flags.
type options struct {
	replays, parallel, first int
	seed                     uint64
	program, cluster, work   string
	slurm                    string
	undisturbed              bool
	log                      string
	limit                    time.Duration
	workload                 string
}

func main() {
	var o options
	flag.IntVar(&o.replays, "n", 100, "number of replays")
	flag.IntVar(&o.first, "first", 0, "number of the first replay, to repeat one")
	flag.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "replays at the same time")
	flag.Uint64Var(&o.seed, "seed", 1, "`SEED` of the hits")
	flag.StringVar(&o.program, "program", "bin/rmreplay", "the program `FILE`")
	flag.StringVar(&o.cluster, "cluster", "", "the cluster's `DIR`; required")
	flag.StringVar(&o.slurm, "slurm", "", "the Slurm to replay on: `DIR|VERSION` (default: that of rmreplay replay)")
	flag.BoolVar(&o.undisturbed, "undisturbed", false, "hit no replay: what replays in a row leave behind")
	flag.StringVar(&o.work, "work", "", "`DIR` for records and temporary files (default: a new one, removed at the end)")
	flag.StringVar(&o.log, "log", "", "`FILE` for a line of JSON for each replay")
	flag.DurationVar(&o.limit, "limit", time.Minute, "a replay that ends later after its hit hangs")
	flag.Parse()
	if flag.NArg() != 1 || o.cluster == "" || o.replays < 1 || o.parallel < 1 {
		fmt.Fprintln(os.Stderr, "usage: reliability [-n REPLAYS] [-seed SEED] -cluster DIR WORKLOAD")
		os.Exit(2)
	}
	o.workload = flag.Arg(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	broken, err := measure(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reliability:", err)
	}
	if err != nil || broken > 0 {
		os.Exit(1)
	}
}

// measure runs all replays and prints the table to the writer out. It returns the number of
// replays that failed a check.
func measure(ctx context.Context, o options, out io.Writer) (broken int, err error) {
	lab, err := newLab(o)
	if err != nil {
		return 0, err
	}
	defer lab.close()
	if err := lab.reference(ctx); err != nil {
		return 0, fmt.Errorf("a replay that nothing hits: %w", err)
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	say("a replay that nothing hits takes %.1f s; %d replays, seed %d", lab.typical.Seconds(), o.replays, o.seed)
	results := make(chan result)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.parallel)
	go func() {
		for i := range o.replays {
			group.Go(func() error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r := lab.replay(ctx, o.first+i)
				if ctx.Err() == nil {
					results <- r
				}
				return ctx.Err()
			})
		}
		err = group.Wait()
		close(results)
	}()
	t := newTally()
	for r := range results {
		if lab.log != nil {
			_ = lab.log.Encode(r)
		}
		t.add(r)
		if len(r.Broken) > 0 {
			say("replay %d: %s: %s", r.Replay, r.Hit, strings.Join(r.Broken, "; "))
		}
		if t.replays%50 == 0 {
			say("%d of %d replays, %d broke a promise", t.replays, o.replays, t.broken)
		}
	}
	say("\n%s", t.table())
	return t.broken, err
}

// lab has the data that all replays share.
type lab struct {
	options
	log     *json.Encoder
	logFile *os.File
	made    bool // the working directory is the lab's
	typical time.Duration
	want    outcome
	inspect func(record string) // called for each record, if it is set
}

func newLab(o options) (*lab, error) {
	l := &lab{options: o}
	var err error
	if l.program, err = filepath.Abs(o.program); err != nil {
		return nil, err
	}
	if _, err := os.Stat(l.program); err != nil {
		return nil, fmt.Errorf("the program: %w (make build makes it)", err)
	}
	if l.work == "" {
		l.made = true
		if l.work, err = os.MkdirTemp("", "reliability-"); err != nil {
			return nil, err
		}
		// The daemons of root's replays run as another user.
		if err := os.Chmod(l.work, 0o711); err != nil {
			return nil, err
		}
	}
	if l.work, err = filepath.Abs(l.work); err != nil {
		return nil, err
	}
	if o.log != "" {
		if l.logFile, err = os.Create(o.log); err != nil {
			return nil, err
		}
		l.log = json.NewEncoder(l.logFile)
	}
	return l, nil
}

func (l *lab) close() {
	if l.logFile != nil {
		_ = l.logFile.Close()
	}
	if l.made {
		_ = os.RemoveAll(l.work)
	}
}

// reference replays twice without a hit, to measure how long a replay takes and what its result is.
func (l *lab) reference(ctx context.Context) error {
	for range 2 {
		begin := time.Now()
		r := l.run(ctx, "reference", hit{Kind: nothing, Network: "private"}, rand.New(rand.NewPCG(0, 0)))
		if len(r.Broken) > 0 {
			return errors.New(strings.Join(r.Broken, "; "))
		}
		l.typical, l.want = time.Since(begin), r.outcome
	}
	return ctx.Err()
}

// replay runs replay i and disturbs it with a hit.
func (l *lab) replay(ctx context.Context, i int) result {
	random := rand.New(rand.NewPCG(l.seed, uint64(i)))
	h := draw(random, l.typical)
	if l.undisturbed {
		h = hit{Kind: nothing, Network: "private"}
	}
	r := l.run(ctx, fmt.Sprint(i), h, random)
	r.Replay = i
	return r
}
