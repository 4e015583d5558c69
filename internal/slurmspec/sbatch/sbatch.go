// Package sbatch turns a command line of sbatch into an [hpc.Request], as sbatch 22.05 understands
// it. It follows the options of src/common/slurm_opt.c, the syntax of their values
// (src/common/proc_args.c, parse_time.c), the rules of getopt_long, and the values that sbatch
// derives before it submits (src/sbatch/opt.c).
//
// It refuses more than sbatch: a number followed by other text ("--nice=5x"), which sbatch's
// strtol silently ignores; options that name further files to read (--bbf, --nodefile); and
// options with which sbatch submits nothing (--test-only, --help, --usage, --version).
//
// It also reads the words of UB's Slurm simulator, which are not options of sbatch and have a
// single dash:
//
//	-sim-walltime SECONDS   how long the job runs; negative: until its time limit
//	-jid N                  names the job jobid_N, unless -J names it
//	pseudo.job [-sleep S] the script; -sleep S gives the run time as -sim-walltime does
package sbatch

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// Submission is what one command line of sbatch says.
type Submission struct {
	Request hpc.Request
	// RunTime is how long the job runs. It is hpc.Unlimited if the job runs until its time limit, or
	// if the command line does not give a run time.
	RunTime time.Duration
	// Script is the path of the batch script as written, or "".
	Script string
	// Fewer is a warning, which sbatch also prints, that the job gets fewer nodes than its options
	// request; "" for other jobs.
	Fewer string
}

// Parse reads the words of a command line, without the leading "sbatch". Relative
// and absolute times (--begin, --deadline) count from submit, in UTC. The error
// names the option as it was written and says what would be right.
func Parse(words []string, submit hpc.Time) (*Submission, error) {
	p := parser{Submission: Submission{RunTime: hpc.Unlimited}, submit: submit}
	rest, err := p.options(words)
	if err != nil {
		return nil, err
	}
	if err := p.script(rest); err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return &p.Submission, nil
}

// parser collects one command line.
type parser struct {
	Submission
	submit hpc.Time
	jid    string
	given  []*option // every option given so far, for the rules between options
	// recorded is not nil for the command line of a recorded job.
	recorded *recorded
}

// options reads words up to the first that is not an option, as getopt_long does with a leading
// "+", and returns the other words.
func (p *parser) options(words []string) (rest []string, err error) {
	for len(words) > 0 {
		word := words[0]
		switch {
		case word == "--":
			return words[1:], nil
		case len(word) < 2 || word[0] != '-':
			return words, nil
		case isUBWord(word):
			words, err = p.ubWord(words)
		case strings.HasPrefix(word, "-sim"):
			// getopt would read this as -s -i m…, and a mistyped word would lose the run time.
			words, err = words[1:], fmt.Errorf("%s: not an option of sbatch (did you mean -sim-walltime?)", word)
		case strings.HasPrefix(word, "--"):
			words, err = p.longOption(words)
		default:
			words, err = p.shortOptions(words)
		}
		if err != nil {
			if p.recorded == nil {
				return nil, err
			}
			p.recorded.leftOut = append(p.recorded.leftOut, err)
		}
	}
	return nil, nil
}

func isUBWord(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	return name == "-sim-walltime" || name == "-jid"
}

// ubWord reads one of UB's words and its value, and returns the words that follow.
func (p *parser) ubWord(words []string) ([]string, error) {
	name, value, joined := strings.Cut(words[0], "=")
	words = words[1:]
	if !joined {
		if len(words) == 0 {
			return nil, fmt.Errorf("%s: needs a value", name)
		}
		value, words = words[0], words[1:]
	}
	if name == "-jid" {
		if _, err := parseCount(value, 0); err != nil {
			return words, fmt.Errorf("-jid %s: %w", value, err)
		}
		p.jid = value
		return words, nil
	}
	return words, p.runTime(name, value)
}

func (p *parser) runTime(name, value string) error {
	d, err := slurmspec.ParseSeconds(value)
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, value, err)
	}
	if d < 0 {
		d = hpc.Unlimited
	}
	p.RunTime = d
	return nil
}

