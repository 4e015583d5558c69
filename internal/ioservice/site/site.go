// Package site has the files that a site needs besides the service, and writes the table of classes
// that they read.
package site

import (
	"cmp"
	_ "embed" // for the files
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"rmreplay/internal/ioservice"
)

//go:embed job_submit.lua
var lua string

//go:embed hold.lua
var hold string

//go:embed epilog.sh
var epilog string

// File is a file for the site.
type File struct{ Name, Text, Doc string }

// Files are the files for the site.
var Files = []File{
	{"job_submit.lua", lua, "gives each job its class, and the licences of the class table"},
	{"hold.lua", hold, "submits jobs held, for io schedule (as job_submit.lua)"},
	{"epilog.sh", epilog, "tells the service that a job has ended (EpilogSlurmctld)"},
}

// mostRows bounds the class table, which slurmctld reads at each submission.
const mostRows = 10_000

// Table writes one line for each class that has a name, ordered by name: the name, its licenses and
// its minutes. licenses is the number that exist: a class gets no more, since slurmctld would
// refuse its jobs. If there are too many classes, those with the fewest jobs are left out.
func Table(w io.Writer, classes []ioservice.Forecast, licenses int64) error {
	for _, c := range rows(classes) {
		if _, err := fmt.Fprintf(w, "%s %d %d\n", c.Name, min(c.Licenses, licenses), c.Minutes); err != nil {
			return err
		}
	}
	return nil
}

func rows(classes []ioservice.Forecast) []ioservice.Forecast {
	var named []ioservice.Forecast
	for _, c := range classes {
		if c.Name != "" && !strings.ContainsFunc(c.Name, unicode.IsSpace) {
			named = append(named, c)
		}
	}
	if len(named) > mostRows {
		slices.SortStableFunc(named, func(a, b ioservice.Forecast) int { return cmp.Compare(b.Jobs, a.Jobs) })
		named = named[:mostRows]
	}
	slices.SortFunc(named, func(a, b ioservice.Forecast) int { return cmp.Compare(a.Name, b.Name) })
	return named
}
