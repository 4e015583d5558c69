package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/accounting/embedded"
	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/quantity"
)

// healthPanels are the panels of the page about schedulers, in their order. Their figures come from
// the views health and health_counts of the store.
var healthPanels = []*panel{
	{name: "health-main", title: "Main scheduler: time of cycles",
		about: "The mean cycle, and above it the longest known cycle. slurmctld does not report every cycle, so a longer " +
			"one may have happened.", health: queryCycles("main"), shape: shapeCycles,
		draw: drawTimeline("time [ms]"), lines: []string{"mean", "longest"}, unit: "time [ms]", times: true},
	{name: "health-backfill", title: "Backfill scheduler: time of cycles",
		about: "The mean cycle, and above it the longest known cycle, as for the main scheduler. Times exclude the " +
			"pauses in which the scheduler releases its locks.", health: queryCycles("bf"), shape: shapeCycles,
		draw: drawTimeline("time [ms]"), lines: []string{"mean", "longest"}, unit: "time [ms]", times: true},
	{name: "health-depth", title: "Backfill scheduler: depth", about: "Jobs that a mean cycle tried to place, and jobs " +
		"that it only looked at. " + aboutQueues, health: queryDepth,
		shape: shapeDepth, draw: drawTimeline("jobs"), lines: []string{"depth", "queue"}, unit: "jobs",
		aboutLines: "Jobs that a mean cycle tried to place or only looked at (depth), and the queue. " + aboutQueues},
	{name: "health-jobs", title: "Jobs that wait and run", about: "The largest numbers of jobs in any answer of sdiag. " +
		"A replay has six answers an hour (with the measured clock one), so peaks may be missing. slurmctld counts jobs " +
		"every 30 s, so an answer can be that old. Several clusters are added up.",
		health: queryQueue, shape: shapeQueue, draw: drawTimeline("jobs"),
		lines: []string{"running", "pending"}, unit: "jobs", largest: true},
	{name: "health-starts", title: "Starts", about: "Jobs that the backfill scheduler started, and all other jobs that " +
		"started. The other counts are those of sdiag: completed counts jobs that ended by themselves, cancelled counts " +
		"requests to cancel jobs, failed counts failures of Slurm, not of jobs. Timeouts are not counted.",
		health: queryStarts, shape: shapeStarts, draw: drawTimeline("jobs"),
		lines: []string{"backfilled", "others"}, unit: "jobs"},
	{name: "health-agents", title: "Waiting messages", about: "The largest numbers of messages that waited for nodes " +
		"and for slurmdbd at any instant at which slurmctld was asked. Several clusters are added up.",
		health: queryAgents, shape: shapeAgents, draw: drawTimeline("messages"),
		lines: []string{"agent_queue", "dbd_queue"}, unit: "messages", largest: true},
	{name: "health-main-exits", title: "Main scheduler: why cycles ended",
		about: "How many cycles ended for each reason.", health: embedded.Counts(store.MainExit, "count", "main_cycles"),
		shape: shapeCounts("cycles", count, whoCountsExits), draw: drawTimeline("cycles")},
	{name: "health-backfill-exits", title: "Backfill scheduler: why cycles ended",
		about: "How many cycles ended for each reason.", health: embedded.Counts(store.BackfillExit, "count", "bf_cycles"),
		shape: shapeCounts("cycles", count, whoCountsExits), draw: drawTimeline("cycles")},
	{name: "health-requests", title: "Requests to slurmctld", about: "How many requests slurmctld handled, by type. " +
		"In a replay, types with \"(by rmreplay)\" are the replay's own requests.",
		health: embedded.Counts(store.Requests, "count", "NULL"),
		shape:  shapeCounts("requests", count, whoCountsRequests), draw: drawTimeline("requests")},
	{name: "health-request-time", title: "Time for requests", about: "How long slurmctld took for requests, by type.",
		health: embedded.Counts(store.Requests, "us / 1e6", "NULL"), shape: shapeCounts("s", number, whoCountsRequests),
		draw: drawTimeline("time [s]"), times: true},
}

