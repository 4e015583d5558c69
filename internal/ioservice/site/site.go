// Package site has the files that a site needs in addition to the service, and writes the class
// table that these files read.
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
	{"hold.lua", hold, "holds jobs at submission, for io schedule (install as job_submit.lua)"},
	{"epilog.sh", epilog, "tells the service that a job has ended (EpilogSlurmctld)"},
}

// maxRows is the highest number of rows in the class table, which slurmctld reads at each
// submission.
const maxRows = 10_000

// Table writes a line for each class with a name, sorted by name: the name, the licenses and the
// minutes. licenses is the number of existing licenses. The number in a line is never higher,
// because slurmctld would refuse the jobs of the class. If there are too many classes, the classes
// with the fewest jobs are left out.
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
	if len(named) > maxRows {
		slices.SortStableFunc(named, func(a, b ioservice.Forecast) int { return cmp.Compare(b.Jobs, a.Jobs) })
		named = named[:maxRows]
	}
	slices.SortFunc(named, func(a, b ioservice.Forecast) int { return cmp.Compare(a.Name, b.Name) })
	return named
}
