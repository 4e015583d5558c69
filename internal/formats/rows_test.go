package formats

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rmreplay/internal/workload"
)

// refusing are the formats whose readers end with an error at a record that is not a job.
var refusing = []string{"trace", "events", "csv"}

// TestRows checks for every format that each record of a file becomes a job or is counted under a
// rule.
func TestRows(t *testing.T) {
	for _, f := range hostileFormats {
		t.Run(f.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var list []string
				good := 2 // the records that the file has before and after the list
				for n := range rapid.IntRange(1, 6).Draw(t, "records") {
					id, submit := fmt.Sprint(n+10), fmt.Sprint(n)
					kind := rapid.SampledFrom([]string{"good", "good", "again", "no size", "no submission", "noise"}).Draw(t, "kind")
					switch kind {
					case "good":
						good++
						list = append(list, f.record(id, submit, "4", id))
					case "again":
						list = append(list, f.record("1", "0", "4", "1"))
					case "no size":
						list = append(list, f.record(id, submit, "0", id))
					case "no submission":
						list = append(list, f.record(id, "-1", "4", id))
					case "noise":
						list = append(list, noise(f.name, n))
					}
				}
				between := ""
				if strings.Contains(f.name, "json") || f.name == "batsim" {
					between = ",\n"
				}
				w, err := Read(strings.NewReader(f.file(strings.Join(list, between))), "file", workload.ReadOptions{})
				switch {
				case err != nil && slices.Contains(refusing, f.name):
				case err != nil:
					t.Fatal(err)
				case slices.Contains(refusing, f.name):
					if w.Jobs.Len() != len(list)+2 {
						t.Fatalf("%d jobs of %d records, rules %v", w.Jobs.Len(), len(list)+2, w.Rules)
					}
				case w.Rows.Read != len(list)+2 || w.Rows.Lost() != 0 || w.Rows.Jobs < good || w.Jobs.Len() != w.Rows.Jobs:
					t.Fatalf("%d records, %d of them good, %d jobs: rows %+v, rules %v", len(list)+2, good, w.Jobs.Len(), w.Rows, w.Rules)
				}
			})
		})
	}
}

// noise is a text that is not a record of a format.
func noise(format string, n int) string {
	if strings.Contains(format, "json") || format == "batsim" {
		return fmt.Sprintf(`{"x":%d}`, n)
	}
	return strings.Repeat("x|", 12) + "\n" // more fields than the header of sacct has
}
