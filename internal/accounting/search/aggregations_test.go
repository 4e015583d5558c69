package search_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// counting is an aggregation, as a request has it and as a function that computes its result from
// jobs.
type counting struct {
	dsl    map[string]any
	result func(jobs []job) map[string]any
	metric bool
}

// drawCountings draws aggregations with names, and returns them with a function that computes their
// results.
func drawCountings(t *rapid.T, depth int) (dsl map[string]any, fill func(jobs []job, into map[string]any), metrics map[string]counting) {
	dsl, metrics = m{}, map[string]counting{}
	all := map[string]counting{}
	n := rapid.IntRange(0, 2).Draw(t, "aggregations")
	for i := range n {
		name := "a" + strconv.Itoa(i)
		c := drawCounting(t, depth)
		all[name], dsl[name] = c, c.dsl
		if c.metric {
			metrics[name] = c
		}
	}
	return dsl, func(jobs []job, into map[string]any) {
		for name, c := range all {
			into[name] = c.result(jobs)
		}
	}, metrics
}

func drawCounting(t *rapid.T, depth int) counting {
	kinds := []string{"metric", "stats", "percentiles", "count"}
	if depth > 0 {
		kinds = append(kinds, "terms", "terms", "histogram", "dates", "dates", "filters", "range", "missing", "filter")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "aggregation") {
	case "terms":
		return drawTerms(t, depth-1)
	case "histogram":
		return drawHistogram(t, depth-1)
	case "dates":
		return drawDateHistogram(t, depth-1)
	case "filters", "filter", "missing":
		return drawFilters(t, depth-1)
	case "range":
		return drawRanges(t, depth-1)
	case "count":
		field := rapid.SampledFrom(slices.Concat(textFields, numFields)).Draw(t, "field")
		kind := rapid.SampledFrom([]string{"value_count", "cardinality"}).Draw(t, "kind")
		return counting{m{kind: m{"field": field}}, func(jobs []job) map[string]any {
			n, seen := 0, map[any]bool{}
			for _, j := range jobs {
				if v := j.get(field); v != nil {
					n++
					seen[v] = true
				}
			}
			if kind == "cardinality" {
				n = len(seen)
			}
			return m{"value": n}
		}, true}
	}
	return drawMetric(t)
}

// numbers returns the values of a field. missing replaces absent values unless it is nil.
func numbers(jobs []job, field string, missing any) (list []float64) {
	for _, j := range jobs {
		v := j.get(field)
		if v == nil {
			v = missing
		}
		switch v := v.(type) {
		case float64:
			list = append(list, v)
		case string:
			list = append(list, float64(j.time(field).UnixMilli()))
		}
	}
	return list
}

