package slurm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// permission lists the command lines of a program that an action may run without the user's
// consent. People exchange workloads, and some subcommands write files or run programs: "scontrol
// write config PATH", "sacctmgr dump file=PATH", "sacctmgr archive dump script=PROGRAM".
type permission struct {
	// subcommands are the permitted subcommands.
	subcommands []string
	// letters and options are the permitted options. Options with an argument are not permitted: the
	// program takes the next word as the argument, and permits would take it as the subcommand.
	letters string
	options []string
}

// permissions are the programs that need a permission. The other [actionCommands] only print, or
// only cancel jobs. The lists follow scontrol(1) and sacctmgr(1) of Slurm 22.05.
var permissions = map[string]permission{
	"scontrol": {
		subcommands: []string{
			"cancel_reboot", "create", "delete", "hold", "ping", "reconfigure", "release", "requeue", "requeuehold",
			"resume", "setdebug", "setdebugflags", "show", "suspend", "top", "uhold", "update", "version",
		},
		letters: "adoQv",
		options: []string{"--all", "--details", "--hide", "--local", "--oneliner", "--quiet", "--verbose"},
	},
	"sacctmgr": {
		subcommands: []string{"add", "create", "delete", "list", "modify", "ping", "remove", "show", "update", "version"},
		letters:     "inpPQrsv",
		options: []string{
			"--associations", "--immediate", "--noheader", "--parsable", "--parsable2", "--quiet", "--readonly", "--verbose",
		},
	},
}

// shortest is the smallest number of letters to which an action may abbreviate a subcommand.
const shortest = 3

// CheckPermitted returns an error for an action that could write arbitrary files or run arbitrary programs. The user
// who replays the workload must consent to such an action. The error gives the action's instant in the given time zone.
func CheckPermitted(a hpc.Action, zone *time.Location) error {
	if a.Shell != "" {
		return fmt.Errorf("the action at %s is a shell line (%.60q): it runs only with --allow-shell, because a "+
			"shell can do whatever you can do", a.At.Text(zone), a.Shell)
	}
	if len(a.Run) == 0 {
		return nil
	}
	p, restricted := permissions[a.Run[0]]
	if !restricted {
		return nil
	}
	if what, permitted := p.permits(a.Run[1:]); !permitted {
		return fmt.Errorf("the action at %s, %s: %s may write files or run programs, and needs --allow-shell "+
			"(without it %s may %s, after options such as %s)",
			a.At.Text(zone), describeAction(a), what, a.Run[0], strings.Join(p.subcommands, ", "), p.options[len(p.options)-1])
	}
	return nil
}

// permits reports whether arguments begin with permitted options and a permitted subcommand. If they do not, the result
// what is the word that is not permitted.
func (p *permission) permits(arguments []string) (what string, permitted bool) {
	for _, word := range arguments {
		switch {
		case strings.HasPrefix(word, "--"):
			if !slices.Contains(p.options, word) {
				return "the option " + word, false
			}
		case strings.HasPrefix(word, "-"):
			if word == "-" || strings.Trim(word[1:], p.letters) != "" {
				return "the option " + word, false
			}
		default:
			return word, p.permitsSubcommand(word)
		}
	}
	return "no subcommand", false
}

// permitsSubcommand reports whether word is a permitted subcommand or, as Slurm accepts, the
// beginning of one. Upper and lower case are equal.
func (p *permission) permitsSubcommand(word string) bool {
	lower := strings.ToLower(word)
	return slices.ContainsFunc(p.subcommands, func(name string) bool {
		return lower == name || len(lower) >= shortest && strings.HasPrefix(name, lower)
	})
}