const aboutQueues = "Queues and tables are means of the last cycles that sdiag showed, also over clusters. A cycle " +
	"counts each task of an array that it tries, and a queue counts an array once, so the depth can exceed the queue."

// noteRuns adds notes about the runs whose figures a panel shows. It notes where their windows
// begin, unless the range begins later. If the panel shows times, noteRuns names two kinds of
// runs: runs in which computing took no time, and runs whose times come from the machine that
// replayed. If the panel shows messages, it notes the runs of a model, which has no messages. If
// the panel shows the largest numbers of two sides, it notes which side has fewer answers.
func (p *panel) noteRuns(t *table, r *request, s *sizes) {
	names := r.clusters()
	var frozen, simulated, measured []string
	apart := make(map[string]time.Duration)
	for _, c := range s.list {
		apart[c.Name] = c.every
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		if !c.window.IsZero() && !r.from.After(c.window) {
			t.notes = append(t.notes, fmt.Sprintf("The figures of %s begin with its window, at %s. Jobs that "+
				"ran at that time, if any, were started by rmreplay before.", c.Name, r.write(moment, c.window)))
		}
		switch {
		case c.frozen:
			frozen = append(frozen, c.Name)
		case c.Kind == kindRun && !c.simulated:
			measured = append(measured, c.Name)
		}
		if c.simulated {
			simulated = append(simulated, c.Name)
		}
	}
	if p.name == "health-agents" && len(simulated) > 0 {
		t.notes = append(t.notes, fmt.Sprintf("The model of slurmctld has no messages, so %s %s none.",
			strings.Join(simulated, ", "), quantity.Plural(len(simulated), "has", "have")))
	}
	for _, other := range r.sides() {
		if long, short := apart[names[0]], apart[other]; p.largest && short > 0 && long >= 2*short {
			t.notes = append(t.notes, fmt.Sprintf("sdiag's answers are %s apart in %s, and %s in %s. So %s lacks more "+
				"peaks, and for this reason alone its largest numbers can be lower.", quantity.Duration(long.Seconds()),
				names[0], quantity.Duration(short.Seconds()), other, names[0]))
		}
	}
	if p.times && len(frozen) > 0 {
		t.notes = append(t.notes, fmt.Sprintf("Computing took no virtual time in %s, so the times of %s are not "+
			"real. Replay with --clock measured for real ones.", strings.Join(frozen, ", "),
			quantity.Plural(len(frozen), "this run", "these runs")))
	}
	if p.times && len(measured) > 0 {
		t.notes = append(t.notes, fmt.Sprintf("The times of %s are those of the machine that replayed. The site's machine "+
			"may be faster or slower.", strings.Join(measured, ", ")))
	}
}

// leaveOutFrozen removes from a request for times the runs in which computing took no time: their times of 0 would
// lower the means of other schedulers. If only such runs have figures in the range, it keeps them. It returns a note
// that names the removed runs.
func (r *request) leaveOutFrozen(s *sizes) (notes []string) {
	names := r.clusters()
	var frozen []string
	var others []question.Term
	for _, c := range s.list {
		touched, _ := s.touched([]string{c.Name}, r.from, r.until)
		switch {
		case !touched || len(names) > 0 && !slices.Contains(names, c.Name):
		case c.frozen:
			frozen = append(frozen, c.Name)
		default:
			others = append(others, question.Term{Field: question.Fields["cluster"], Op: "=", Value: c.Name})
		}
	}
	if len(frozen) == 0 || len(others) == 0 {
		return nil
	}
	r.filters = others
	return []string{fmt.Sprintf("The means leave out %s, because computing took no virtual time in %s.",
		strings.Join(frozen, ", "), quantity.Plural(len(frozen), "this run", "these runs"))}
}

