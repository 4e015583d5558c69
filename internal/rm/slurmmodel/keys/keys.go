// Package keys reads values of slurm.conf as slurmctld does.
package keys

import (
	"fmt"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/options"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Get returns the value of a key, and whether the key is set.
type Get = func(key string) (string, bool)

// Value returns the value of a key; "" if the key is not set.
func Value(get Get, key string) string {
	text, _ := get(key)
	return text
}

// Number returns the value of a key as a number, or the given default if it is not a number.
func Number(get Get, key string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(Value(get, key), 10, 32); err == nil {
		return n
	}
	return otherwise
}

// Options is the text of SchedulerParameters in lower case. Like slurmctld, its methods look for
// the name of an option anywhere in the text, even inside of another name.
type Options string

// OptionsOf returns the SchedulerParameters.
func OptionsOf(get Get) Options { return Options(strings.ToLower(Value(get, "SchedulerParameters"))) }

// Has reports whether the text contains an option.
func (o Options) Has(name string) bool { return strings.Contains(string(o), name) }

// Number returns the value of an option as slurmctld reads it, or the given default if slurmctld refuses it.
func (o Options) Number(name string, otherwise int64) int64 {
	_, text, found := strings.Cut(string(o), name+"=")
	if n := options.Atoi(text); found && options.Scheduler[name].Takes(n) {
		return n
	}
	return otherwise
}

// Minutes returns a time limit in minutes, rounded up; -1 for no limit.
func Minutes(get Get, key string) (int64, error) {
	text := Value(get, key)
	if text == "" || slices.Contains([]string{"UNLIMITED", "INFINITE", "NONE"}, strings.ToUpper(text)) {
		return -1, nil
	}
	d, err := slurmspec.ParseTimeLimit(text)
	if err != nil {
		return 0, fmt.Errorf("%s=%s: %w", key, text, err)
	}
	if d == hpc.Unlimited {
		return -1, nil
	}
	return int64((d + time.Minute - 1) / time.Minute), nil
}

// Given returns a number of a submission; 0 if the submission does not give it.
func Given(n uint32) int {
	if n == slurmspec.NoVal || n == slurmspec.Infinite {
		return 0
	}
	return int(n)
}

// Given16 is [Given] for a number of 16 bits.
func Given16(n uint16) int {
	if n == slurmspec.NoVal16 || n == slurmspec.Infinite16 {
		return 0
	}
	return int(n)
}
