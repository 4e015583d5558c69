package table

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rmreplay/internal/workload"
)

// rowsMap is a map of a table with the columns that a job needs.
const rowsMap = `delimiter: ","
zone: UTC
fields:
  id: "id"
  submit: {column: "submit", time: "unix"}
  start: {column: "start", time: "unix"}
  end: {column: "end", time: "unix"}
  cpus: "cpus"
  state: "state"
`

// TestRandomRows checks that each row of a table becomes a job or is counted under a rule.
func TestRandomRows(t *testing.T) {
	m, err := ParseMap([]byte(rowsMap), "map.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{
		"good": "%d,1709280000,1709280060,1709280120,4,COMPLETED", "never started": "%d,1709280000,None,1709280120,4,CANCELLED by 7",
		"again": "0,1709280000,1709280060,1709280120,4,COMPLETED", "no size": "%d,1709280000,1709280060,1709280120,0,COMPLETED",
		"no submission": "%d,,1709280060,1709280120,4,COMPLETED", "backwards": "%d,1709280000,1709280160,1709280120,4,COMPLETED",
		"short": "%d,1709280000", "noise": "x%d,y,z,,,", "long": "%d,1709280000,1709280060,1709280120,4,COMPLETED,more",
	}
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		text := "id,submit,start,end,cpus,state\n" + fmt.Sprintf(kinds["good"], 0) + "\n"
		n, good := 1, 1
		for range rapid.IntRange(0, 6).Draw(t, "rows") {
			kind := rapid.SampledFrom(names).Draw(t, "kind")
			row := kinds[kind]
			if strings.Contains(row, "%d") {
				row = fmt.Sprintf(row, n)
			}
			text += row + "\n"
			if n++; kind == "good" || kind == "never started" {
				good++
			}
		}
		w, _, err := readWith(m, text, workload.ReadOptions{})
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if w.Rows.Read != n || w.Rows.Lost() != 0 || w.Rows.Jobs != w.Jobs.Len() || w.Jobs.Len() < good {
			t.Fatalf("%d rows, %d of them good, %d jobs: rows %+v, rules %v of\n%s", n, good, w.Jobs.Len(), w.Rows, w.Rules, text)
		}
	})
}
