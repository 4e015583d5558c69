package service

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"rmreplay/internal/accounting/engine"
	"rmreplay/internal/accounting/intake"
	"rmreplay/internal/accounting/store"
)

// figures are the metrics for Prometheus at /metrics. Names and units follow Prometheus's
// conventions (https://prometheus.io/docs/practices/naming/).
type figures struct {
	registry  *prometheus.Registry
	questions *prometheus.HistogramVec
	requests  *prometheus.CounterVec
	scheduler *schedulerFigures
}

func newFigures() *figures {
	f := &figures{
		registry: prometheus.NewRegistry(),
		questions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rmreplay_accounting_question_seconds", Help: "Time of queries to the query engines, waiting included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"outcome"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rmreplay_accounting_requests_total", Help: "HTTP requests that sent documents or queries, by status.",
		}, []string{"kind", "code"}),
		scheduler: newSchedulerFigures(),
	}
	f.registry.MustRegister(f.questions, f.requests, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	f.registry.MustRegister(f.scheduler.collectors...)
	for _, outcome := range []string{"answered", "busy", "time", "memory", "large", "failed"} {
		f.questions.WithLabelValues(outcome) // makes the counter start at 0, so that Prometheus can compute rates
	}
	return f
}

// asked counts a question to the store.
func (f *figures) asked(took time.Duration, err error) {
	outcome := "failed"
	switch {
	case err == nil:
		outcome = "answered"
	case errors.Is(err, engine.ErrBusy):
		outcome = "busy"
	case errors.Is(err, engine.ErrTime):
		outcome = "time"
	case errors.Is(err, engine.ErrMemory):
		outcome = "memory"
	case errors.Is(err, engine.ErrLarge):
		outcome = "large"
	}
	f.questions.WithLabelValues(outcome).Observe(took.Seconds())
}

// count wraps a handler and counts its requests. The parameter takes reports whether a request
// sends documents.
func (f *figures) count(handler http.Handler, takes func(r *http.Request) bool) http.Handler {
	kind := func(name string) http.Handler {
		return promhttp.InstrumentHandlerCounter(f.requests.MustCurryWith(prometheus.Labels{"kind": name}), handler)
	}
	documents, questions := kind("documents"), kind("questions")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if takes(r) {
			documents.ServeHTTP(w, r)
			return
		}
		questions.ServeHTTP(w, r)
	})
}

// handler responds with the metrics of a server with a data directory.
func (f *figures) handler(in *intake.Intake) http.Handler {
	f.registry.MustRegister(&directoryFigures{in: in})
	return promhttp.HandlerFor(f.registry, promhttp.HandlerOpts{})
}

// directoryFigures are metrics that are computed from a data directory on each request.
type directoryFigures struct{ in *intake.Intake }

// The metrics of a data directory.
var (
	receivedFigure = figure("documents_received_total", "Documents that were acknowledged, since the directory was made.")
	waitingFigure  = figure("documents_waiting", "Acknowledged documents that answers do not include yet.")
	outcomeFigure  = figure("documents_total", "Documents since the server started, by outcome.", "outcome")
	markFigure     = figure("documents_marked_total", "Documents that broke a rule, since the directory was made.", "rule")
	journalFigure  = figure("journal_bytes", "Size of the journal.")
	storeFigure    = figure("store_bytes", "Size of the files of the store.")
	jobsFigure     = figure("jobs", "Jobs in the store.", "cluster")
	newestFigure   = figure("newest_end_timestamp_seconds", "When the last job ended, in seconds since 1970.")
	faultFigure    = figure("store_fault", "1 if the store cannot be written, so that documents stay in the journal.")
)

func figure(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("rmreplay_accounting_"+name, help, labels, nil)
}

// Describe sends the descriptions of the metrics.
func (d *directoryFigures) Describe(to chan<- *prometheus.Desc) {
	for _, f := range []*prometheus.Desc{
		receivedFigure, waitingFigure, outcomeFigure, markFigure, journalFigure, storeFigure, jobsFigure, newestFigure,
		faultFigure,
	} {
		to <- f
	}
}

