package cli

import (
	"fmt"

	"rmreplay/internal/cli/completion"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/formats"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/workload/build"
	"rmreplay/internal/workload/chart"
)

// flagValues are the values that a shell completes.
var flagValues = completion.Values{
	"by":               console.Groupings,
	"clock":            func() []string { return []string{"frozen", "measured", "measured=", "charged="} },
	"feedback":         modelNames,
	"from":             kindNames,
	"launch-delay":     func() []string { return delays },
	"prolog-delay":     func() []string { return delays },
	"epilog-delay":     func() []string { return delays },
	"on":               func() []string { return []string{onLocal, onSlurm} },
	"plot-format":      func() []string { return chart.Formats },
	"policy":           policyNames,
	"sessions":         func() []string { return []string{"arrival:60m", "last:20m", "max:20m"} },
	"ties":             func() []string { return []string{string(sim.EndsFirst), string(sim.ArrivalsFirst)} },
	"time-limit":       func() []string { return []string{limitAsked, limitTwice} },
	"time-limit-model": func() []string { return []string{"tsafrir"} },
	"timezone":         func() []string { return zones },
	"to":               formats.Names,
}

// delays are the distributions of delays.
var delays = []string{"uniform:", "exp:", "lognormal:"}

// zones are examples of time zones. The flag takes all names of the IANA database.
var zones = []string{
	"UTC", "Local", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/New_York", "America/Sao_Paulo",
	"Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney", "Europe/Berlin", "Europe/London", "Europe/Paris", "Europe/Zurich",
}

func policyNames() (names []string) {
	for _, p := range policy.List() {
		names = append(names, fmt.Sprintf("%s\t%s", p.Name, p.Doc))
	}
	return names
}

func kindNames() (names []string) {
	for _, k := range build.Kinds {
		names = append(names, string(k))
	}
	return names
}