func drawMetric(t *rapid.T) counting {
	field := rapid.SampledFrom(numFields).Draw(t, "field")
	kind := rapid.SampledFrom([]string{"sum", "avg", "min", "max", "stats", "extended_stats", "percentiles"}).Draw(t, "metric")
	body := m{"field": field}
	var missing any
	if rapid.Bool().Draw(t, "missing") {
		missing = 7.0
		body["missing"] = 7
	}
	if kind == "percentiles" {
		body["percents"] = []float64{0, 12.5, 50, 99, 100}
	}
	return counting{m{kind: body}, func(jobs []job) map[string]any {
		list := numbers(jobs, field, missing)
		slices.Sort(list)
		n, sum, squares := float64(len(list)), 0.0, 0.0
		for _, x := range list {
			sum += x
			squares += x * x
		}
		var least, most, mean any
		if len(list) > 0 {
			least, most, mean = list[0], list[len(list)-1], sum/n
		}
		switch kind {
		case "sum":
			return m{"value": sum}
		case "avg":
			return m{"value": mean}
		case "min":
			return m{"value": least}
		case "max":
			return m{"value": most}
		case "percentiles":
			values := m{}
			for name, p := range map[string]float64{"0.0": 0, "12.5": 0.125, "50.0": 0.5, "99.0": 0.99, "100.0": 1} {
				values[name] = nil
				if len(list) > 0 {
					at := p * (n - 1)
					low, high := list[int(math.Floor(at))], list[int(math.Ceil(at))]
					values[name] = low + (high-low)*(at-math.Floor(at))
				}
			}
			return m{"values": values}
		}
		result := m{"count": n, "min": least, "max": most, "avg": mean, "sum": sum}
		if kind == "stats" {
			return result
		}
		deviations := 0.0
		for _, x := range list {
			deviations += (x - sum/n) * (x - sum/n)
		}
		var squared, population, sampling, spread, spreadSampling any
		limits := m{"upper": nil, "lower": nil, "upper_population": nil, "lower_population": nil, "upper_sampling": nil, "lower_sampling": nil}
		if len(list) > 0 {
			squared, population, spread = squares, deviations/n, math.Sqrt(deviations/n)
			limits["upper"], limits["lower"] = sum/n+2*math.Sqrt(deviations/n), sum/n-2*math.Sqrt(deviations/n)
			limits["upper_population"], limits["lower_population"] = limits["upper"], limits["lower"]
		}
		if len(list) > 1 {
			sampling, spreadSampling = deviations/(n-1), math.Sqrt(deviations/(n-1))
			limits["upper_sampling"], limits["lower_sampling"] = sum/n+2*math.Sqrt(deviations/(n-1)), sum/n-2*math.Sqrt(deviations/(n-1))
		}
		maps.Copy(result, m{
			"sum_of_squares": squared, "variance": population, "variance_population": population, "variance_sampling": sampling,
			"std_deviation": spread, "std_deviation_population": spread, "std_deviation_sampling": spreadSampling, "std_deviation_bounds": limits,
		})
		return result
	}, true}
}

// pile has the jobs of one bucket.
type pile struct {
	key  any
	jobs []job
}

// piles groups jobs by a key, in the order of the keys. Jobs whose key is nil are left out.
func piles(jobs []job, key func(j job) any) (list []pile) {
	at := map[any]int{}
	for _, j := range jobs {
		k := key(j)
		if k == nil {
			continue
		}
		i, ok := at[k]
		if !ok {
			i = len(list)
			at[k] = i
			list = append(list, pile{key: k})
		}
		list[i].jobs = append(list[i].jobs, j)
	}
	slices.SortFunc(list, func(a, b pile) int {
		if x, ok := a.key.(float64); ok {
			return cmp.Compare(x, b.key.(float64))
		}
		return cmp.Compare(a.key.(string), b.key.(string))
	})
	return list
}

func drawTerms(t *rapid.T, depth int) counting {
	field := rapid.SampledFrom(append([]string{"jobid", "total_cpus", "time_limit"}, textFields...)).Draw(t, "field")
	isText := !slices.Contains(numFields, field)
	size := rapid.IntRange(1, 4).Draw(t, "size")
	least := rapid.IntRange(1, 2).Draw(t, "least")
	body := m{"field": field, "size": size, "min_doc_count": least}
	var missing any
	if rapid.Bool().Draw(t, "missing") {
		missing, body["missing"] = any("none"), any("none")
		if !isText {
			missing, body["missing"] = any(5.0), any(5)
		}
	}
	below, fill, metrics := drawCountings(t, depth)
	order := rapid.SampledFrom([]string{"", "_key", "_count", "metric"}).Draw(t, "order")
	direction := rapid.SampledFrom([]string{"asc", "desc"}).Draw(t, "direction")
	var by func(jobs []job) any
	switch order {
	case "_key", "_count":
		body["order"] = m{order: direction}
	case "metric":
		order = ""
		for name, c := range metrics {
			for _, kind := range []string{"min", "max", "value_count", "cardinality"} { // not sums, which could differ in the last digits
				if c.dsl[kind] != nil {
					order = "metric"
					by = func(jobs []job) any { return c.result(jobs)["value"] }
					body["order"] = []any{m{name: direction}}
				}
			}
			break
		}
	}
	return counting{m{"terms": body, "aggs": below}, func(jobs []job) map[string]any {
		list := piles(jobs, func(j job) any {
			if v := j.get(field); v != nil {
				return v
			}
			return missing
		})
		slices.SortStableFunc(list, func(a, b pile) int {
			c := 0
			switch order {
			case "":
				return cmp.Compare(len(b.jobs), len(a.jobs))
			case "_count":
				c = cmp.Compare(len(a.jobs), len(b.jobs))
			case "metric":
				x, y := by(a.jobs), by(b.jobs)
				if x == nil || y == nil { // buckets without a value come last
					switch {
					case x == nil && y == nil:
						return 0
					case x == nil:
						return 1
					}
					return -1
				}
				c = cmp.Compare(fmt.Sprintf("%030.6f", x2f(x)+1e9), fmt.Sprintf("%030.6f", x2f(y)+1e9))
			case "_key":
				if direction == "asc" {
					return 0
				}
				if x, ok := a.key.(float64); ok {
					return cmp.Compare(b.key.(float64), x)
				}
				return cmp.Compare(b.key.(string), a.key.(string))
			}
			if direction == "desc" {
				c = -c
			}
			return c
		})
		buckets, rest := []any{}, 0
		for _, p := range list {
			if len(buckets) < size && len(p.jobs) >= least {
				b := m{"key": p.key, "doc_count": len(p.jobs)}
				fill(p.jobs, b)
				buckets = append(buckets, b)
			} else if len(p.jobs) >= least {
				rest += len(p.jobs)
			}
		}
		return m{"buckets": buckets, "sum_other_doc_count": rest, "doc_count_error_upper_bound": 0}
	}, false}
}

