// Package hint makes a line for users who submit a job. The line says which time limit similar
// jobs need, and when such a job is expected to start. It queries the services `predict serve` and
// `forecast serve`. Its Lua scripts connect it to sbatch.
package hint

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"rmreplay/internal/forecast/service"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/slurmspec"
)

//go:embed *.lua
var files embed.FS

// Scripts are the scripts by name, for Slurm's plugins of Lua. Each script is one file.
var Scripts = map[string]string{"cli_filter.lua": script("cli_filter.lua"), "job_submit.lua": script("job_submit.lua")}

// script returns a script. The part that both scripts share replaces a marked line.
func script(name string) string {
	own, _ := files.ReadFile(name)
	both, _ := files.ReadFile("ask.lua")
	return strings.Replace(string(own), "--ask.lua--\n", string(both), 1)
}

// Job has the known properties of a job that is being submitted. Empty fields are not known.
type Job struct {
	Name      string `json:"name,omitempty"`
	User      string `json:"user,omitempty"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition,omitempty"`
	QOS       string `json:"qos,omitempty"`
	Nodes     int    `json:"min_nodes,omitempty"`
	Tasks     int    `json:"tasks,omitempty"`
	// Limit is the time limit in seconds.
	Limit float64 `json:"time_limit_s,omitempty"`
}

// Servers are the addresses of the services. A service with an empty address is not queried.
type Servers struct{ Predict, Forecast string }

// Line returns the hint for a job. The hint is "" if no service answers before the context ends.
func (s Servers) Line(ctx context.Context, job *Job) string {
	limit, start := make(chan string, 1), make(chan string, 1)
	go func() { limit <- s.limit(ctx, job) }()
	go func() { start <- s.start(ctx, job) }()
	var parts []string
	for _, from := range []chan string{limit, start} {
		select {
		case text := <-from:
			if text != "" {
				parts = append(parts, text)
			}
		case <-ctx.Done():
		}
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), quantity.Space, " ")
}

// shorter is the share of the user's own time limit below which a shorter time limit is suggested.
const shorter = 0.75

// maxAnswerBytes bounds an answer in bytes.
const maxAnswerBytes = 1 << 20

// limit returns a text about the time limit that jobs like the given job need.
func (s Servers) limit(ctx context.Context, job *Job) string {
	if s.Predict == "" {
		return ""
	}
	body, err := json.Marshal(map[string]any{"jobs": []*Job{job}})
	if err != nil {
		return ""
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(s.Predict, "/")+"/v1/predict",
		bytes.NewReader(body))
	if err != nil {
		return ""
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer response.Body.Close() // only read
	var a struct {
		Predictions []struct {
			P90 float64 `json:"p90_s"`
		} `json:"predictions"`
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxAnswerBytes)).Decode(&a)
	if err != nil || response.StatusCode != http.StatusOK || len(a.Predictions) != 1 {
		return ""
	}
	p90 := a.Predictions[0].P90
	if p90 <= 0 || p90 >= hpc.Unlimited.Seconds()/4 || job.Limit > 0 && p90 >= job.Limit*shorter {
		return ""
	}
	unit := time.Minute
	if p90 >= (30 * time.Minute).Seconds() {
		unit = 5 * time.Minute
	}
	suggested := (time.Duration(p90*float64(time.Second)) + unit - 1).Truncate(unit)
	if job.Limit > 0 && suggested.Seconds() >= job.Limit {
		return ""
	}
	return fmt.Sprintf("--time=%s is enough for 9 of 10 jobs like this one, and kills 1 of 10",
		slurmspec.FormatSpan(suggested))
}

// start returns a text about when a job of the given job's size and partition would start.
func (s Servers) start(ctx context.Context, job *Job) string {
	if s.Forecast == "" {
		return ""
	}
	m, err := service.Server{Address: s.Forecast}.Machine(ctx)
	if err != nil || m.Forecast.Stale {
		return ""
	}
	t := m.Class(job.Partition, max(job.Nodes, 1))
	switch {
	case t == nil:
		return ""
	case t.P50 == nil && t.Beyond > 0:
		return fmt.Sprintf("a job of %s in %s is expected to start later than in %s", t.Size, quantity.Name(t.Partition),
			quantity.Duration(t.Beyond))
	case t.P50 == nil:
		return ""
	}
	text := fmt.Sprintf("a job of %s in %s is expected to start in %s", t.Size, quantity.Name(t.Partition),
		quantity.Duration(*t.P50))
	if t.P90 != nil {
		text += fmt.Sprintf(" (9 of 10 within %s)", quantity.Duration(*t.P90))
	}
	return text
}
