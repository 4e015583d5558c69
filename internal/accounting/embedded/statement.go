package embedded

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/accounting/question"
)

// plan is a question during its compilation to a statement.
type plan struct {
	question.Question
	columns columns
	buckets []*bucket
	span    span              // range of the jobs' ends
	rest    []question.Filter // the other conditions; all must be true
	pruned  []question.Filter // conditions that are true for all jobs in buckets, so that the database can skip other jobs
}

// newPlan checks and analyses a question.
func newPlan(q question.Question) (*plan, error) {
	p := &plan{Question: q, columns: ofJobs(q.Clock)}
	if err := q.Check(); err != nil {
		return nil, err
	}
	p.add(q.Where)
	for i, k := range q.By {
		b, err := newBucket(k, p.columns, q.Clock)
		if err != nil {
			return nil, err
		}
		p.buckets = append(p.buckets, b)
		// Jobs outside of the buckets are needed only if they are counted.
		if edges, ok := k.(question.Instants); ok && (i > 0 || !q.Counted()) {
			p.prune(question.Compare{Column: edges.Column, Op: "<", Value: edges.Edges[len(edges.Edges)-1]})
			if !edges.Before {
				p.prune(question.Compare{Column: edges.Column, Op: ">=", Value: edges.Edges[0]})
			}
		}
	}
	return p, nil
}

// add adds a condition to the range of ends if it limits that range, and to rest otherwise.
func (p *plan) add(f question.Filter) {
	switch of := f.(type) {
	case nil:
	case question.All:
		for _, one := range of {
			p.add(one)
		}
	case question.Any:
		if len(of) == 1 {
			p.add(of[0])
			return
		}
		p.rest = append(p.rest, f)
	default:
		if !p.span.narrow(f) {
			p.rest = append(p.rest, f)
		}
	}
}

// prune adds a condition that is true for all jobs in buckets.
func (p *plan) prune(f question.Filter) {
	if !p.span.narrow(f) {
		p.pruned = append(p.pruned, f)
	}
}

