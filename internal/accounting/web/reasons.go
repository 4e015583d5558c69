package web

import (
	"cmp"
	"slices"
	"strings"

	"rmreplay/internal/waits"
)

// groups is the panel that groups jobs by the column in the request.
const groups = "groups"

// partial is the note of panels about the parts of the waits.
const partial = "Unknown is the part that documents do not explain. Documents of Slurm say only how long jobs " +
	"depended on others. Runs of rmreplay have all parts. Imported accounting records have no part of limits, and each " +
	"task of an array is divided without the others, so rmreplay metrics may print other parts for such records."

// shapeReasons makes a row for each part of the waits, the largest part first.
func shapeReasons(r *request, _ *sizes, raw [][]any) *table {
	t := &table{bar: 1, Columns: []column{{"part", "waiting for", "", word},
		{"waited", "waited", "h", hours}, {"share", "share", "%", percent}, {"wait", "mean wait", "s", seconds}}}
	if len(raw) == 0 {
		return t
	}
	mean, sums := value(raw[0][0]), raw[0][1:]
	all, order := 0.0, []int{}
	for i, sum := range sums {
		if n := value(orZero(sum)); n > 0 {
			all, order = all+n, append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(value(sums[b]), value(sums[a])) })
	if len(order) > 0 {
		t.notes = append(t.notes, partial)
	}
	for _, i := range order {
		n, part := value(sums[i]), waits.Parts[i]
		t.Rows = append(t.Rows, []any{part.Words(), n / 3600, ratio(n, all), mean * n / all})
		t.links = append(t.links, r.add("wait_"+string(part)+"_s>0"))
	}
	return t
}

// shapeGroups makes a row for each group of jobs with the same value in the column r.by. A row has
// the shares of all parts of the waits that occur in any of the groups.
func shapeGroups(r *request, _ *sizes, raw [][]any) *table {
	t := &table{bar: 2, Columns: []column{{r.by, strings.TrimSuffix(r.by, "_name"), "", word},
		{"jobs", "jobs", "", count}, {"waited", "waited", "h", hours}, {"wait", "mean wait", "s", seconds},
		{"wait_since_eligible", "mean wait since eligible", "s", seconds}}}
	for _, row := range raw {
		t.Rows = append(t.Rows, []any{row[0], row[1], inHours(row[2]), row[3], row[4]})
		t.links = append(t.links, r.only(r.by, row[0].(string)))
	}
	for i, part := range waits.Parts {
		if !slices.ContainsFunc(raw, func(row []any) bool { return value(row[5+i]) > 0 }) {
			continue
		}
		t.notes = []string{partial}
		t.Columns = append(t.Columns, column{"wait_" + string(part), part.Words(), "%", percent})
		for k, row := range raw {
			t.Rows[k] = append(t.Rows[k], ratio(value(orZero(row[5+i])), value(row[2])))
		}
	}
	return t
}