// explainBlank adds a note to a table if all its known figures in the chart are 0. A chart of two schedulers may
// show other values for the second scheduler, so the note names the scheduler.
func (p *panel) explainBlank(t *table, r *request) {
	blank, shown, whose := false, t.series, ""
	if r.suffix != "" && p.lines != nil {
		shown, whose = nil, " of "+strings.Join(r.clusters(), ", ")
		for i, c := range t.Columns {
			if slices.Contains(p.lines, c.Name) {
				shown = append(shown, i)
			}
		}
	}
	for _, row := range t.Rows {
		for _, i := range shown {
			if known(row[i]) != 0 {
				return
			}
			blank = blank || row[i] != nil
		}
	}
	if blank {
		t.notes = append(t.notes, "All values"+whose+" in the chart are 0.")
	}
}

// health answers with the page about schedulers.
func (v *server) health(w http.ResponseWriter, q *http.Request) error {
	values := q.URL.Query()
	f := &frame{Live: true, Compare: values.Get("a") != "" || values.Get("b") != ""}
	if f.Compare {
		s, err := v.schedulers(q.Context(), &request{})
		if err != nil {
			return err
		}
		all, err := v.known(q.Context())
		if err != nil {
			return err
		}
		if err := s.choosePair(values, "schedulers", all.named()); err != nil {
			return err
		}
	}
	return v.page(w, q, values, f, healthPanels)
}

// linkHealth sets the links between the page about jobs and the page about schedulers. If the
// store has no figures of schedulers, it does nothing. A comparison gets a link only if both sides
// have such figures. A link to a comparison needs two sides that are known as clusters with jobs.
func (v *server) linkHealth(ctx context.Context, f *frame, r *request, s, known *sizes) error {
	onlyClusters := func(values url.Values) {
		for _, name := range []string{"q", "columns", "sort", "rows", "a", "b", "align", "shift"} {
			values.Del(name)
		}
		values["f"] = slices.DeleteFunc(values["f"], func(s string) bool { return !strings.HasPrefix(s, "cluster=") })
	}
	if f.Live {
		f.Title = "Scheduler health"
		f.Jobs, f.Other = "./"+r.url(onlyClusters), ""
		if f.Compare && known.have(r.sides()) {
			f.Jobs = "compare" + r.url(func(url.Values) {})
		}
		if f.Compare {
			f.Title += " of " + quantity.Name(f.Sides[0].Chosen) + " and " + quantity.Name(f.Sides[1].Chosen)
			f.Other = "health" + r.url(onlyClusters)
		} else if named := s.named(); len(named) > 1 {
			f.Other = "health" + r.url(func(values url.Values) {
				onlyClusters(values)
				values.Del("f")
				values.Set("a", named[0])
				values.Set("b", named[1])
			})
		}
		return nil
	}
	live, err := v.schedulers(ctx, &request{})
	if err != nil {
		return err
	}
	if pair := r.sides(); len(live.list) > 0 && live.have(pair) {
		f.Health = "health" + r.url(func(values url.Values) {
			onlyClusters(values)
			values["a"], values["b"] = r.values["a"], r.values["b"]
			r.setRange(values, r.from, r.until)
		})
	}
	return nil
}