func (p *parser) longOption(words []string) ([]string, error) {
	written, value, joined := strings.Cut(words[0][2:], "=")
	opt, err := p.findLong(written)
	if err != nil {
		if p.recorded != nil {
			return p.recorded.unknown(words, err), nil
		}
		return nil, err
	}
	words = words[1:]
	if p.recorded != nil && opt.long == "wrap" {
		p.recorded.wrap(words)
		return nil, nil
	}
	switch {
	case opt.arg == noArgument && joined:
		return words, fmt.Errorf("--%s: takes no value", opt.long)
	case opt.arg == requiredArgument && !joined:
		if len(words) == 0 {
			return nil, fmt.Errorf("--%s: needs a value", opt.long)
		}
		value, words, joined = words[0], words[1:], true
	}
	return words, p.apply(opt, "--"+written, value, joined)
}

// shortOptions reads a word like "-n12" or "-Hs", and the value that follows it if its option needs
// a value. It returns the words after these.
func (p *parser) shortOptions(words []string) ([]string, error) {
	word := words[0]
	words = words[1:]
	for i := 1; i < len(word); i++ {
		opt := p.findShort(word[i])
		if opt == nil {
			return words, unknownOption(word, i)
		}
		written := word[:1] + word[i:i+1]
		if opt.arg == noArgument {
			if err := p.apply(opt, written, "", false); err != nil {
				return words, err
			}
			continue
		}
		value, joined := word[i+1:], i+1 < len(word)
		if !joined && opt.arg == requiredArgument {
			if len(words) == 0 {
				return nil, fmt.Errorf("%s: needs a value", written)
			}
			value, words, joined = words[0], words[1:], true
		}
		return words, p.apply(opt, written, value, joined)
	}
	return words, nil
}

// apply carries out an option. written is the option as the user wrote it.
func (p *parser) apply(opt *option, written, value string, hasValue bool) error {
	if opt.set == nil {
		return nil // without effect on scheduling
	}
	if !hasValue {
		value = opt.byDefault
	}
	before := p.Request
	if err := opt.set(p, value); err != nil {
		p.Request = before
		switch {
		case !hasValue:
			return fmt.Errorf("%s: %w", written, err)
		case strings.HasPrefix(written, "--"):
			return fmt.Errorf("%s=%s: %w", written, value, err)
		}
		return fmt.Errorf("%s %s: %w", written, value, err)
	}
	p.given = append(p.given, opt)
	return nil
}

// script reads the words after the options: the script and its arguments.
func (p *parser) script(words []string) error {
	if len(words) == 0 {
		return nil
	}
	p.Script = words[0]
	if words[0] != "pseudo.job" {
		return nil
	}
	for i, word := range words {
		if word == "-sleep" {
			if i+1 == len(words) {
				return errors.New("-sleep: needs a value")
			}
			return p.runTime(word, words[i+1])
		}
	}
	return nil
}

// finish applies the rules between options and fills in what sbatch derives.
func (p *parser) finish() error {
	r := &p.Request
	if r.Name == "" && p.jid != "" {
		r.Name = "jobid_" + p.jid
	}
	if r.Name == "" && p.Script != "" {
		r.Name = path.Base(p.Script)
	}
	for _, group := range exclusiveOptions {
		if err := p.atMostOne(group); err != nil {
			return err
		}
	}
	if r.Hint != "" && p.has("ntasks-per-core", "threads-per-core", "extra-node-info") {
		r.Hint = "" // validate_hint_option in slurm_opt.c drops it
	}
	if r.Deadline != 0 && r.Begin != 0 && r.Deadline < r.Begin {
		return errors.New("--deadline: is before --begin")
	}
	asked := r.MinNodes
	if err := Complete(r); err != nil {
		return err
	}
	if r.MinNodes < asked {
		p.Fewer = fmt.Sprintf("nodes=%d: more nodes than tasks, so the job asks for %d (as sbatch does)", asked, r.MinNodes)
	}
	return nil
}

