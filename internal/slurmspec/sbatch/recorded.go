package sbatch

import (
	"path"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
)

// Recorded is what the command line of a recorded job says.
type Recorded struct {
	Submission
	// LeftOut has an error for each option that could not be read, as [Parse] would return it.
	LeftOut []error
	// Wrapped says that options follow --wrap. Options after --wrap belong to the wrapped command or to sbatch, and were
	// not read.
	Wrapped bool
}

// ParseRecorded reads the command line of a recorded job, from sacct's column SubmitLine or the
// column submit_line of slurmdbd's database. script are the words of the batch script's #SBATCH
// lines.
//
// Slurm records the words of a command line with blanks between them and without the quotes that the shell removed
// (slurm_option_get_argv_str in src/common/slurm_opt.c). So the line does not show where a word with blanks ends.
// ParseRecorded therefore stops at the script, or at --wrap, whose value is a command with options of its own. values
// are the texts of other columns, such as the job's name. If the text of another column has blanks and occurs in the
// line, the text is one word.
//
// ParseRecorded leaves out an option that it does not know or whose value it cannot read, and
// reads the others. It knows the options of sbatch, salloc and srun of Slurm 22.05 to 26.05. The
// error says that the options contradict each other.
func ParseRecorded(script []string, line string, values []string, submit hpc.Time) (*Recorded, error) {
	p := parser{Submission: Submission{RunTime: hpc.Unlimited}, submit: submit, recorded: &recorded{others: laterOptions}}
	if _, err := p.options(script); err != nil {
		return nil, err
	}
	var rest []string
	if words := splitRecorded(line, values); len(words) > 0 {
		if path.Base(words[0]) != "sbatch" {
			p.recorded.others = stepOptions
		}
		var err error
		if rest, err = p.options(words[1:]); err != nil {
			return nil, err
		}
	}
	if err := p.script(rest); err != nil {
		return nil, err
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return &Recorded{Submission: p.Submission, LeftOut: p.recorded.leftOut, Wrapped: p.recorded.wrapped}, nil
}

// recorded is a parser's data about a recorded command line, and the results that a [Submission]
// cannot hold.
type recorded struct {
	others  map[string]*option // options that sbatch 22.05 lacks, by name or letter
	leftOut []error
	wrapped bool
}

// splitRecorded splits a recorded command line. If the quotes of the line do not match, they were
// characters of its words, and splitRecorded keeps them.
func splitRecorded(line string, values []string) []string {
	plain := func(text string) string { return text }
	if _, err := Split(line); err != nil {
		plain = strings.NewReplacer(`'`, `\'`, `"`, `\"`, `\`, `\\`).Replace
		line = plain(line)
	}
	for _, value := range values {
		if strings.Contains(value, " ") {
			line = joinValue(line, plain(value))
		}
	}
	words, err := Split(line)
	if err != nil {
		return strings.Fields(line)
	}
	return words
}

// joinValue makes one word of the first occurrence of a value that follows an option.
func joinValue(line, value string) string {
	at := strings.Index(line, value)
	end := at + len(value)
	if at < 2 || end < len(line) && line[end] != ' ' {
		return line
	}
	if before := line[at-1]; before != ' ' && before != '=' {
		return line // in quotes, or within a word
	}
	return line[:at] + strings.ReplaceAll(value, " ", `\ `) + line[end:]
}

// unknown leaves out a word with an option that the parser does not know, and returns the words after the option. A
// number that follows is the option's value, because no script has a number as its name.
func (r *recorded) unknown(words []string, cause error) []string {
	r.leftOut = append(r.leftOut, cause)
	joined := strings.Contains(words[0], "=")
	words = words[1:]
	if !joined && len(words) > 0 {
		if _, err := strconv.Atoi(words[0]); err == nil {
			return words[1:]
		}
	}
	return words
}

// wrap handles the words after --wrap. The words begin with the value of --wrap, whose end is not known, so the parser
// reads none of them.
func (r *recorded) wrap(words []string) {
	for _, word := range words {
		r.wrapped = r.wrapped || len(word) > 1 && word[0] == '-'
	}
}

// laterOptions are options that sbatch got between Slurm 23.02 and 26.05. sbatch 22.05 does not
// have them. For options that decide where or when a job runs, the setter is the function later.
var laterOptions = optionsByName([]*option{
	{long: "consolidate-segments", set: later},
	{long: "resources", arg: requiredArgument, set: later},
	{long: "segment", arg: requiredArgument, set: later},
	{long: "spread-segments", set: later},
	{long: "tres-per-task", arg: requiredArgument, set: later},
	{long: "container-id", arg: requiredArgument},
	{long: "container-type", arg: requiredArgument},
	{long: "external"},
	{long: "extra", arg: requiredArgument},
	{long: "mem-update", arg: requiredArgument},
	{long: "oom-kill-step", arg: optionalArgument},
	{long: "resv-ports", arg: optionalArgument},
	{long: "stepmgr"},
	{long: "tres-bind", arg: requiredArgument, set: later},
})

// stepOptions are the options of srun and salloc that sbatch does not have, and that decide about steps and terminals.
// Some share their letter with an option of sbatch.
var stepOptions = func() map[string]*option {
	m := optionsByName([]*option{
		{long: "accel-bind", arg: requiredArgument},
		{long: "async"},
		{long: "bcast", arg: optionalArgument},
		{long: "bcast-exclude", arg: requiredArgument},
		{long: "bell"},
		{long: "compress", arg: optionalArgument},
		{long: "cpu-bind", arg: requiredArgument},
		{long: "cpu_bind", arg: requiredArgument},
		{long: "disable-status", short: 'X'},
		{long: "epilog", arg: requiredArgument},
		{long: "exact"},
		{long: "external-launcher", arg: optionalArgument},
		{long: "het-group", arg: requiredArgument},
		{long: "ignore-signals", arg: requiredArgument},
		{long: "immediate", short: 'I', arg: optionalArgument},
		{long: "interactive"},
		{long: "jobid", arg: requiredArgument},
		{long: "kill-command", arg: optionalArgument},
		{long: "kill-on-bad-exit", short: 'K', arg: optionalArgument},
		{long: "label", short: 'l'},
		{long: "mpi", arg: requiredArgument},
		{long: "msg-timeout", arg: requiredArgument},
		{long: "multi-prog"},
		{long: "no-allocate", short: 'Z'},
		{long: "no-bell"},
		{long: "no-shell"},
		{long: "overlap", arg: optionalArgument},
		{long: "pack-group", arg: requiredArgument},
		{long: "preserve-env", short: 'E'},
		{long: "prolog", arg: requiredArgument},
		{long: "pty", arg: optionalArgument},
		{long: "quit-on-interrupt"},
		{long: "relative", short: 'r', arg: requiredArgument},
		{long: "send-libs", arg: optionalArgument},
		{long: "slurmd-debug", arg: requiredArgument},
		{long: "task-epilog", arg: requiredArgument},
		{long: "task-prolog", arg: requiredArgument},
		{long: "threads", short: 'T', arg: requiredArgument},
		{long: "treewidth", arg: requiredArgument},
		{long: "unbuffered", short: 'u'},
		{long: "wait", short: 'W', arg: requiredArgument},
		{long: "wait-for-children"},
		{long: "whole"},
		{long: "x11", arg: optionalArgument},
	})
	for name, opt := range laterOptions {
		m[name] = opt
	}
	return m
}()

// later is the setter of an option whose effect this software does not know.
var later = refuse("not known to sbatch 22.05")

// optionsByName maps each option from its long name and from its letter.
func optionsByName(options []*option) map[string]*option {
	m := make(map[string]*option, len(options))
	for _, o := range options {
		m[o.long] = o
		if o.short != 0 {
			m[string(rune(o.short))] = o
		}
	}
	return m
}
