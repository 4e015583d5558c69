package table

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// unitsOf are the units of each kind, with the factor to seconds or bytes. A factor of 0 marks a
// notation that is not a plain number.
var unitsOf = map[kind]map[string]float64{
	aDuration: {
		"ms": 1e-3, "s": 1, "seconds": 1, "min": 60, "minutes": 60, "h": 3600, "hours": 3600, "d": 86400, "days": 86400,
		"us": 1e-6, "ns": 1e-9, "clock": 0, hoursMinutes: 0,
	},
	aMemory: {
		"B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "text": 0,
	},
	aState:     {"slurm": 0},
	anExitCode: {"wait": 0},
}

// maxSeconds bounds every duration, so that sums cannot overflow.
const maxSeconds = 4e9

// unknownTexts are texts that mean "not known" in every field.
var unknownTexts = []string{"", "nan", "none", "null", "nat", "n/a", "na", "unknown", "<na>", "nil", "(null)", "-", "\\n"}

// isUnknown reports whether a text means that the value is not known.
func (f *Field) isUnknown(text string, more []string) bool {
	return slices.Contains(unknownTexts, strings.ToLower(text)) || slices.Contains(f.Unknown, text) ||
		slices.Contains(more, text)
}

// number reads a decimal number and applies the field's factor.
func (f *Field) number(text string, minValue, maxValue float64) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && hasComma(text) {
		return 0, errComma
	}
	if f.Times != 0 {
		n *= f.Times
	}
	if err != nil || !(n >= minValue && n <= maxValue) {
		return 0, fmt.Errorf("not a number from %.15g to %.15g", minValue, maxValue)
	}
	return n, nil
}

// count reads a whole number. If the field has a factor, the product may have a fraction; it is rounded up.
func (f *Field) count(text string) (int, error) {
	n, err := f.number(text, 0, math.MaxInt32)
	if err == nil && f.Times == 0 && n != math.Trunc(n) {
		return 0, notWhole(text)
	}
	return int(math.Ceil(n)), err
}

// duration reads a length of time.
func (f *Field) duration(text string) (time.Duration, error) {
	if slices.Contains(f.Unlimited, text) {
		return hpc.Unlimited, nil
	}
	switch strings.ToLower(text) {
	case "unlimited", "infinite", "infinity", "inf":
		return hpc.Unlimited, nil
	case "partition_limit", "invalid":
		return 0, nil
	}
	unit := f.Unit
	if unit == hoursMinutes {
		if strings.Count(text, ":") == 1 && !strings.ContainsAny(text, "- ") {
			text += ":00"
		}
		return clock(text)
	}
	if unit == "clock" || unit == "" && strings.Contains(text, ":") {
		return clock(text)
	}
	if unit == "" {
		unit = "seconds"
	}
	factor := unitsOf[aDuration][unit]
	n, err := f.number(text, 0, maxSeconds/factor)
	if errors.Is(err, errComma) {
		return 0, err
	}
	if err != nil {
		return 0, fmt.Errorf("not a duration in %s (want 0 to %.15g)", unit, maxSeconds/factor)
	}
	return time.Duration(math.Round(n * factor * 1e9)), nil
}

// hoursMinutes is the unit of clocks in which two parts are hours and minutes.
const hoursMinutes = "HH:MM"

var errClock = errors.New("not a duration (want D-HH:MM:SS)")

// clock reads "HH:MM:SS", "MM:SS.mmm", "D-HH[:MM[:SS]]" and "D days HH[:MM[:SS]]". As in Slurm, two
// parts are minutes and seconds, or hours and minutes if they follow a number of days.
func clock(text string) (time.Duration, error) {
	var days float64
	rest, least := text, 2
	for _, between := range []string{" days, ", " day, ", " days ", " day ", "-"} {
		if before, after, found := strings.Cut(text, between); found {
			n, err := strconv.ParseUint(strings.TrimSpace(before), 10, 17)
			if err != nil {
				return 0, errClock
			}
			days, rest, least = float64(n), after, 1
			break
		}
	}
	parts := strings.Split(rest, ":")
	if len(parts) < least || len(parts) > 3 {
		return 0, errClock
	}
	if least == 1 { // after days, the first part is hours
		parts = append(parts, "0", "0")[:3]
	}
	var total float64
	for _, part := range parts {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil || !(n >= 0 && n < maxSeconds) {
			return 0, errClock
		}
		total = 60*total + n
	}
	if total += 86400 * days; total > maxSeconds {
		return 0, errClock
	}
	return time.Duration(math.Round(total*1e3)) * time.Millisecond, nil
}