// exclusiveOptions are sets of options; sbatch accepts only one of each set
// (validate_options_salloc_sbatch_srun in slurm_opt.c).
var exclusiveOptions = [][]string{
	{"mem", "mem-per-cpu", "mem-per-gpu"},
	{"core-spec", "thread-spec"},
	{"ntasks-per-gpu", "gpus-per-task"},
	{"ntasks-per-gpu", "gpus-per-socket"},
	{"ntasks-per-gpu", "ntasks-per-node"},
	{"bb", "bbf"},
}

func (p *parser) atMostOne(names []string) error {
	var first *option
	for _, opt := range p.given {
		if !slices.Contains(names, opt.canonical()) {
			continue
		}
		if first != nil && first.canonical() != opt.canonical() {
			return fmt.Errorf("--%s: excludes --%s", opt.long, first.long)
		}
		first = opt
	}
	return nil
}

func (p *parser) has(names ...string) bool {
	return slices.ContainsFunc(p.given, func(o *option) bool { return slices.Contains(names, o.canonical()) })
}

// Complete fills in the values that sbatch itself derives from the options before it submits
// (_opt_verify in src/sbatch/opt.c), so that the controller receives the same values as from
// sbatch:
//
//   - as many nodes as a node list names;
//   - tasks from --ntasks-per-node and the number of nodes, or from nodes, sockets, cores and
//     threads if the options request these;
//   - no more nodes than tasks;
//   - at least a task's CPUs on every node;
//   - one thread a core for --hint=nomultithread, compute_bound and memory_bound, and one core a
//     socket for memory_bound.
//
// [Parse] calls Complete. A caller that makes a request without [Parse], but with the meaning of
// sbatch's options, must call Complete itself. A second call changes nothing. The error says that
// the node list cannot be read.
func Complete(r *hpc.Request) error {
	applyHint(r)
	if r.NodeList != "" {
		n, err := countDistinct(r.NodeList)
		if err != nil {
			return fmt.Errorf("--nodelist=%s: %w", r.NodeList, err)
		}
		if r.MinNodes < n {
			r.MinNodes = n
		}
	}
	fixedNodes := r.MaxNodes == 0 || r.MinNodes == r.MaxNodes
	if r.TasksPerNode > 0 && r.Tasks == 0 && fixedNodes {
		// Without a number of nodes sbatch sets no number of tasks, and the controller decides.
		r.Tasks = product(r.MinNodes, r.TasksPerNode)
	}
	r.MinCPUsPerNode = max(r.MinCPUsPerNode, r.CPUsPerTask)
	switch {
	case r.Tasks == 0 && fixedNodes && r.MinNodes+r.SocketsPerNode > 0:
		r.Tasks = tasksOfGeometry(r)
	case r.Tasks > 0 && r.MinNodes > 0:
		r.MaxNodes = min(r.MaxNodes, r.Tasks)
		if r.Tasks < r.MinNodes {
			r.MinNodes, r.MaxNodes = r.Tasks, r.Tasks
		}
	}
	return nil
}

func applyHint(r *hpc.Request) {
	for hint := range strings.SplitSeq(r.Hint, ",") {
		switch strings.ToLower(hint) {
		case "compute_bound", "nomultithread":
			r.ThreadsPerCore = 1
		case "memory_bound":
			r.CoresPerSocket, r.ThreadsPerCore = 1, 1
		}
	}
}

// tasksOfGeometry returns the number of tasks that a request for sockets, cores or threads implies:
// one task for each socket, core or thread on every node. It returns 0 for any other request.
func tasksOfGeometry(r *hpc.Request) int {
	if r.SocketsPerNode == 0 && r.CoresPerSocket == 0 && r.ThreadsPerCore == 0 {
		return 0
	}
	return product(max(r.MinNodes, 1), max(r.SocketsPerNode, 1), max(r.CoresPerSocket, 1), max(r.ThreadsPerCore, 1))
}

// product multiplies counts of at most 31 bits and returns at most the largest such count.
func product(factors ...int) int {
	p := 1
	for _, f := range factors {
		p = min(p*f, math.MaxInt32)
	}
	return p
}

func countDistinct(expr string) (int, error) {
	names, err := hostlist.Expand(expr)
	if err != nil {
		return 0, err
	}
	slices.Sort(names)
	return len(slices.Compact(names)), nil
}
