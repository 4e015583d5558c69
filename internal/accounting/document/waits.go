package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/waits"
)

// WaitsKey is the key with the text of [WaitsText] in documents of runs. Slurm's documents lack
// this key.
const WaitsKey = "waits"

// sinceEligible names the wait since eligibility in the text of [WaitsText].
const sinceEligible = "since_eligible"

// WaitsPreset is the text for a preset job. The run's scheduler did not decide when the job
// started, so the text omits the job's wait, as package metrics does.
const WaitsPreset = "preset"

// WaitsLost is the text for a lost run. The whole wait is in the document of the job's last run.
const WaitsLost = "lost"

// WaitsText formats a job's wait in whole seconds: "dependency=60,unknown=0,since_eligible=0". The
// parts are rounded so that their sum is the rounded wait.
func WaitsText(s *waits.Sums) string {
	var b strings.Builder
	var sum time.Duration
	var written int64
	for i, part := range waits.Parts {
		sum += s.Parts[i]
		n := int64(sum.Round(time.Second)/time.Second) - written
		written += n
		if n > 0 || part == waits.Unknown {
			fmt.Fprintf(&b, "%s=%d,", part, n)
		}
	}
	if s.Eligible {
		fmt.Fprintf(&b, "%s=%d", sinceEligible, s.SinceEligible.Round(time.Second)/time.Second)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// wait computes how long the job waited, and for what.
func (p *parser) wait() {
	j := &p.job
	if j.Start.IsZero() || p.told() {
		return
	}
	if j.Submit.After(j.Start) {
		j.Marks |= TimesReverse
		return
	}
	// As in package waits, the eligible time lies between the submit time and the start.
	eligible := j.Eligible
	if !eligible.IsZero() && eligible.Before(j.Submit) {
		eligible = j.Submit
	}
	if eligible.After(j.Start) {
		eligible = j.Start
	}
	if !eligible.IsZero() {
		j.SinceEligible = KnownInt(int64(j.Start.Sub(eligible) / time.Second))
	}
	if j.Submit.IsZero() {
		return
	}
	j.Wait = KnownInt(int64(j.Start.Sub(j.Submit) / time.Second))
	rest := j.Wait.Value
	if j.Dependency != "" && j.SinceEligible.Known {
		j.WaitParts[slices.Index(waits.Parts, waits.Dependency)] = KnownInt(rest - j.SinceEligible.Value)
		rest = j.SinceEligible.Value
	}
	j.WaitParts[slices.Index(waits.Parts, waits.Unknown)] = KnownInt(rest)
}

// told reads the wait from the text of [WaitsText]. It returns false if the text is missing or
// invalid.
func (p *parser) told() bool {
	switch p.waits {
	case "":
		return false
	case WaitsPreset, WaitsLost:
		return true
	}
	var wait, since Int
	var parts [len(waits.Sums{}.Parts)]Int
	for i := range parts {
		parts[i] = KnownInt(0)
	}
	for name, text := range slurmspec.TRES(p.waits) {
		n, err := strconv.ParseInt(text, 10, 64)
		i := slices.Index(waits.Parts, waits.Part(name))
		if err != nil || n < 0 || n > slurmspec.MaxSeconds || i < 0 && name != sinceEligible {
			p.job.Marks |= BadValue
			return false
		}
		if i < 0 {
			since = KnownInt(n)
			continue
		}
		parts[i] = KnownInt(n)
	}
	wait = KnownInt(0)
	for _, part := range parts {
		wait.Value += part.Value
	}
	p.job.Wait, p.job.SinceEligible, p.job.WaitParts = wait, since, parts
	return true
}
