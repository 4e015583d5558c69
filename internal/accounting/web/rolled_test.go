package web

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/store"
)

// randomEntry draws a job that ended within 40 days; some have no end, no user, or absurd values.
func randomEntry(r *rand.Rand, seq int64) store.Entry {
	begin := time.Date(2024, 3, 10, 0, 0, 0, 0, time.UTC) // before clocks change in Europe and after they do in America
	submit := begin.Add(time.Duration(r.IntN(40*86400)) * time.Second)
	start := submit.Add(time.Duration(r.ExpFloat64()*7200) * time.Second)
	end := start.Add(time.Duration(r.ExpFloat64()*20000) * time.Second)
	const layout = "2006-01-02T15:04:05"
	parts := []string{fmt.Sprintf(`"jobid":%d`, 1+r.IntN(2000)), fmt.Sprintf(`"cluster":"c%d"`, r.IntN(3))}
	for _, maybe := range []string{
		fmt.Sprintf(`"@submit":%q`, submit.Format(layout)), fmt.Sprintf(`"@start":%q`, start.Format(layout)), fmt.Sprintf(`"@end":%q`, end.Format(layout)), `"nodes":"n1"`,
		fmt.Sprintf(`"state":%q`, []string{"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "PENDING"}[r.IntN(5)]), fmt.Sprintf(`"username":"u%d"`, r.IntN(15)),
		fmt.Sprintf(`"account":"a%d"`, r.IntN(12)), fmt.Sprintf(`"partition":"p%d"`, r.IntN(4)), fmt.Sprintf(`"qos":"q%d"`, r.IntN(3)), fmt.Sprintf(`"job_name":"n%d"`, r.IntN(30)),
		fmt.Sprintf(`"total_cpus":%d`, r.IntN(200)), fmt.Sprintf(`"total_nodes":%d`, r.IntN(20)), fmt.Sprintf(`"time_limit":%d`, 60*r.IntN(600)),
		fmt.Sprintf(`"exit_code":"%d:%d"`, r.IntN(3), r.IntN(2)*9), `"tres_alloc":"gres/gpu=2"`,
	} {
		if r.IntN(12) > 0 {
			parts = append(parts, maybe)
		}
	}
	if r.IntN(100) == 0 {
		parts = append(parts, `"total_cpus":1099511627776`, `"@end":"2199-01-01T00:00:00"`)
	}
	text := []byte("{" + strings.Join(parts, ",") + "}")
	return store.Entry{Seq: seq, Arrived: end, Source: store.Received, Index: "slurm", Document: text, Job: document.Parse(text, "slurm")}
}

// TestRolledUp checks that every panel has the same answer from rollups as from the jobs, for random
// requests, while days are rolled up, get further jobs, and lose some.
func TestRolledUp(t *testing.T) {
	s := serve(t, 0)
	r := rand.New(rand.NewPCG(1, 2))
	zones := []string{"UTC", "Europe/Zurich", "Asia/Kathmandu", "America/New_York", "Australia/Lord_Howe", "Africa/Monrovia"}
	seq, rolledUp := int64(0), 0
	v := &server{store: s.store, now: time.Now}
	for round := range 12 {
		var entries []store.Entry
		for range []int{1500, 3, 40}[min(round, 1+round%2)] {
			seq++
			entries = append(entries, randomEntry(r, seq))
		}
		if _, err := s.store.Apply(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
		switch round % 4 {
		case 0, 1:
			for more := true; more; {
				var err error
				if more, err = s.store.RollUp(t.Context(), time.Date(2024, 4, 12, 0, 0, 0, 0, time.UTC)); err != nil {
					t.Fatal(err)
				}
			}
		case 3:
			if _, err := s.store.Expire(t.Context(), time.Date(2024, 3, 10+round/4, 7, 0, 0, 0, time.UTC)); err != nil {
				t.Fatal(err)
			}
		}
		values := url.Values{"zone": {zones[round%len(zones)]}}
		switch round % 3 {
		case 0:
			values.Set("last", []string{"all", "30d", "5d", "90d"}[r.IntN(4)])
		case 1:
			from := time.Date(2024, 3, 8+r.IntN(20), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC)
			values.Set("from", from.Format(time.RFC3339))
			values.Set("until", from.Add(time.Duration(1+r.IntN(30*86400))*time.Second).Format(time.RFC3339))
		case 2:
			values["f"] = []string{"cluster=c1", "cluster=c2"}
			values.Set("until", "2024-04-05")
			values.Set("last", "20d")
		}
		v.sizes.expire = time.Time{}
		q, sizes, err := v.read(t.Context(), values)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range panels {
			if p.rolled == nil {
				continue
			}
			var want, got *table
			q.panel = p
			err := s.store.Read(t.Context(), func(snapshot *store.Snapshot) error {
				jobs := p.query(q, sizes)
				rolled, err := p.rolled.query(snapshot, q, jobs)
				if err != nil {
					return err
				}
				if rolled.sql != jobs.sql {
					rolledUp++
				}
				for query, to := range map[*condition]**table{&jobs: &want, &rolled: &got} {
					raw, err := readRows(snapshot, *query)
					if err != nil {
						return fmt.Errorf("%w: %s", err, query.sql)
					}
					*to = p.shape(q, sizes, raw)
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%s %v: %v", p.name, values, err)
			}
			if problem := different(want, got); problem != "" {
				t.Errorf("%s %v, round %d: %s", p.name, values, round, problem)
			}
		}
		var jobs, oldest, newest string
		err = s.store.Read(t.Context(), func(snapshot *store.Snapshot) error {
			return snapshot.One("SELECT count(*)::VARCHAR, min(end_time)::VARCHAR, (max(end_time) FILTER (end_time < '2100-01-01'))::VARCHAR FROM jobs WHERE cluster = 'c1'", nil, &jobs, &oldest, &newest)
		})
		const layout = "2006-01-02 15:04:05"
		if one := sizes.list[1]; err != nil || fmt.Sprint(one.Jobs) != jobs || one.Oldest.Format(layout) != oldest || one.Newest.Format(layout) != newest {
			t.Errorf("%+v, want %s jobs from %s to %s: %v", one, jobs, oldest, newest, err)
		}
	}
	if rolledUp < 60 {
		t.Errorf("only %d queries used rollups", rolledUp)
	}
}

// different returns how two tables differ, but for the last digits of numbers.
func different(want, got *table) string {
	if len(want.Rows) != len(got.Rows) || fmt.Sprint(want.Columns, want.links, want.notes) != fmt.Sprint(got.Columns, got.links, got.notes) {
		return fmt.Sprintf("%d rows %v\nwant %d rows %v", len(got.Rows), got, len(want.Rows), want)
	}
	for i := range want.Rows {
		for k, w := range want.Rows[i] {
			g := got.Rows[i][k]
			if a, b := value(w), value(g); !math.IsNaN(a) || !math.IsNaN(b) {
				if !(math.Abs(a-b) <= 1e-6*math.Max(math.Abs(a), 1)) {
					return fmt.Sprintf("row %d: %v, want %v", i, got.Rows[i], want.Rows[i])
				}
			} else if w != g {
				return fmt.Sprintf("row %d: %v, want %v", i, got.Rows[i], want.Rows[i])
			}
		}
	}
	return ""
}
