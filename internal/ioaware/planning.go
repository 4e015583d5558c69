package ioaware

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// Planning configures how a policy of the simulator, or a driver beside slurmctld, plans with a
// file system.
type Planning struct {
	Options
	// Estimator predicts the use of jobs that do not request licenses.
	Estimator Estimator
	// EstimateIsRequest treats every estimate as a request, like a job_submit plugin that sets
	// licenses. The use is then not measured, and jobs start as in stock Slurm with bf_licenses.
	EstimateIsRequest bool
	// Interval is the time between two rounds at fixed instants. If it is 0, rounds follow changes
	// ([Rounds]). If it is 0 and EstimateIsRequest is true, the time between rounds is Slurm's
	// default bf_interval.
	Interval time.Duration
}

// PlanningBy returns the default planning for a strategy: with perfect estimates, but without
// estimates for the baseline.
func PlanningBy(s Strategy) Planning {
	p := Planning{Options: Options{Strategy: s}, Estimator: Behaviour{Factor: 1}}
	if s == Baseline {
		p.Estimator = Nothing{}
	}
	return p
}

// ParsePlanning parses a strategy with options of [Planning.With]:
// "aware:track-nodes,estimate=x0.5".
func ParsePlanning(text string) (Planning, error) {
	name, options, given := strings.Cut(text, ":")
	strategy, err := ParseStrategy(name)
	if err != nil {
		return Planning{}, err
	}
	p := PlanningBy(strategy)
	if given {
		return p.With(options)
	}
	return p, nil
}

// With returns the planning with options: "track-nodes,estimate=x0.5,interval=30s,fraction=0.5".
func (p Planning) With(text string) (Planning, error) {
	for option := range strings.SplitSeq(text, ",") {
		var err error
		switch key, value, _ := strings.Cut(option, "="); key {
		case "track-nodes":
			if p.TrackNodes = true; value != "" {
				err = fmt.Errorf("%q: track-nodes takes no value", option)
			}
		case "estimate":
			p.Estimator, err = ParseEstimator(value)
		case "interval":
			if p.Interval, err = hpc.ParseDuration(value); err == nil && p.Interval < time.Second {
				err = fmt.Errorf("interval=%s: too short (want at least 1s)", value)
			}
		case "fraction":
			p.Fraction, err = strconv.ParseFloat(value, 64)
			if err != nil || math.IsNaN(p.Fraction) || p.Fraction <= 0 || p.Fraction > 1 {
				err = fmt.Errorf("fraction=%s: not a fraction (want more than 0, at most 1)", value)
			}
		default:
			err = fmt.Errorf("%q: not an option (want track-nodes, estimate=, interval= or fraction=)", option)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// EstimateName returns the value of the option estimate=, which [ParseEstimator] reads. Without this
// option it returns "perfect", or "" if the planning has no estimates. It returns "" for estimate=none.
func (p Planning) EstimateName(options string) string {
	estimate := "perfect"
	if p.Estimator == (Nothing{}) {
		estimate = ""
	}
	for option := range strings.SplitSeq(options, ",") {
		if value, given := strings.CutPrefix(option, "estimate="); given {
			estimate = value
		}
	}
	if estimate == "none" {
		return ""
	}
	return estimate
}

// EstimateName does the same as [Planning.EstimateName] for the text of a strategy with options. It
// returns "" for any other text.
func EstimateName(text string) string {
	name, options, _ := strings.Cut(text, ":")
	p, err := ParsePlanning(name)
	if err != nil {
		return ""
	}
	return p.EstimateName(options)
}