// schedulers returns the clusters that have figures of their schedulers, with the first and the last second of their
// intervals, and the median interval. It refuses requests with other filters than clusters.
func (v *server) schedulers(ctx context.Context, r *request) (*sizes, error) {
	for _, t := range r.filters {
		if t.Field.Name != "cluster" || t.Op != "=" {
			return nil, bad(fmt.Errorf("f=%s: this page is about schedulers, not jobs (want filters by cluster only, such as "+
				"cluster=NAME)", t))
		}
	}
	if r.values.Get("q") != "" {
		return nil, bad(errors.New("q: a query filters jobs, not schedulers (want only f=cluster=NAME)"))
	}
	raw, err := v.queryHealth(ctx, embedded.Query{SQL: "SELECT cluster, min(make_timestamp(epoch_us(until) - " +
		"greatest(interval_us - 1000000, 0))), max(until), min(until), " +
		"coalesce(quantile_disc(interval_us, 0.5) FILTER (interval_us > 0), 0) FROM health GROUP BY 1 ORDER BY 1"})
	view := v.store.View()
	defer view.Close()
	described := map[string]store.Cluster{}
	for _, c := range view.Clusters() {
		described[c.Name] = c
	}
	s := &sizes{list: []size{}}
	for _, row := range raw {
		known := described[row[0].(string)]
		one := size{Name: row[0].(string), Kind: known.Kind, frozen: known.Frozen,
			simulated: known.Simulated, window: known.Window, begin: known.Begin}
		one.Oldest, _ = row[1].(time.Time)
		one.Newest, _ = row[2].(time.Time)
		one.answered, _ = row[3].(time.Time)
		one.every = time.Duration(value(row[4])) * time.Microsecond
		s.list = append(s.list, one)
	}
	return s, err
}

// queryHealth returns the rows of a query about schedulers, and nil if the store has no figures.
func (v *server) queryHealth(ctx context.Context, query embedded.Query) (raw [][]any, err error) {
	view := v.store.View()
	defer view.Close()
	if !view.HasHealth() {
		return nil, nil
	}
	err = view.Ask(ctx, func(snapshot *store.Snapshot) error {
		raw, err = snapshot.All(query.SQL, query.Args...)
		return err
	})
	return raw, err
}

// bars returns the buckets of a panel about schedulers. Unlike the buckets of jobs, the first and
// the last bucket are whole even if the range begins or ends within them. So all buckets are
// equally long, and none is shorter than the time between two answers of sdiag.
func (r *request) bars() buckets {
	b := r.buckets()
	b.edges = b.round
	return b
}

// coveredColumn is the index of the column "time with figures" in the table of a panel about
// schedulers.
const coveredColumn = 2

// covered is the column "time with figures".
var covered = column{"covered", "time with figures", "s", seconds}

// levels makes a table from the rows of [embedded.Levels]. After the bucket, a row has the covered time
// and a number for each column in the parameter columns. A number that is not known is nil.
func levels(r *request, raw [][]any, columns []column) *table {
	t := timeTable(r, r.bars())
	t.levels = true
	t.Columns = slices.Concat(t.Columns, []column{covered}, columns)
	for i := range t.Rows {
		t.Rows[i] = append(t.Rows[i], 0.0)
		t.Rows[i] = append(t.Rows[i], make([]any, len(columns))...)
	}
	for _, row := range raw {
		copy(t.Rows[row[0].(int64)][coveredColumn:], row[1:])
	}
	return t
}

// noteGaps notes how many bars have no figures, and why. A run has no figures before its beginning
// and after its end, and no levels before slurmctld's first answer.
func (t *table) noteGaps(r *request, s *sizes) {
	if r.shift != 0 && r.panel.lines != nil { // a chart of one side has this side's times
		t.notes = append(t.notes, fmt.Sprintf("The times of this side are moved: %s is drawn at %s.", r.write(moment, r.from),
			r.write(moment, r.from.Add(-r.shift))))
	}
	gaps, outside, early := 0, 0, 0
	sites, runs := s.kinds(r.clusters())
	for _, row := range t.Rows {
		known := slices.ContainsFunc(row[coveredColumn+1:], func(v any) bool { return v != nil })
		if len(t.series) == 0 { // nothing was counted in any bar
			known = value(row[coveredColumn]) > 0
		}
		touched, answered := s.touched(r.clusters(), row[0].(time.Time), row[1].(time.Time))
		switch {
		case known:
		case sites == 0 && runs > 0 && !touched:
			outside++
		case sites == 0 && runs > 0 && !answered:
			early++
		default:
			gaps++
		}
	}
	if i := slices.IndexFunc(t.Columns, func(c column) bool { return c.Name == "cycles" }); i > 0 {
		idle := 0
		for _, row := range t.Rows {
			if value(row[coveredColumn]) > 0 && row[i] == 0.0 {
				idle++
			}
		}
		if idle > 0 {
			t.notes = append(t.notes, fmt.Sprintf("%s of %d with figures, but without cycles of the scheduler.",
				quantity.Counted(idle, "bar", "bars"), len(t.Rows)))
		}
	}
	for _, list := range []struct {
		n   int
		why string
	}{{outside, quantity.Plural(runs, "the run had not begun or was over", "no run covers them")},
		{early, "slurmctld had not been asked yet"}, {gaps, whyGaps(sites, runs)}} {
		if list.n > 0 {
			t.notes = append(t.notes, fmt.Sprintf("%s of %d without figures: %s.", quantity.Counted(list.n, "bar", "bars"),
				len(t.Rows), list.why))
		}
	}
}