// where returns all conditions on jobs.
func (p *plan) where() ([]part, error) {
	list := p.span.sql()
	for _, f := range slices.Concat(p.rest, p.pruned) {
		one, err := p.columns.filter(f)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// overJobs returns the statement over the table of jobs.
func (p *plan) overJobs() (part, error) {
	where, err := p.where()
	if err != nil {
		return part{}, err
	}
	var groups [][]string
	for _, b := range p.buckets {
		own := b.groups
		if b.of != nil {
			own = []string{b.of(micros(b.instant))}
		}
		groups = append(groups, own)
		for _, text := range b.implied {
			where = append(where, part{text: text})
		}
	}
	var measures []part
	for _, m := range p.Measures {
		one, err := p.columns.measure(m)
		if err != nil {
			return part{}, err
		}
		measures = append(measures, one)
	}
	chosen := join(where, " AND ", "true")
	return p.statement(part{"jobs WHERE " + chosen.text, chosen.args}, groups, measures, "count(*)"), nil
}

// overCells returns the statement over the cells of a rollup, and over those jobs that lack cells.
// It returns false if no rollup can answer the question.
func (p *plan) overCells() (part, bool) {
	chosen, gaps, ok := p.span.split()
	if !ok {
		return part{}, false
	}
	for _, c := range rollups {
		if statement, ok := p.over(c, chosen, gaps); ok {
			return statement, true
		}
	}
	return part{}, false
}

// over does the work of overCells for one rollup.
func (p *plan) over(c cells, days string, gaps []gap) (statement part, ok bool) {
	var groups [][]string
	var needed []string // SQL conditions that are true for all jobs in the answer
	for _, b := range p.buckets {
		own, ok := c.group(b)
		if !ok {
			return part{}, false
		}
		groups, needed = append(groups, own), append(needed, b.implied...)
	}
	var measures []part
	for _, m := range p.Measures {
		one, ok := c.measure(m)
		if !ok {
			return part{}, false
		}
		measures = append(measures, one)
	}
	inside, outside, ok := p.conditions(c, &needed)
	if !ok {
		return part{}, false
	}
	if c.Where != "" { // the rollup contains only jobs that match its Where
		for _, text := range strings.Split(c.Where, " AND ") {
			if !slices.Contains(needed, text) {
				return part{}, false
			}
		}
	}
	number := "NULL::BIGINT"
	if _, ok := c.columns["count(*)"]; ok {
		number = "sum(runs)::BIGINT"
	}
	named := func(text string) bool { return strings.Contains(text, "cluster") }
	source := c.source(days, gaps, inside, slices.ContainsFunc(slices.Concat(groups...), named) ||
		slices.ContainsFunc(measures, func(m part) bool { return named(m.text) }) || named(outside.text))
	source = part{source.text + " WHERE " + outside.text, append(source.args, outside.args...)}
	return p.statement(source, groups, measures, number), true
}

// conditions divides the plan's conditions for use with a rollup. inside are the conditions on the cluster, which the
// SQL applies before it joins cells. outside are the conditions on the rollup's keys. All cells satisfy a condition
// that is a part of the rollup's Where, so conditions only adds it to needed. ok is false if there is any other
// condition.
func (p *plan) conditions(c cells, needed *[]string) (inside, outside part, ok bool) {
	onlyCluster := columns(func(name string) (string, bool) { return name, name == "cluster" })
	var clusters, keys []part
	for _, f := range p.rest {
		if one, err := onlyCluster.filter(f); err == nil {
			clusters = append(clusters, one)
			continue
		}
		if one, err := columns(c.column).filter(f); err == nil {
			keys = append(keys, one)
			continue
		}
		jobs, err := p.columns.filter(f)
		if err != nil || len(jobs.args) > 0 {
			return part{}, part{}, false
		}
		for _, text := range strings.Split(jobs.text, " AND ") {
			if !slices.Contains(strings.Split(c.Where, " AND "), text) {
				return part{}, part{}, false
			}
			*needed = append(*needed, text)
		}
	}
	return join(clusters, " AND ", "true"), join(keys, " AND ", "true"), true
}

// maxGroups is the highest number of groups of texts that a statement returns: the largest groups.
const maxGroups = 20_000

// statement returns a SELECT from source: the keys, the measures, and the number of jobs (or NULL).
func (p *plan) statement(source part, groups [][]string, measures []part, number string) part {
	var list, by, order []string
	var args []any
	var texts *question.Values
	for i, own := range groups {
		by = append(by, own...)
		names := []any{own[0], own[len(own)-1]}
		key := fmt.Sprintf(p.buckets[i].key, names[:len(own)]...)
		if texts = cmp.Or(p.buckets[i].values, texts); p.buckets[i].values != nil {
			key = cut(key)
		}
		list, order = append(list, fmt.Sprintf("%s AS k%d", key, i)), append(order, fmt.Sprintf("k%d", i))
	}
	for i, m := range measures {
		list, args = append(list, fmt.Sprintf("%s AS m%d", m.text, i)), append(args, m.args...)
	}
	text := "SELECT " + strings.Join(append(list, number+" AS n"), ", ") + " FROM " + source.text
	if len(by) > 0 {
		text += " GROUP BY " + strings.Join(by, ", ")
	}
	switch {
	case texts != nil && len(groups) == 1 && texts.First:
		// Rows with equal measures are ordered first by the text as shown, which is shortened, and then by the whole text.
		text += fmt.Sprintf(" ORDER BY coalesce(m%d, 0) DESC, k0, %s LIMIT %d", texts.By, strings.Join(by, ", "), texts.Most)
	case texts != nil:
		text += fmt.Sprintf(" ORDER BY n DESC LIMIT %d", maxGroups+1)
	case len(groups) > 0:
		text += " ORDER BY " + strings.Join(order, ", ")
	}
	return part{text, append(args, source.args...)}
}

// choose sorts rows by their keys, beginning with the key number from. If this key is a key of texts, choose returns
// only the first buckets, and left is the number of jobs in the other buckets. In a row, the number of jobs comes
// after the measures.
func (p *plan) choose(rows [][]any, from int) (chosen [][]any, left int64) {
	if from == len(p.buckets) {
		return rows, 0
	}
	b, number := p.buckets[from], len(p.buckets)+len(p.Measures)
	type group struct {
		rows   [][]any
		weight float64
		jobs   int64
	}
	all := make(map[any]*group)
	for _, row := range rows {
		g := all[row[from]]
		if g == nil {
			g = &group{}
			all[row[from]] = g
		}
		jobs, _ := row[number].(int64)
		g.rows, g.jobs = append(g.rows, row), g.jobs+jobs
		switch m := any(jobs); {
		case b.values == nil:
		case from == len(p.buckets)-1:
			m = row[len(p.buckets)+b.values.By]
			fallthrough
		default:
			if n, ok := m.(float64); ok {
				g.weight += n
			} else if n, ok := m.(int64); ok {
				g.weight += float64(n)
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(all), func(x, y any) int {
		if text, ok := x.(string); ok {
			return cmp.Or(cmp.Compare(all[y].weight, all[x].weight), strings.Compare(text, y.(string)))
		}
		n, _ := x.(int64)
		other, _ := y.(int64)
		return cmp.Compare(n, other)
	})
	for i, key := range keys {
		if b.values != nil && i >= b.values.Most {
			left += all[key].jobs
			continue
		}
		inner, others := p.choose(all[key].rows, from+1)
		chosen, left = append(chosen, inner...), left+others
	}
	return chosen, left
}
