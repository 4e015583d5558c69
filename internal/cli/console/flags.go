package console

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WantArgs accepts exactly the named arguments.
func WantArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s is missing", names[len(args)])
		case len(args) > len(names):
			return fmt.Errorf("%q: unexpected argument", args[len(names)])
		}
		for i, name := range names {
			if args[i] == "" {
				return fmt.Errorf("%s is empty", name)
			}
		}
		return nil
	}
}

// InOrder adds the right order of a command's arguments to an error if swapped is true. The caller sets swapped
// if a later argument is of the kind that the first argument should be.
func InOrder(err error, swapped bool, order string) error {
	if err == nil || !swapped {
		return err
	}
	return fmt.Errorf("%w; the arguments are in the wrong order (want %s)", err, order)
}

// WantPage returns an error if the value of a flag is not a name for an HTML page.
func WantPage(flag, path string) error {
	switch ext := filepath.Ext(path); strings.ToLower(ext) {
	case "", ".html", ".htm", ".xhtml":
		return nil
	default:
		return Usagef("--%s %s: the page is HTML, not %s (want a name that ends in .html)", flag, path, ext[1:])
	}
}

// WantRuns accepts minRuns or more arguments.
func WantRuns(minRuns int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < minRuns {
			return fmt.Errorf("%d given (want %d or more runs)", len(args), minRuns)
		}
		if slices.Contains(args, "") {
			return errors.New("RUN is empty")
		}
		return nil
	}
}

// AtMost accepts no more than n arguments.
func AtMost(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%q: unexpected argument", args[n])
		}
		return nil
	}
}

// Require makes flags of a command required. The program checks before the command runs that they
// are given.
func Require(c *cobra.Command, names ...string) {
	for _, name := range names {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // cannot happen: the flag was added before
		}
	}
}

// AddCount adds a flag whose value is a whole number, 1 or more. value is the flag's default; 0 means that the flag
// has no default.
func AddCount(f *pflag.FlagSet, to *int, name string, value int, usage string) {
	*to = value
	f.Var((*count)(to), name, usage)
}

// count is the value of a flag that [AddCount] adds.
type count int

func (c *count) String() string { return strconv.Itoa(int(*c)) }

func (*count) Type() string { return "int" }

// Set refuses numbers below 1. A user who wants the default leaves the flag out.
func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return errors.New("not a whole number (want 1 or more)")
	case n < 1:
		return errors.New("want 1 or more")
	}
	*c = count(n)
	return nil
}

// The flags below belong to several commands and have one meaning everywhere.

// AddJSON adds --json. Every command that prints a result has it.
func AddJSON(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "json", false, "print one JSON object")
}

// AddOutput adds -o, --output.
func AddOutput(f *pflag.FlagSet, to *string, usage string) {
	f.StringVarP(to, "output", "o", "", usage)
}

// AddSeed adds --seed. The parameter what completes the usage text: the purpose of the random
// numbers.
func AddSeed(f *pflag.FlagSet, to *uint64, what string) {
	f.Uint64Var(to, "seed", 1, "`SEED` of the random numbers for "+what)
}

// AddSlurm adds --slurm, which names the Slurm to run.
func AddSlurm(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "slurm", "", "which Slurm: the `DIR` of a site's build or of the root of an image, or the version of "+
		"an installed release (default $RMREPLAY_SLURM, or the machine's own)")
}

// AddQuiet adds -q, --quiet.
func AddQuiet(f *pflag.FlagSet, to *bool) {
	f.BoolVarP(to, "quiet", "q", false, "show no progress")
}

// AddParallel adds -j, --parallel. [CheckParallel] checks its value, and [AtOnce] applies the default.
func AddParallel(f *pflag.FlagSet, to *int, what string) {
	f.IntVarP(to, "parallel", "j", 0, "make at most `N` "+what+" at the same time (default: one for each CPU)")
}

// AtOnce returns the value of --parallel, or the number of CPUs if the value is 0.
func AtOnce(parallel int) int { return cmp.Or(parallel, runtime.NumCPU()) }

// CheckParallel checks the value of --parallel.
func CheckParallel(n int) error {
	if n < 0 {
		return Usagef("--parallel %d: negative (want 1 or more, or 0 for one for each CPU)", n)
	}
	return nil
}
