package ioaware

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Config is the part of the plugin's configuration file (VINSNL_CONFIG, JSON) that says how to
// plan. [ParseConfig] reads it.
type Config struct {
	Options
	// TotalNodes takes the place of the number of nodes in service; 0 if it is not set.
	TotalNodes int
	// Log is the path of the file that gets a row for each round; empty for none.
	Log string
}

// ParseStrategy reads the name of a strategy. It takes the names of this package, of the paper
// ("I/O-aware", "workload-adaptive") and of the plugin's configuration and README ("aware",
// "two_group", "Two-group"), in upper or lower case.
func ParseStrategy(name string) (Strategy, error) {
	switch strings.ReplaceAll(strings.ToLower(name), "_", "-") {
	case "baseline":
		return Baseline, nil
	case "aware", "io-aware", "i/o-aware", "none":
		return Aware, nil
	case "two-group", "workload-adaptive":
		return TwoGroup, nil
	}
	return "", fmt.Errorf("%q: not a strategy (want baseline, aware or two-group)", name)
}

// ParseConfig reads a configuration file of the plugin. Keys that do not concern planning
// ("server") are left to the caller. A value of the wrong type is an error.
func ParseConfig(text []byte) (Config, error) {
	var file struct {
		BackfillType *string  `json:"backfill_type"`
		TrackNodes   *bool    `json:"track_nodes"`
		TotalNodes   *int     `json:"total_nodes"`
		Fraction     *float64 `json:"two_group_fraction"`
		Log          *string  `json:"lustre_log_path"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return Config{}, fmt.Errorf("reading the configuration: %s: a %s (want a %s)", wrong.Field, wrong.Value, wrong.Type)
		}
		return Config{}, fmt.Errorf("reading the configuration: not JSON: %w", err)
	}
	c := Config{Options: Options{Strategy: Aware}}
	if file.BackfillType != nil {
		var err error
		if c.Strategy, err = ParseStrategy(*file.BackfillType); err != nil {
			return Config{}, fmt.Errorf("reading the configuration: backfill_type: %w", err)
		}
	}
	if file.TrackNodes != nil {
		c.TrackNodes = *file.TrackNodes
	}
	if n := file.TotalNodes; n != nil {
		if *n < 1 {
			return Config{}, fmt.Errorf("reading the configuration: total_nodes: %d: not a number of nodes (want at least 1)", *n)
		}
		c.TotalNodes = *n
	}
	if f := file.Fraction; f != nil {
		if *f <= 0 || *f > 1 {
			return Config{}, fmt.Errorf("reading the configuration: two_group_fraction: %v: not a fraction (want more than 0, at most 1)", *f)
		}
		c.Fraction = *f
	}
	if file.Log != nil {
		c.Log = *file.Log
	}
	return c, nil
}

// LogRow returns the row that the plugin writes for a round: the time in seconds since the Unix
// epoch, the licenses of the file system, the first values of both trackers, r*, the mean of the
// zero group, the mean of all jobs, and the target.
func (r *Round) LogRow(unix, total int64) string {
	g := &r.Groups
	return fmt.Sprintf("%d, %d, %d, %d, %f, %f, %f, %d\n", unix, total, r.Used, r.StarUsed, g.RStar, g.RBar, g.RTarget, g.StarTarget)
}