func x2f(v any) float64 {
	if n, ok := v.(int); ok {
		return float64(n)
	}
	return v.(float64)
}

func drawHistogram(t *rapid.T, depth int) counting {
	field := rapid.SampledFrom([]string{"elapsed", "total_cpus", "jobid", "weight"}).Draw(t, "field")
	interval := rapid.SampledFrom([]float64{0.5, 7, 1000}).Draw(t, "interval")
	if field == "elapsed" || field == "total_cpus" {
		interval = max(interval, 500)
	}
	least := rapid.IntRange(0, 2).Draw(t, "least")
	below, fill, _ := drawCountings(t, depth)
	return counting{m{"histogram": m{"field": field, "interval": interval, "min_doc_count": least}, "aggs": below}, func(jobs []job) map[string]any {
		list := piles(jobs, func(j job) any {
			v, ok := j.get(field).(float64)
			if !ok {
				return nil
			}
			return math.Floor(v / interval)
		})
		return m{"buckets": gapless(list, least, func(k any) any { return k.(float64) + 1 }, func(k any, b m) { b["key"] = k.(float64) * interval }, fill)}
	}, false}
}

// gapless returns buckets, with empty ones between the first and the last if least is 0.
func gapless(list []pile, least int, next func(k any) any, describe func(k any, b m), fill func(jobs []job, into map[string]any)) []any {
	buckets := []any{}
	add := func(k any, jobs []job) {
		b := m{"doc_count": len(jobs)}
		describe(k, b)
		fill(jobs, b)
		buckets = append(buckets, b)
	}
	for i, p := range list {
		if i > 0 && least == 0 {
			for k := next(list[i-1].key); k.(float64) < p.key.(float64); k = next(k) {
				add(k, nil)
			}
		}
		if len(p.jobs) >= least {
			add(p.key, p.jobs)
		}
	}
	return buckets
}