// Collect sends the metrics.
func (d *directoryFigures) Collect(to chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, f *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(f, kind, value, labels...)
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	status, sum := d.in.Status(), d.in.Store().Summary()
	send(counter, receivedFigure, float64(status.Received))
	send(gauge, waitingFigure, float64(status.Received-status.Applied))
	out := status.Outcome
	for outcome, n := range map[string]int{
		"new": out.Added, "duplicate": out.Duplicate, "replaced": out.Replaced, "kept": out.Kept,
	} {
		send(counter, outcomeFigure, float64(n), outcome)
	}
	for rule, n := range sum.Counts {
		switch rule {
		case store.CountDuplicate, store.CountReplaced, store.CountKept: // outcomes, which are sent above
		default:
			send(counter, markFigure, float64(n), rule)
		}
	}
	send(gauge, journalFigure, float64(status.Journal))
	send(gauge, storeFigure, float64(sum.Bytes))
	for cluster, n := range sum.Clusters {
		send(gauge, jobsFigure, float64(n), cluster)
	}
	if !sum.LastEnd.IsZero() {
		send(gauge, newestFigure, float64(sum.LastEnd.Unix()))
	}
	fault := 0.0
	if status.Fault != nil {
		fault = 1
	}
	send(gauge, faultFigure, fault)
}

// schedulerFigures are each cluster's last figures from sdiag, and counters since the server
// started.
type schedulerFigures struct {
	collectors []prometheus.Collector
	updates    []func(h *store.Health)
}

func newSchedulerFigures() *schedulerFigures {
	const prefix = "rmreplay_scheduler_"
	s := new(schedulerFigures)
	add := func(c prometheus.Collector, update func(h *store.Health)) {
		s.collectors, s.updates = append(s.collectors, c), append(s.updates, update)
	}
	gauge := func(name, help string, of func(h *store.Health) float64) {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, []string{"cluster"})
		add(v, func(h *store.Health) { v.WithLabelValues(h.Cluster).Set(of(h)) })
	}
	counter := func(name, help string, of func(h *store.Health) float64) {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, []string{"cluster"})
		add(v, func(h *store.Health) { v.WithLabelValues(h.Cluster).Add(max(0, of(h))) })
	}
	gauge("jobs_pending", "Pending jobs.",
		func(h *store.Health) float64 { return float64(h.Pending) })
	gauge("jobs_running", "Running jobs.",
		func(h *store.Health) float64 { return float64(h.Running) })
	gauge("server_threads", "Requests that slurmctld serves now.",
		func(h *store.Health) float64 { return float64(h.Threads) })
	gauge("agent_queue", "Messages that wait to be sent to nodes.",
		func(h *store.Health) float64 { return float64(h.AgentQueue) })
	gauge("dbd_queue", "Messages that wait to be sent to slurmdbd.",
		func(h *store.Health) float64 { return float64(h.DBDQueue) })
	gauge("main_last_seconds", "Time of the last cycle of the main scheduler.",
		func(h *store.Health) float64 { return h.Main.Last.Seconds() })
	gauge("backfill_last_seconds", "Time of the last cycle of backfill.",
		func(h *store.Health) float64 { return h.Backfill.Last.Seconds() })
	counter("jobs_submitted_total", "Submitted jobs.",
		func(h *store.Health) float64 { return float64(h.Submitted) })
	counter("jobs_started_total", "Started jobs.",
		func(h *store.Health) float64 { return float64(h.Started) })
	counter("jobs_backfilled_total", "Jobs that backfill started.",
		func(h *store.Health) float64 { return float64(h.Backfilled) })
	counter("main_cycles_total", "Cycles of the main scheduler.",
		func(h *store.Health) float64 { return float64(h.Main.Count) })
	counter("main_seconds_total", "Time of the cycles of the main scheduler.",
		func(h *store.Health) float64 { return h.Main.Sum.Seconds() })
	counter("backfill_cycles_total", "Cycles of backfill.",
		func(h *store.Health) float64 { return float64(h.Backfill.Count) })
	counter("backfill_seconds_total", "Time of the cycles of backfill.",
		func(h *store.Health) float64 { return h.Backfill.Sum.Seconds() })
	gauge("seen_timestamp_seconds", "When sdiag answered last, in seconds since 1970.",
		func(h *store.Health) float64 { return float64(h.At.Unix()) })
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "requests_total",
		Help: "Requests that slurmctld has handled, by type."}, []string{"cluster", "type"})
	add(requests, func(h *store.Health) {
		for _, c := range h.Counts {
			if c.Kind == store.Requests && c.Count > 0 {
				requests.WithLabelValues(h.Cluster, c.Name).Add(float64(c.Count))
			}
		}
	})
	return s
}

// set updates the metrics with figures from sdiag.
func (s *schedulerFigures) set(h *store.Health) {
	for _, update := range s.updates {
		update(h)
	}
}