// touched says whether a named scheduler ran in a bar. answered says whether slurmctld of at least
// one of these schedulers had answered before the bar's end. An empty list means all schedulers.
func (s *sizes) touched(names []string, from, until time.Time) (touched, answered bool) {
	for _, c := range s.list {
		if (len(names) == 0 || slices.Contains(names, c.Name)) && until.After(c.Oldest) && !from.After(c.Newest) {
			touched, answered = true, answered || until.After(c.answered)
		}
	}
	return touched, answered
}

// kinds counts the named schedulers: schedulers of sites, and schedulers of runs. An empty list
// means all schedulers.
func (s *sizes) kinds(names []string) (sites, runs int) {
	for _, c := range s.list {
		switch {
		case len(names) > 0 && !slices.Contains(names, c.Name):
		case c.Kind == kindRun:
			runs++
		default:
			sites++
		}
	}
	return sites, runs
}

// whyGaps says why schedulers of sites and runs have times without figures.
func whyGaps(sites, runs int) string {
	const silent, replayed = "nobody asked slurmctld, or it did not answer", "the record of a replay has figures for " +
		"every ten minutes of its virtual time, or for every hour with the measured clock"
	switch {
	case sites > 0 && runs > 0:
		return silent + "; " + replayed
	case runs > 0:
		return replayed
	case sites > 0:
		return silent
	}
	return "figures come from slurmctld, which serve --sdiag asks, and from records of replays on Slurm and of " +
		"simulations with --policy slurm; other simulations and imported jobs have none"
}

func queryCycles(prefix string) func(b embedded.Bars) embedded.Query {
	return embedded.Levels(strings.ReplaceAll("sum(@cycles), sum(@us) / nullif(sum(@cycles), 0) / 1e3, "+
		"max(@longest_us) / 1e3, max(@last_us) / 1e3, "+
		"(max(@longest_us) - least(max(@longest_us), sum(@us) / nullif(sum(@cycles), 0))) / 1e3", "@", prefix+"_"))
}

func shapeCycles(r *request, _ *sizes, raw [][]any) *table {
	t := levels(r, raw, []column{
		{"cycles", "cycles", "", count}, {"mean", "mean", "ms", number}, {"longest", "longest", "ms", number},
		{"last", "last", "ms", number}, {"above", "longest less mean", "ms", number},
	})
	t.series, t.colours = []int{4, 7}, []int{0, 7}
	return t
}

var queryDepth = embedded.Levels("sum(bf_tried) / nullif(sum(bf_cycles), 0), (sum(bf_depth) - sum(bf_tried)) / " +
	"nullif(sum(bf_cycles), 0), sum(bf_depth) / nullif(sum(bf_cycles), 0), avg(bf_queue), " +
	"avg(bf_table), sum(main_depth) / nullif(sum(main_cycles), 0), avg(main_queue), sum(bf_cycles)")

