package flags

import (
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/hpc"
)

// duration is the value of a flag that parse reads.
type duration struct {
	to    *time.Duration
	parse func(text string) (time.Duration, error)
}

func (d duration) String() string { return hpc.FormatDuration(*d.to) }
func (d duration) Type() string   { return "duration" }
func (d duration) Set(text string) error {
	parsed, err := d.parse(text)
	if err == nil {
		*d.to = parsed
	}
	return err
}

// Duration adds a flag whose value [hpc.ParseDuration] reads.
func Duration(f *pflag.FlagSet, to *time.Duration, name string, byDefault time.Duration, usage string) {
	*to = byDefault
	f.Var(duration{to, hpc.ParseDuration}, name, usage)
}

// Days adds a flag whose value is usually days or hours. [hpc.ParseWithUnit] reads it.
func Days(f *pflag.FlagSet, to *time.Duration, name string, byDefault time.Duration, usage string) {
	*to = byDefault
	f.Var(duration{to, hpc.ParseWithUnit}, name, usage)
}
