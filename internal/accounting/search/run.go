package search

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/accounting/search/query"
	"rmreplay/internal/accounting/store"
)

// bucket is one bucket in the result of an aggregation.
type bucket struct {
	keys    []any // keys of the buckets that contain this one, outermost first, and then its own key
	count   int64
	outputs map[string][]any // values of the metrics
	below   map[string]*group
}

// group has those buckets of one aggregation that are inside one bucket of the aggregation one level higher.
type group struct {
	list  []*bucket
	total int64 // number of jobs in all buckets with enough jobs, including the buckets beyond size
}

// key returns the bucket's own key.
func (b *bucket) key() any { return b.keys[len(b.keys)-1] }

func newBucket(keys []any, count int64) *bucket {
	return &bucket{keys: keys, count: count, outputs: map[string][]any{}, below: map[string]*group{}}
}

// node is a bucket aggregation. path has the bucket aggregations that contain it, outermost first.
type node struct {
	path []*buckets
	self *aggregation
}

// run computes the buckets of all aggregations below a root bucket. The parameter from is the
// statement's FROM clause and condition.
func (root *aggregation) run(v *store.Snapshot, from query.SQL) (*bucket, error) {
	e := &evaluation{v: v, from: from}
	top := newBucket(nil, 0)
	index := map[string]*bucket{"": top}
	return top, e.level(node{self: root}, index)
}

// evaluation is the computation of one request's aggregations.
type evaluation struct {
	v     *store.Snapshot
	from  query.SQL
	total int // number of buckets so far
}

func tooMany() error {
	return query.Fault(400, "too_many_buckets_exception",
		"Trying to create too many buckets. Must be less than or equal to: ["+strconv.Itoa(maxBuckets)+"]")
}

// level computes the buckets of one aggregation, and then the buckets of its children. The map
// above contains the buckets of the aggregation one level higher, by their keys.
func (e *evaluation) level(n node, above map[string]*bucket) error {
	found := above
	if n.self.buckets != nil {
		found = make(map[string]*bucket)
	}
	if err := e.query(n, above, found); err != nil {
		return err
	}
	for _, child := range n.self.children {
		if child.buckets == nil {
			continue
		}
		path := n.path
		if n.self.buckets != nil {
			path = append(slices.Clone(n.path), n.self.buckets)
		}
		if len(found) == 0 {
			continue
		}
		if err := e.level(node{path: path, self: child}, found); err != nil {
			return err
		}
	}
	return nil
}

// query runs the statement of one aggregation. The statement groups jobs by the keys of the enclosing aggregations and
// by the aggregation's own key. It computes the metrics that are direct children of the aggregation.
func (e *evaluation) query(n node, above, found map[string]*bucket) error {
	path := n.path
	if own := n.self.buckets; own != nil {
		path = append(slices.Clone(path), own)
	}
	statement, outputs := e.statement(n, path, above)
	rows, err := e.v.Query(statement.Text, statement.Args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	values := make([]any, len(path)+2+outputs)
	pointers := make([]any, len(values))
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return err
		}
		b, err := e.bucket(n, values[:len(path)], values[len(path)].(int64), values[len(path)+1].(int64), above, found)
		if err != nil {
			return err
		}
		at := len(path) + 2
		for _, child := range n.self.children {
			if b != nil && child.metric != nil {
				b.outputs[child.name] = slices.Clone(values[at : at+len(child.metric.outputs)])
				at += len(child.metric.outputs)
			}
		}
	}
	return rows.Err()
}

// bucket returns the bucket of a row, or nil if the row belongs to a bucket that a higher level
// omitted.
func (e *evaluation) bucket(n node, keys []any, count, total int64, above, found map[string]*bucket) (*bucket, error) {
	if n.self.buckets == nil {
		above[""].count = count
		return above[""], nil
	}
	if e.total++; e.total > maxBuckets {
		return nil, tooMany()
	}
	parent, ok := above[keyPath(keys[:len(keys)-1])]
	if !ok {
		return nil, nil
	}
	b := newBucket(slices.Clone(keys), count)
	found[keyPath(keys)] = b
	g := parent.below[n.self.name]
	if g == nil {
		g = &group{total: total}
		parent.below[n.self.name] = g
	}
	g.list = append(g.list, b)
	return b, nil
}

// keyPath encodes a list of keys as one text.
func keyPath(keys []any) string {
	var b strings.Builder
	for _, k := range keys {
		s := fmt.Sprint(k)
		fmt.Fprintf(&b, "%d:%s", len(s), s)
	}
	return b.String()
}

