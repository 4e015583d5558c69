package flags

import (
	"time"

	"github.com/spf13/pflag"

	"rmreplay/internal/hpc"
)

// duration is the value of a flag.
type duration time.Duration

func (d *duration) String() string { return hpc.FormatDuration(time.Duration(*d)) }
func (d *duration) Type() string   { return "duration" }
func (d *duration) Set(text string) error {
	parsed, err := hpc.ParseDuration(text)
	if err == nil {
		*d = duration(parsed)
	}
	return err
}

// Duration adds a flag whose value [hpc.ParseDuration] reads.
func Duration(f *pflag.FlagSet, to *time.Duration, name string, byDefault time.Duration, usage string) {
	*to = byDefault
	f.Var((*duration)(to), name, usage)
}