// memory reads an amount of memory and returns MiB, rounded up.
func (f *Field) memory(text string) (int64, error) {
	unit := f.Unit
	if unit == "" || unit == "text" {
		trimmed := strings.TrimRight(strings.ReplaceAll(strings.ToUpper(text), " ", ""), "IB")
		if f.Unit == "" && trimmed != "" && trimmed[len(trimmed)-1] <= '9' {
			unit = "MiB"
		} else {
			return slurmspec.ParseMemory(trimmed)
		}
	}
	const most = 1 << 40 // MiB
	factor := unitsOf[aMemory][unit] / (1 << 20)
	n, err := f.number(text, 0, most/factor)
	if errors.Is(err, errComma) {
		return 0, err
	}
	if err != nil {
		return 0, fmt.Errorf("not an amount of memory in %s", unit)
	}
	return int64(math.Ceil(n * factor)), nil
}

// stateWords are other systems' words for Slurm's states.
var stateWords = map[string]hpc.State{
	"complete": hpc.Completed, "done": hpc.Completed, "success": hpc.Completed, "successful": hpc.Completed,
	"succeeded": hpc.Completed,
	"pass":      hpc.Completed, "passed": hpc.Completed, "finished": hpc.Completed, "ok": hpc.Completed,
	"failure": hpc.Failed, "crash": hpc.Failed, "crashed": hpc.Failed,
	"fail": hpc.Failed, "error": hpc.Failed, "exit": hpc.Failed, "exited": hpc.Failed,
	"cancel": hpc.Cancelled, "canceled": hpc.Cancelled, "killed": hpc.Cancelled, "deleted": hpc.Cancelled,
	"removed": hpc.Cancelled, "aborted": hpc.Cancelled, "withdrawn": hpc.Cancelled,
	"timed_out": hpc.TimedOut, "time_limit": hpc.TimedOut, "walltime": hpc.TimedOut, "timed out": hpc.TimedOut,
	"queued": hpc.Pending, "waiting": hpc.Pending,
}

var errState = errors.New("not a state (want a state of Slurm such as COMPLETED, or a translation under the field's " +
	"key values in the map)")

// state reads a job's state.
func (f *Field) state(text string) (hpc.State, error) {
	if f.Unit == "slurm" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return "", errors.New("not the number of a state of Slurm")
		}
		return slurmspec.RecordedJobState(n), nil
	}
	if state, known := stateWords[strings.ToLower(text)]; known {
		return state, nil
	}
	state := slurmspec.ParseJobState(strings.ToUpper(text))
	if _, known := slurmspec.JobStateNumber(state); !known && state != hpc.Requeued {
		return "", errState
	}
	return state, nil
}