func shapeDepth(r *request, _ *sizes, raw [][]any) *table {
	t := levels(r, raw, []column{
		{"tried", "tried to place", "jobs", number}, {"looked_at", "only looked at", "jobs", number},
		{"depth", "depth", "jobs", number}, {"queue", "queue", "jobs", number},
		{"table", "table of future states", "", number}, {"main_depth", "depth of the main scheduler", "jobs", number},
		{"main_queue", "its queue", "jobs", number}, {"cycles", "cycles", "", count},
	})
	t.series, t.colours = []int{3, 4}, []int{0, 5}
	return t
}

var queryQueue = embedded.Levels("sum(running)::DOUBLE, sum(pending)::DOUBLE")

func shapeQueue(r *request, _ *sizes, raw [][]any) *table {
	t := levels(r, raw, []column{{"running", "running", "jobs", count}, {"pending", "pending", "jobs", count}})
	t.series, t.colours = []int{3, 4}, []int{0, 5}
	return t
}

var queryStarts = embedded.Levels("sum(backfilled), sum(started) - least(sum(backfilled), sum(started)), " +
	"sum(submitted), sum(completed), sum(cancelled), sum(failed)")

func shapeStarts(r *request, _ *sizes, raw [][]any) *table {
	t := levels(r, raw, []column{
		{"backfilled", "backfilled", "jobs", count}, {"others", "others", "jobs", count},
		{"submitted", "submitted", "jobs", count},
		{"completed", "completed", "jobs", count}, {"cancelled", "cancelled", "jobs", count},
		{"failed", "failed", "jobs", count},
	})
	t.series, t.colours, t.levels = []int{3, 4}, []int{0, 5}, false
	return t
}

var queryAgents = embedded.Levels("sum(agent_queue)::DOUBLE, sum(dbd_queue)::DOUBLE, sum(threads)::DOUBLE, " +
	"sum(agents)::DOUBLE")

func shapeAgents(r *request, _ *sizes, raw [][]any) *table {
	t := levels(r, raw, []column{
		{"agent_queue", "for nodes", "messages", count}, {"dbd_queue", "for slurmdbd", "messages", count},
		{"threads", "requests in service", "", count}, {"agents", "agents", "", count},
	})
	t.series, t.colours = []int{3, 4}, []int{0, 5}
	return t
}

// These sentences say which schedulers count the events of a panel of counts.
const (
	whoCountsExits    = "Slurm counts why cycles end since 23.11, and so do simulations of such releases."
	whoCountsRequests = "No simulation counts requests."
)

// shapeCounts makes a table from the rows of [embedded.Counts]. The parameter who is a sentence
// for the note on clusters without counts.
func shapeCounts(unit string, f format, who string) func(r *request, _ *sizes, raw [][]any) *table {
	return func(r *request, _ *sizes, raw [][]any) *table {
		var named [][]any
		var silent, idle []string
		times := make(map[int64]any)
		for _, row := range raw {
			switch {
			case row[0] == nil && row[2] == 0.0:
				idle = append(idle, orUnknown(row[1].(string)))
			case row[0] == nil:
				silent = append(silent, orUnknown(row[1].(string)))
			case row[1] == nil:
				times[row[0].(int64)] = row[2]
			default:
				named = append(named, row)
			}
		}
		t := plainColours(pivot(r, r.bars(), named, unit, f))
		t.Columns = slices.Insert(t.Columns, coveredColumn, covered)
		for i := range t.series {
			t.series[i]++
		}
		for i := range t.Rows {
			t.Rows[i] = slices.Insert(t.Rows[i], coveredColumn, orZero(times[int64(i)]))
			if t.Rows[i][coveredColumn] == 0.0 {
				clear(t.Rows[i][coveredColumn+1:])
			}
		}
		for _, list := range []struct {
			names []string
			note  string
		}{{idle, "No cycle in this range: %s."},
			{silent, "No such event was counted for %s: it did not happen, or slurmctld does not count it. " + who}} {
			if len(list.names) > 0 {
				slices.Sort(list.names)
				t.notes = append(t.notes, fmt.Sprintf(list.note, strings.Join(list.names, ", ")))
			}
		}
		return t
	}
}
