package hpc

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// FileSystem is a file system that jobs share.
type FileSystem struct {
	Name string
	// Bandwidth is what all jobs together can move, in bytes per second.
	Bandwidth int64
	// Limit is the bandwidth that schedulers assume, in bytes per second; Bandwidth if 0. It is the bandwidth that the
	// file system has according to the site.
	Limit int64
	// Licenses is how many licenses Limit corresponds to; [DefaultIOLicenses] if 0.
	Licenses int64
}

// DefaultIOLicenses is the number of licenses of the file system in the configuration of the
// workload-adaptive scheduler's authors (Licenses=lustre:10000).
const DefaultIOLicenses = 10000

// Complete returns the file system with its defaults.
func (f FileSystem) Complete() FileSystem {
	if f.Limit == 0 {
		f.Limit = f.Bandwidth
	}
	if f.Licenses == 0 {
		f.Licenses = DefaultIOLicenses
	}
	return f
}

// Check returns an error for a file system that no job can use.
func (f *FileSystem) Check() error {
	switch {
	case f.Name == "" || strings.ContainsAny(f.Name, " ,:=\t\n"):
		return fmt.Errorf("file system %q: not a name (want a word without commas, colons and equal signs)", f.Name)
	case f.Bandwidth <= 0:
		return fmt.Errorf("file system %s: a bandwidth of %d bytes/s (want more than 0)", f.Name, f.Bandwidth)
	case f.Limit < 0:
		return fmt.Errorf("file system %s: a limit of %d bytes/s (want more than 0)", f.Name, f.Limit)
	case f.Licenses < 0 || f.Licenses > math.MaxInt32:
		return fmt.Errorf("file system %s: %d licenses (want 1 to %d)", f.Name, f.Licenses, math.MaxInt32)
	}
	return nil
}

// LicensesOf converts a rate in bytes per second to licenses, rounded up.
func (f *FileSystem) LicensesOf(rate float64) int64 {
	c := f.Complete()
	return int64(math.Ceil(min(rate/float64(c.Limit)*float64(c.Licenses), math.MaxInt32)))
}

// ParseFileSystem reads NAME=BANDWIDTH, with options after commas, such as lustre=200MiB/s or
// lustre=200MiB/s,limit=150MiB/s,licenses=10000. The error says what is wrong.
func ParseFileSystem(text string) (f FileSystem, err error) {
	parts := strings.Split(text, ",")
	name, bandwidth, ok := strings.Cut(parts[0], "=")
	if !ok {
		return f, fmt.Errorf("%q: not a file system (want, for example, lustre=200MiB/s)", text)
	}
	f.Name = name
	if f.Bandwidth, err = ParseRate(bandwidth); err != nil {
		return f, err
	}
	for _, option := range parts[1:] {
		switch key, value, _ := strings.Cut(option, "="); key {
		case "limit":
			f.Limit, err = ParseRate(value)
		case "licenses":
			if f.Licenses, err = strconv.ParseInt(value, 10, 64); err != nil || f.Licenses < 1 {
				err = fmt.Errorf("licenses=%s: not a number of licenses (want, for example, %d)", value, DefaultIOLicenses)
			}
		default:
			err = fmt.Errorf("%q: not an option of a file system (want limit=RATE or licenses=N)", option)
		}
		if err != nil {
			return f, err
		}
	}
	return f, f.Check()
}

// byteUnits are the units of amounts of bytes. Single letters are powers of 1024, as in Slurm.
var byteUnits = map[string]float64{
	"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
}

// ParseBytes reads an amount of bytes: 200MiB, 1.5GB, 4G as in Slurm's options, or a number.
// Letters may be in upper or lower case, because memory is never given in bits. It returns false
// for any other text, and for less than a byte.
func ParseBytes(text string) (int64, bool) {
	text = strings.ToLower(strings.ReplaceAll(text, " ", ""))
	n, err := strconv.ParseFloat(text, 64) // for example 14e6
	factor, known := 1.0, true
	if err != nil {
		unit := strings.TrimLeft(text, "0123456789.")
		factor, known = byteUnits[unit]
		n, err = strconv.ParseFloat(strings.TrimSuffix(text, unit), 64)
	}
	if n *= factor; !known || err != nil || !(n >= 1) || n >= 1<<62 {
		return 0, false
	}
	return int64(math.Round(n)), true
}