func drawDateHistogram(t *rapid.T, depth int) counting {
	field := rapid.SampledFrom(dateFields).Draw(t, "field")
	zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "+05:30", "America/St_Johns"}).Draw(t, "zone")
	location, err := time.LoadLocation(zone)
	if zone == "+05:30" {
		location, err = time.FixedZone(zone, 5*3600+1800), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	least := rapid.IntRange(0, 1).Draw(t, "least")
	body := m{"field": field, "time_zone": zone, "min_doc_count": least}
	below, fill, _ := drawCountings(t, depth)
	midnight := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, location) }
	var floor, next func(t time.Time) time.Time
	switch interval := rapid.SampledFrom([]string{"hour", "day", "1w", "month", "quarter", "1y", "fixed 1h", "fixed 30m", "fixed 1d"}).Draw(t, "interval"); interval {
	case "hour", "fixed 1h":
		body["calendar_interval"] = "hour"
		if interval == "fixed 1h" {
			delete(body, "calendar_interval")
			body["fixed_interval"] = "60m"
		}
		floor = func(t time.Time) time.Time {
			return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second)
		}
		next = func(t time.Time) time.Time { return t.Add(time.Hour) }
	case "fixed 30m":
		body["fixed_interval"] = "30m"
		floor = func(t time.Time) time.Time {
			return t.Add(-time.Duration(t.Minute()%30)*time.Minute - time.Duration(t.Second())*time.Second)
		}
		next = func(t time.Time) time.Time { return t.Add(30 * time.Minute) }
	case "day", "fixed 1d":
		body["calendar_interval"] = "day"
		if interval == "fixed 1d" {
			delete(body, "calendar_interval")
			body["fixed_interval"] = "24h"
		}
		floor = midnight
		next = func(t time.Time) time.Time { return midnight(t.AddDate(0, 0, 1)) }
	case "1w":
		body["calendar_interval"] = interval
		floor = func(t time.Time) time.Time {
			for t = midnight(t); t.Weekday() != time.Monday; t = midnight(t.AddDate(0, 0, -1)) {
			}
			return t
		}
		next = func(t time.Time) time.Time { return midnight(t.AddDate(0, 0, 7)) }
	case "month", "quarter", "1y":
		body["calendar_interval"] = interval
		months := map[string]int{"month": 1, "quarter": 3, "1y": 12}[interval]
		floor = func(t time.Time) time.Time {
			return time.Date(t.Year(), time.Month((int(t.Month())-1)/months*months+1), 1, 0, 0, 0, 0, location)
		}
		next = func(t time.Time) time.Time { return t.AddDate(0, months, 0) }
	}
	at := func(k any) time.Time { return time.UnixMilli(int64(k.(float64))).In(location) }
	return counting{m{"date_histogram": body, "aggs": below}, func(jobs []job) map[string]any {
		list := piles(jobs, func(j job) any { return float64(floor(j.time(field).In(location)).UnixMilli()) })
		return m{"buckets": gapless(list, least, func(k any) any { return float64(next(at(k)).UnixMilli()) }, func(k any, b m) {
			b["key"], b["key_as_string"] = k, at(k).Format("2006-01-02T15:04:05.000Z07:00")
		}, fill)}
	}, false}
}

func drawFilters(t *rapid.T, depth int) counting {
	below, fill, _ := drawCountings(t, depth)
	bucket := func(jobs []job, match func(j job) bool) map[string]any {
		var found []job
		for _, j := range jobs {
			if match(j) {
				found = append(found, j)
			}
		}
		b := m{"doc_count": len(found)}
		fill(found, b)
		return b
	}
	switch rapid.SampledFrom([]string{"filter", "missing", "filters", "list"}).Draw(t, "kind") {
	case "filter":
		q := drawQuestion(t, 1)
		return counting{m{"filter": q.dsl, "aggs": below}, func(jobs []job) map[string]any { return bucket(jobs, q.match) }, false}
	case "missing":
		field := rapid.SampledFrom(slices.Concat(textFields, numFields)).Draw(t, "field")
		return counting{m{"missing": m{"field": field}, "aggs": below}, func(jobs []job) map[string]any {
			return bucket(jobs, func(j job) bool { return j.get(field) == nil })
		}, false}
	case "filters":
		a, b := drawQuestion(t, 1), drawQuestion(t, 1)
		return counting{m{"filters": m{"filters": m{"x": a.dsl, "a": b.dsl}}, "aggs": below}, func(jobs []job) map[string]any {
			return m{"buckets": m{"x": bucket(jobs, a.match), "a": bucket(jobs, b.match)}}
		}, false}
	}
	a, b := drawQuestion(t, 1), drawQuestion(t, 1)
	return counting{m{"filters": m{"filters": []any{a.dsl, b.dsl}}, "aggs": below}, func(jobs []job) map[string]any {
		return m{"buckets": []any{bucket(jobs, a.match), bucket(jobs, b.match)}}
	}, false}
}

