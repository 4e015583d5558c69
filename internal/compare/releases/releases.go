// Package releases says what differed between two replays on different releases of Slurm before any decision of the
// scheduler: how the site's configuration was adapted to each release, what each release's sbatch submits for the
// jobs, and which changes of Slurm between the releases are known.
//
// Except for the known changes, all of this follows from the run records. It is not known whether such a difference
// changed the schedules.
package releases

import (
	"slices"
	"time"

	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// Side is one of the two runs.
type Side struct {
	Manifest *run.Manifest
	Rows     []run.Row
	// Log has slurmctld's log; nil if the record has no log.
	Log *Log
	// Shift is added to the run's dates to convert them to the baseline's dates.
	Shift time.Duration
}

// Difference is what differs between two releases of Slurm and the runs on them.
type Difference struct {
	// Baseline and Set are the versions of Slurm: "22.05.8".
	Baseline string `json:"baseline"`
	Set      string `json:"set"`
	// Configuration has the keys of slurm.conf that the adaptation to the releases set
	// differently. Addresses, ports and paths of a single run are not among them.
	Configuration []Key `json:"configuration"`
	// Warnings are the warnings that only one run has.
	Warnings    []Warning   `json:"warnings"`
	Submissions Submissions `json:"submissions"`
	Priorities  Priorities  `json:"initial_priorities"`
	// Known are the known changes of Slurm between the two releases, oldest first. The list is
	// not complete.
	Known []Change `json:"known_changes"`
}

// Key is a key of slurm.conf with its values in both runs. A key without a value has "".
type Key struct {
	Key      string `json:"key"`
	Baseline string `json:"baseline"`
	Set      string `json:"set"`
	Reason   string `json:"reason"`
	// Effect describes the effect of the two values on scheduling, if Slurm changed the key's
	// default.
	Effect string `json:"effect,omitempty"`
}

// Warning is a warning of one of the runs.
type Warning struct {
	InSet bool   `json:"in_set"` // a warning of the set, not of the baseline
	Code  string `json:"code"`
	Text  string `json:"text"`
}

// Change is a known change of Slurm.
type Change struct {
	Since  string        `json:"since"`
	Topic  history.Topic `json:"topic"`
	What   string        `json:"text"`
	Source string        `json:"source"`
}

// Between returns what differs between two runs, or nil if they did not run on two known and
// different releases of Slurm.
func Between(baseline, set Side) *Difference {
	from, err := slurmspec.ParseRelease(baseline.Manifest.Versions.Slurm)
	to, err2 := slurmspec.ParseRelease(set.Manifest.Versions.Slurm)
	if err != nil || err2 != nil || from == to {
		return nil
	}
	d := &Difference{
		Baseline: baseline.Manifest.Versions.Slurm, Set: set.Manifest.Versions.Slurm,
		Configuration: keys(baseline.Manifest.Cluster.Changes, set.Manifest.Cluster.Changes),
		Warnings:      warnings(baseline.Manifest.Warnings, set.Manifest.Warnings),
		Submissions:   submissions(baseline.Rows, from, to),
		Priorities:    priorities(baseline, set),
		Known:         []Change{},
	}
	for _, change := range history.BehavioursBetween(from, to) {
		d.Known = append(d.Known, Change{change.Since.String(), change.Topic, change.What, change.Source})
	}
	return d
}

// keys returns the keys that two adaptations set differently. It leaves out changes that every replay makes: both
// adaptations changed the same old value, for the same reason or to the same new value.
func keys(baseline, set []run.Change) []Key {
	both := func(list []run.Change, c run.Change) bool {
		return slices.ContainsFunc(list, func(o run.Change) bool {
			return o.Key == c.Key && o.From == c.From && (o.Reason == c.Reason || o.To == c.To)
		})
	}
	list := []Key{}
	index := func(key string) int {
		return slices.IndexFunc(list, func(k Key) bool { return k.Key == key })
	}
	for _, c := range baseline {
		if !both(set, c) {
			list = append(list, Key{Key: c.Key, Baseline: c.To, Set: c.From, Reason: c.Reason, Effect: effect(c.Key)})
		}
	}
	for _, c := range set {
		if both(baseline, c) {
			continue
		}
		if i := index(c.Key); i >= 0 {
			list[i].Set, list[i].Reason = c.To, list[i].Reason+"; "+c.Reason
		} else {
			list = append(list, Key{Key: c.Key, Baseline: c.From, Set: c.To, Reason: c.Reason, Effect: effect(c.Key)})
		}
	}
	return list
}

func effect(key string) string {
	for _, d := range history.Defaults {
		if d.Key == key {
			return d.Effect
		}
	}
	return ""
}

// warnings returns the warnings whose code only one run has.
func warnings(baseline, set []run.Warning) []Warning {
	list := []Warning{}
	add := func(of, other []run.Warning, inSet bool) {
		for _, w := range of {
			if !slices.ContainsFunc(other, func(o run.Warning) bool { return o.Code == w.Code }) {
				list = append(list, Warning{inSet, w.Code, w.Text})
			}
		}
	}
	add(baseline, set, false)
	add(set, baseline, true)
	return list
}