// ParseRate reads a rate in bytes per second: an amount as for [ParseBytes] with a unit and "/s".
// It refuses a number without a unit, because people mean MiB/s, and units of bits, such as Mb/s
// and Mbit/s. The error says what would be right.
func ParseRate(text string) (int64, error) {
	amount, perSecond := strings.CutSuffix(strings.ReplaceAll(text, " ", ""), "/s")
	number := strings.TrimRight(amount, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := amount[len(number):]
	n, ok := ParseBytes(amount)
	if prefix, bits := bitPrefix(unit); bits && number != "" {
		if n, err := strconv.ParseFloat(number, 64); err == nil {
			return 0, fmt.Errorf("%q: a unit of bits, and rates are in bytes (want %s%sB/s, or %g%sB/s for these bits)", text,
				number, prefix, n/8, prefix)
		}
	}
	switch {
	case !ok:
		return 0, fmt.Errorf("%q: not a rate (want, for example, 200MiB/s or 1.5GB/s)", text)
	case unit == "":
		return 0, fmt.Errorf("%s: a bandwidth without a unit (want, for example, %sMiB/s)", text, number)
	case !perSecond:
		return 0, fmt.Errorf("%q: an amount, not a rate (want %s/s)", text, amount)
	}
	return n, nil
}

// bitPrefix reports whether a unit is one of bits, such as Mb, Mbit and Mbps, and returns its prefix.
func bitPrefix(unit string) (prefix string, bits bool) {
	for _, bit := range []string{"bits", "bit", "bps", "b"} {
		if prefix, bits = strings.CutSuffix(unit, bit); bits {
			if prefix != "" && prefix[0] != 'k' {
				prefix = strings.ToUpper(prefix[:1]) + prefix[1:]
			}
			return prefix, true
		}
	}
	return "", false
}

// Phase is a part of a job's run in which it moves data to or from a file system, or computes. A
// job's phases follow one another. After the last phase, the job computes until its end.
type Phase struct {
	// Duration is how long the phase takes if the job gets all the bandwidth that it asks for. If
	// it is 0, the phase takes the rest of the run time; a job has at most one such phase.
	Duration time.Duration
	// FileSystem is the name of the file system; empty for a phase of computing.
	FileSystem string
	// Bytes is the volume that the phase moves, for all nodes together. Rate is the volume per second. A phase has either
	// Bytes or Rate if it moves data, and neither if it computes.
	Bytes, Rate int64
}

// Check returns an error for a phase that cannot be played.
func (p *Phase) Check() error {
	switch {
	case p.Duration < 0:
		return fmt.Errorf("a duration of %v (want 0 or more)", p.Duration)
	case p.Bytes < 0 || p.Rate < 0:
		return fmt.Errorf("a negative number of bytes (want 0 or more)")
	case p.Bytes > 0 && p.Rate > 0:
		return fmt.Errorf("both a volume and a rate are given (want only one of them)")
	case p.FileSystem == "" && (p.Bytes > 0 || p.Rate > 0):
		return fmt.Errorf("bytes without a file system (want its name)")
	}
	return nil
}

// Demand returns the bandwidth that the phase needs to last for the time d, in bytes per second,
// rounded up.
func (p *Phase) Demand(d time.Duration) int64 {
	switch {
	case p.FileSystem == "":
		return 0
	case p.Rate > 0 || p.Bytes <= 0 || d <= 0:
		return max(p.Rate, 0)
	}
	return int64(math.Ceil(min(float64(p.Bytes)/d.Seconds(), 1<<62)))
}

// CheckPhases returns an error for phases that cannot be played one after the other.
func CheckPhases(phases []Phase) error {
	open := 0
	for i := range phases {
		if err := phases[i].Check(); err != nil {
			return fmt.Errorf("phase %d: %w", i+1, err)
		}
		if phases[i].Duration == 0 {
			open++
		}
	}
	if open > 1 {
		return fmt.Errorf("%d phases without a duration (want at most one, which has the rest of the run time)", open)
	}
	return nil
}

// SpreadPhases returns the phases of a run of a given length, with their durations and rates. The
// remaining time goes to the phase without a duration or, without such a phase, to
// computing at the end of the run. If the phases are longer than the run, they are shortened in
// proportion; a phase with a volume keeps it.
func SpreadPhases(phases []Phase, run time.Duration) []Phase {
	var sum, spread time.Duration
	for _, p := range phases {
		sum = min(sum, Unlimited-p.Duration) + p.Duration
	}
	list := make([]Phase, 0, len(phases)+1)
	open := false
	for _, p := range phases {
		d := p.Duration
		switch {
		case d == 0 && !open:
			d, open = max(run-sum, 0), true
		case sum > run:
			d = time.Duration(float64(d) / float64(sum) * float64(run))
		}
		d = max(min(d, run-spread), 0)
		spread += d
		list = append(list, Phase{Duration: d, FileSystem: p.FileSystem, Rate: p.Demand(d)})
	}
	if run > spread {
		list = append(list, Phase{Duration: run - spread})
	}
	return list
}

// Volume returns the bytes that the job moves to and from a file system in a run of a given length.
func (b *Behaviour) Volume(fileSystem string, run time.Duration) float64 {
	sum := 0.0
	for _, p := range SpreadPhases(b.IO, run) {
		if p.FileSystem == fileSystem && p.Duration != Unlimited {
			sum += float64(p.Rate) * p.Duration.Seconds()
		}
	}
	return sum
}