// exitCode reads "1:0" or a number. In a status of wait(2), the code is the second byte.
func (f *Field) exitCode(text string) (code, signal int, err error) {
	if first, second, pair := strings.Cut(text, ":"); pair {
		e, err := slurmspec.ParseExitCode(first + ":" + second)
		if err != nil || e.Status > 255 || e.Status < 0 || e.Signal < 0 || e.Signal > 127 {
			return 0, 0, errors.New("not an exit code and a signal (want 1:0)")
		}
		return e.Status, e.Signal, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n != math.Trunc(n) || math.Abs(n) > math.MaxUint32 {
		return 0, 0, errors.New("not an exit code (want a number)")
	}
	status := int64(n)
	if f.Unit == "wait" {
		return int(status>>8) & 0xff, int(status) & 0x7f, nil
	}
	if status < 0 || status > 255 {
		return 1, 0, nil // another system's number for a failure
	}
	return int(status), 0, nil
}

// tres reads a list such as "1=4,2=8000". The field's Names gives the names of the numbers. Memory
// without a unit is in MiB, as in slurmdbd.
func (f *Field) tres(text string) (string, error) {
	text = strings.Trim(text, `"'`)
	if err := slurmspec.CheckTRES(text); err != nil {
		return "", err
	}
	var list []string
	for name, amount := range slurmspec.TRES(text) {
		name = strings.TrimSpace(name)
		if known := f.Names[name]; known != "" {
			name = known
		} else if _, err := strconv.Atoi(name); err == nil {
			continue // a resource that the map leaves out
		}
		list = append(list, name+"="+strings.TrimSpace(amount))
	}
	return strings.Join(list, ","), nil
}

// nodeList reads a host list, or the names in a list such as "['n1', 'n2']" or "n1 n2".
func (f *Field) nodeList(text string) (string, error) {
	inner, isList := strings.CutPrefix(text, "[")
	if isList = isList && strings.HasSuffix(inner, "]"); !isList && !strings.ContainsAny(text, " ;+") {
		if _, err := hostlist.Count(text); err != nil {
			return "", fmt.Errorf("not a list of nodes: %w", err)
		}
		if f.Prefix == "" {
			return text, nil
		}
	}
	names := strings.FieldsFunc(strings.TrimSuffix(inner, "]"),
		func(r rune) bool { return strings.ContainsRune(` ,;+'"`, r) })
	if !isList {
		names = strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;+", r) })
	}
	for i, name := range names {
		if strings.ContainsAny(name, "[]()") {
			return "", errors.New("not a list of nodes (want n[1-3], or n1 n2)")
		}
		names[i] = f.Prefix + name
	}
	return hostlist.Compress(names), nil
}

var errInstant = errors.New("not a time")

// checkTime returns an error if its parameter is not a known notation of times.
func checkTime(how string) error {
	_, err := newClockReader(how, time.UTC, 0)
	return err
}

// clockReader reads instants in one notation.
type clockReader struct {
	how    string
	layout string        // layout for time.Parse
	unit   time.Duration // the unit of numbers
	zone   *time.Location
	origin hpc.Time // the instant from which numbers count
}

// newClockReader returns a reader for the times of a map or a field; see [Field.Time].
func newClockReader(how string, zone *time.Location, origin hpc.Time) (*clockReader, error) {
	c := &clockReader{how: how, zone: zone}
	switch how {
	case "", "iso":
	case "unix":
		c.unit = time.Second
	case "unix_ms":
		c.unit = time.Millisecond
	case "unix_us":
		c.unit = time.Microsecond
	case "unix_ns":
		c.unit = time.Nanosecond
	case "relative":
		c.unit, c.origin = time.Second, origin
	default:
		layout, err := layoutOf(how)
		if err != nil {
			return nil, err
		}
		c.layout = layout
	}
	return c, nil
}

// directives has the directives of strptime(3), as layouts of package time.
var directives = map[byte]string{
	'Y': "2006", 'm': "1", 'd': "2", 'H': "15", 'M': "04", 'S': "05", 'y': "06", 'b': "Jan", 'B': "January", 'h': "Jan",
	'a': "Mon", 'A': "Monday", 'I': "03", 'p': "PM", 'j': "002", 'e': "_2", 'z': "-0700", 'Z': "MST", 'f': "999999999",
	'T': "15:04:05", 'F': "2006-01-02", 'D': "01/02/06", 'R': "15:04", '%': "%",
}

// layoutOf translates a format of strptime(3).
func layoutOf(format string) (string, error) {
	if !strings.Contains(format, "%") {
		return "", fmt.Errorf(
			"time %q: not known (want unix, unix_ms, unix_us, unix_ns, relative, or %%Y-%%m-%%d %%H:%%M:%%S)", format)
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			if format[i] >= '0' && format[i] <= '9' {
				return "", fmt.Errorf("time %q: a digit outside a directive (want directives such as %%Y and separators)", format)
			}
			b.WriteByte(format[i])
			continue
		}
		if i++; i == len(format) {
			return "", fmt.Errorf("time %q: ends in %% without a letter (want a directive such as %%Y)", format)
		}
		layout, known := directives[format[i]]
		if !known {
			return "", fmt.Errorf("time %q: %%%c is not known", format, format[i])
		}
		if strings.HasSuffix(b.String(), "_") && layout == "2" {
			layout = "02" // "_2" is a directive of package time
		}
		b.WriteString(layout)
	}
	return b.String(), nil
}

// parse reads an instant.
func (c *clockReader) parse(text string) (hpc.Time, error) {
	switch {
	case c.layout != "":
		t, err := time.ParseInLocation(c.layout, text, c.zone)
		if err != nil || t.Year() < 1970 || t.Year() > 2200 {
			return 0, fmt.Errorf("%w (want %s)", errInstant, c.how)
		}
		return hpc.Time(t.UnixNano()), nil
	case c.unit != 0:
		return c.number(text)
	}
	if whole, isFloat := strings.CutSuffix(text, ".0"); isFloat { // as pandas writes whole numbers
		text = whole
	}
	for _, zone := range []string{" UTC", "Z"} {
		if local, found := strings.CutSuffix(text, zone); found {
			return c.iso(local, time.UTC)
		}
	}
	return c.iso(text, c.zone)
}

func (c *clockReader) iso(text string, zone *time.Location) (hpc.Time, error) {
	if t, err := slurmspec.ParseTime([]byte(text), zone); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999-07:00",
		"2006-01-02T15:04:05.999999999-0700"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil && t.Year() >= 1970 && t.Year() <= 2200 {
			return hpc.Time(t.UnixNano()), nil
		}
	}
	return 0, fmt.Errorf("%w (want 2024-03-01T08:00:00, seconds since 1970, or time: in the map)", errInstant)
}

// number reads a number of units since 1970 or the origin. 0 since 1970 means an unknown time.
func (c *clockReader) number(text string) (hpc.Time, error) {
	last := (slurmspec.LastInstant - float64(c.origin)/1e9) * float64(time.Second/c.unit)
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n >= 0 && float64(n) <= last {
		return c.origin.Add(time.Duration(n) * c.unit), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0 && f <= last) {
		return 0, fmt.Errorf("%w (want %s)", errInstant, c.how)
	}
	return c.origin.Add(time.Duration(math.Round(f * float64(c.unit)))), nil
}