// statement returns the statement of a level, and the number of columns with metrics. Its columns
// are the keys, the number of jobs, the number of jobs in all buckets of the same group, and the
// outputs.
func (e *evaluation) statement(n node, path []*buckets, above map[string]*bucket) (statement query.SQL, outputs int) {
	var keys []string
	for i := range path {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	inner, aggregates := e.inner(n, path, keys)
	where := []query.SQL{}
	for _, k := range keys {
		where = append(where, query.SQL{Text: k + " IS NOT NULL"})
	}
	if restriction, ok := restrict(n.path, keys, above); ok {
		where = append(where, restriction)
	}
	all := append(append(slices.Clone(keys), "count(*) AS c"), aggregates...)
	grouped := query.Expression("SELECT "+strings.Join(all, ", ")+" FROM (%s) WHERE %s", inner, query.And(where))
	if len(keys) == 0 {
		return query.Expression("SELECT c, c AS total, * EXCLUDE (c) FROM (%s)", grouped), len(aggregates)
	}
	own := n.self.buckets
	grouped.Text += " GROUP BY " + strings.Join(keys, ", ")
	partition := ""
	if len(keys) > 1 {
		partition = "PARTITION BY " + strings.Join(keys[:len(keys)-1], ", ")
	}
	order := own.ordering(n.self.children, keys[len(keys)-1])
	selected := append(slices.Clone(keys), "c", "(sum(c) OVER ("+partition+"))::BIGINT AS total")
	for i := range aggregates {
		selected = append(selected, fmt.Sprintf("o%d", i))
	}
	list := strings.Join(selected, ", ")
	if own.size == 0 {
		return query.Expression(fmt.Sprintf("SELECT %s FROM (%%s) ORDER BY %s LIMIT %d", list, order, maxBuckets+1),
			grouped), len(aggregates)
	}
	grouped.Text += fmt.Sprintf(" HAVING count(*) >= %d", own.minCount)
	grouped = query.Expression(fmt.Sprintf("SELECT %s, row_number() OVER (%s ORDER BY %s) AS place FROM (%%s)", list,
		partition, order), grouped)
	return query.Expression(fmt.Sprintf("SELECT * EXCLUDE (place) FROM (%%s) WHERE place <= %d "+
		"ORDER BY place LIMIT %d", own.size, maxBuckets+1),
		grouped), len(aggregates)
}

// inner returns the innermost SELECT of a level, which returns for each job the keys and the inputs of the metrics. It
// also returns the SQL aggregates of these inputs.
func (e *evaluation) inner(n node, path []*buckets, keys []string) (inner query.SQL, aggregates []string) {
	var columns []query.SQL
	for i, b := range path {
		columns = append(columns, query.Expression("%s AS "+keys[i], b.key))
	}
	inputs := 0
	for _, child := range n.self.children {
		if child.metric == nil {
			continue
		}
		input := fmt.Sprintf("m%d", inputs)
		inputs++
		columns = append(columns, query.Expression("%s AS "+input, child.metric.input))
		for _, o := range child.metric.outputs {
			aggregates = append(aggregates, fmt.Sprintf(o+" AS o%d", input, len(aggregates)))
		}
	}
	if len(columns) == 0 {
		columns = []query.SQL{{Text: "1 AS one"}}
	}
	inner = query.Expression("SELECT %s %s", query.Join(columns, ", "), e.from)
	for i, b := range path {
		if b.several {
			inner = query.Expression("SELECT * REPLACE (unnest("+keys[i]+") AS "+keys[i]+") FROM (%s)", inner)
		}
	}
	return inner, aggregates
}

// restrict limits a level to the buckets that the level above has returned.
func restrict(path []*buckets, keys []string, above map[string]*bucket) (query.SQL, bool) {
	chosen := false
	for _, b := range path {
		chosen = chosen || b.size > 0
	}
	if !chosen {
		return query.SQL{}, false
	}
	var tuples []query.SQL
	for _, b := range above {
		parts := make([]query.SQL, len(path))
		for i, key := range b.keys {
			parts[i] = query.Expression("%s::"+path[i].keyType, query.Value(key))
		}
		tuples = append(tuples, query.Expression("(%s)", query.Join(parts, ", ")))
	}
	return query.Expression("("+strings.Join(keys[:len(path)], ", ")+") IN (%s)", query.Join(tuples, ", ")), true
}

// ordering returns the SQL order of a level's buckets. The parameter key is the column of the
// buckets' own key.
func (b *buckets) ordering(children []*aggregation, key string) string {
	var list []string
	for _, o := range b.order {
		column := key
		switch {
		case o.count:
			column = "c"
		case !o.key:
			column = outputColumn(children, o)
		}
		if o.descending {
			column += " DESC"
		}
		list = append(list, column+" NULLS LAST")
	}
	if len(list) == 0 {
		list = []string{key}
	}
	return strings.Join(list, ", ")
}

// outputColumn returns the column to which an order refers, among the columns of all metrics.
func outputColumn(children []*aggregation, o order) string {
	index := o.output.index
	for _, child := range children {
		if child.name == o.child {
			break
		}
		if child.metric != nil {
			index += len(child.metric.outputs)
		}
	}
	if o.output.element > 0 {
		return fmt.Sprintf("o%d[%d]", index, o.output.element)
	}
	return fmt.Sprintf("o%d", index)
}