// drawRanges draws ranges of numbers or dates, in any order. The result's buckets are sorted by
// their limits.
func drawRanges(t *rapid.T, depth int) counting {
	type limits struct {
		key      string
		from, to float64 // infinite if there is no limit
	}
	dates := rapid.Bool().Draw(t, "date_range")
	field := rapid.SampledFrom([]string{"elapsed", "weight", "cpu_hours"}).Draw(t, "field")
	values := []float64{0, 2.5, 60, 100, 4000}
	if dates {
		field, values = rapid.SampledFrom(dateFields).Draw(t, "date"), nil
		for day := range 4 {
			values = append(values, float64(time.Date(2024, 3, 29+day, 12, 0, 0, 0, time.UTC).UnixMilli()))
		}
	}
	text := func(x float64) string {
		switch {
		case math.IsInf(x, 0):
			return "*"
		case dates:
			return time.UnixMilli(int64(x)).UTC().Format("2006-01-02T15:04:05.000Z")
		case x == math.Trunc(x):
			return strconv.FormatFloat(x, 'f', 1, 64)
		}
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	var list []limits
	var asked []any
	for i := range rapid.IntRange(1, 4).Draw(t, "ranges") {
		l := limits{"", rapid.SampledFrom(append(values, math.Inf(-1))).Draw(t, "from"), rapid.SampledFrom(append(values, math.Inf(1))).Draw(t, "to")}
		one := m{}
		if !math.IsInf(l.from, 0) {
			one["from"] = l.from
		}
		if !math.IsInf(l.to, 0) {
			one["to"] = l.to
		}
		l.key = text(l.from) + "-" + text(l.to)
		if rapid.Bool().Draw(t, "named") {
			l.key = "range " + strconv.Itoa(i)
			one["key"] = l.key
		}
		list, asked = append(list, l), append(asked, one)
	}
	slices.SortStableFunc(list, func(a, b limits) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	below, fill, _ := drawCountings(t, depth)
	kind := map[bool]string{false: "range", true: "date_range"}[dates]
	return counting{m{kind: m{"field": field, "ranges": asked}, "aggs": below}, func(jobs []job) map[string]any {
		buckets := []any{}
		for _, r := range list {
			var found []job
			for _, j := range jobs {
				v, ok := j.get(field).(float64)
				if dates {
					v, ok = float64(j.time(field).UnixMilli()), true
				}
				if ok && v >= r.from && v < r.to {
					found = append(found, j)
				}
			}
			b := m{"key": r.key, "doc_count": len(found)}
			for side, x := range map[string]float64{"from": r.from, "to": r.to} {
				if !math.IsInf(x, 0) {
					b[side] = x
					if dates {
						b[side+"_as_string"] = text(x)
					}
				}
			}
			fill(found, b)
			buckets = append(buckets, b)
		}
		return m{"buckets": buckets}
	}, false}
}

func TestAggregations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		withJobs(t, func(f *fixture) {
			for range 6 {
				q := drawQuestion(t, 1)
				dsl, fill, _ := drawCountings(t, 3)
				body := m{"size": 0, "query": q.dsl, "aggs": dsl}
				var found []job
				for _, j := range f.jobs {
					if q.match(j) {
						found = append(found, j)
					}
				}
				want := m{}
				fill(found, want)
				status, answer := f.ask(t, "POST", "/slurm/_search", body)
				text, _ := json.Marshal(body)
				if status != 200 {
					t.Fatalf("%s: %v", text, answer)
				}
				wanted, err := json.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				var plain map[string]any
				if err := json.Unmarshal(wanted, &plain); err != nil {
					t.Fatal(err)
				}
				got, _ := answer["aggregations"].(map[string]any)
				if got == nil {
					got = m{}
				}
				if s := same(any(got), any(plain)); s != "" {
					t.Fatalf("%s: %s", text, s)
				}
				if n := answer["hits"].(map[string]any)["total"].(map[string]any)["value"]; n != float64(len(found)) {
					t.Fatalf("%s: %v hits, want %d", text, n, len(found))
				}
			}
		})
	})
}
