package service

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"rmreplay/internal/forecast/judge"
)

// figures are the metrics that Prometheus reads at /metrics. Names and units follow its conventions
// (https://prometheus.io/docs/practices/naming/).
type figures struct{ *Service }

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("rmreplay_forecast_"+name, help, labels, nil)
}

var (
	waitFigure = described("expected_wait_seconds", "Expected wait of a job that was submitted at the last forecast of "+
		"its class, by quantile. "+
		"A wait beyond the horizon, and a wait of a stale forecast, is absent.", "partition", "size", "quantile")
	atFigure      = described("timestamp_seconds", "Instant of the last forecast, in seconds since 1970.")
	ageFigure     = described("age_seconds", "Age of the last forecast.")
	staleFigure   = described("stale", "1 if the last forecast is stale or missing.")
	horizonFigure = described("horizon_seconds", "How far ahead the last forecast looks.")
	pendingFigure = described("jobs_pending", "Pending jobs in the last capture, each task of an array by itself.")
	runningFigure = described("jobs_running", "Running jobs in the last capture.")
	takenFigure   = described("last_seconds", "Duration of the last capture and of the last forecast.", "step")
	madeFigure    = described("steps_total", "Captures and forecasts since the service started, including failed ones.",
		"step")
	failedFigure = described("steps_failed_total", "Captures and forecasts that failed since the service started.",
		"step")
	judgedFigure   = described("judged", "Forecasts of jobs that started within --judge-over.", "partition", "lead")
	coverageFigure = described("coverage_ratio", "Share of starts from P10 to P90; 0.8 is right.", "partition", "lead")
	latelyFigure   = described("recent_coverage_ratio", "Share of recent starts from P10 to P90, with exponentially "+
		"decaying weights, for the intervals of the realizations (raw) and the recalibrated intervals; lead is the lead "+
		"time "+
		"of the median.",
		"partition", "lead", "intervals")
	wrongFigure = described("wrong", "1 if the recent forecasts of a class were wrong too often.", "partition",
		"lead")
	nearFigure = described("near_ratio", "Share of starts within the given number of seconds of the median.", "partition",
		"lead", "within")
)

// metrics returns the handler of /metrics.
func (s *Service) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(figures{s}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// Describe sends the descriptions of the figures.
func (f figures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitFigure, atFigure, ageFigure, staleFigure, horizonFigure, pendingFigure,
		runningFigure, takenFigure, madeFigure, failedFigure, judgedFigure, coverageFigure, nearFigure, latelyFigure,
		wrongFigure} {
		to <- d
	}
}

// Collect sends the figures.
func (f figures) Collect(to chan<- prometheus.Metric) {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	send := func(kind prometheus.ValueType, d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, step := range []string{"capture", "forecast"} {
		send(counter, madeFigure, float64(f.tally.made[step]), step)
		send(counter, failedFigure, float64(f.tally.failed[step]), step)
	}
	head := f.head()
	stale := 0.0
	if head.Stale {
		stale = 1
	}
	send(gauge, staleFigure, stale)
	send(gauge, takenFigure, f.tally.captureSeconds, "capture")
	if r := f.known.Round; r != nil {
		send(gauge, atFigure, float64(r.Report.At.Unix()))
		send(gauge, ageFigure, head.Age)
		send(gauge, takenFigure, r.Took, "forecast")
		send(gauge, pendingFigure, float64(len(r.Report.Jobs)))
		send(gauge, runningFigure, float64(r.Report.Running))
		if r.Report.Horizon != nil {
			send(gauge, horizonFigure, r.Report.Horizon.Sub(r.Report.At).Seconds())
		}
	}
	for _, t := range f.known.Tries {
		if head.Stale {
			break
		}
		for quantile, wait := range map[string]*float64{"0.1": t.P10, "0.5": t.P50, "0.9": t.P90} {
			if wait != nil {
				send(gauge, waitFigure, *wait, t.Partition, t.Size, quantile)
			}
		}
	}
	for _, c := range f.judge.Scales() {
		lead, wrong := judge.Leads[c.Lead].Name, 0.0
		if c.Wrong() {
			wrong = 1
		}
		send(gauge, latelyFigure, c.Raw, c.Partition, lead, "raw")
		send(gauge, latelyFigure, c.Covered, c.Partition, lead, "recalibrated")
		send(gauge, wrongFigure, wrong, c.Partition, lead)
	}
	groups, _ := f.judge.Groups()
	for i := range groups {
		g := &groups[i]
		partition, lead := g.Partition, judge.Leads[g.Lead].Name
		send(gauge, judgedFigure, float64(g.Forecasts), partition, lead)
		if g.Forecasts == 0 {
			continue
		}
		send(gauge, coverageFigure, float64(g.Covered)/float64(g.Forecasts), partition, lead)
		for k, distance := range judge.Distances {
			send(gauge, nearFigure, float64(g.Near[k])/float64(g.Forecasts), partition, lead,
				strconv.FormatFloat(distance.Seconds(), 'f', -1, 64))
		}
	}
}
