package table

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"rmreplay/internal/hpc"
)

// Proposed describes a proposed map.
type Proposed struct {
	Fits     string   // the name of a built-in map that fits, or ""
	Unitless []string // the fields with a unit that neither the name nor the values of the column say
}

// Propose writes a map for a table as YAML, from the names of its columns and the values of the
// first rows. Comments say what is a guess, which columns it could not place, and what is missing.
// The parameters at and size are as for [Reader.Read].
func Propose(w io.Writer, r *bufio.Reader, at io.ReaderAt, size int64, name string) (Proposed, error) {
	t, err := open(r, at, size, nil)
	if err != nil {
		return Proposed{}, fmt.Errorf("reading table: %s: %w", name, err)
	}
	p := proposal{table: t, columns: t.names(), fields: make(map[string]string)}
	if text, ok := t.(*textTable); ok && !looksLikeHeader(p.columns) {
		text.header, text.inFile = numbered(len(p.columns)), false
		p.columns, p.unnamed = text.header, true
	}
	if err := p.sample(); err != nil {
		return Proposed{}, fmt.Errorf("reading table: %s: %w", name, err)
	}
	p.readNumbers()
	p.place()
	p.placeUnitNames()
	p.placeHosts()
	p.placeWait()
	p.placeLimit()
	p.placeState()
	fits := p.known()
	err = p.write(w, name, fits)
	return Proposed{fits, p.unitless}, err
}

// looksLikeHeader reports whether texts are names of columns: no text is a number.
func looksLikeHeader(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, err := strconv.ParseFloat(name, 64)
		return err == nil
	})
}

func numbered(count int) (names []string) {
	for i := range count {
		names = append(names, "column"+strconv.Itoa(i+1))
	}
	return names
}

// proposal is a map under construction.
type proposal struct {
	decimal string // the decimal separator, if the map must say it
	shows   string // the reason for decimal
	table   table
	columns []string
	unnamed bool // the table has no header
	values  map[string][]string
	rows    [][]string
	fields  map[string]string // the columns by field

	unitless []string // see [Proposed]
}

// sampleRows is the number of rows that a proposal looks at.
const sampleRows = 500

// sample stores the values of the first rows, except unknown values.
func (p *proposal) sample() error {
	enough := errors.New("enough")
	p.values = make(map[string][]string)
	rows := 0
	var none Field
	err := p.table.each(p.columns, func(r *row) error {
		if rows++; rows > sampleRows {
			return enough
		}
		if r.fault != nil {
			return nil
		}
		p.rows = append(p.rows, slices.Clone(r.cells))
		for i, text := range r.cells {
			if !none.isUnknown(text, nil) {
				p.values[p.columns[i]] = append(p.values[p.columns[i]], text)
			}
		}
		return nil
	})
	if errors.Is(err, enough) {
		return nil
	}
	return err
}

// plain returns the letters and digits of a name, in lower case.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// hints are the units at the ends of columns' names.
var hints = []struct{ suffix, unit string }{
	{"seconds", "seconds"}, {"secs", "seconds"}, {"sec", "seconds"}, {"minutes", "minutes"}, {"mins", "minutes"},
	{"min", "minutes"},
	{"hours", "hours"}, {"hrs", "hours"}, {"days", "days"}, {"ms", "ms"}, {"mib", "MiB"}, {"gib", "GiB"}, {"kib", "KiB"},
	{"mb", "MB"}, {"gb", "GB"}, {"kb", "kB"}, {"bytes", "B"},
	{"milli", milli}, {"millicores", milli},
}

// letters are the units that one letter names. Other characters separate it from the name: "run_s", "Walltime (h)".
var letters = []struct{ suffix, unit string }{{"s", "seconds"}, {"h", "hours"}}

// milli is the unit of counts in thousandths, such as Kubernetes' counts of CPUs.
const milli = "milli"

// clockNotation is how a column's name says that its values are clock times, as in "Wall limit (h:m:s)".
var clockNotation = regexp.MustCompile(`(?i)[(\[](d+-)?h+:m+(:s+)?[)\]]$`)

// hinted splits a column's name into its unit and the rest, in plain form.
func hinted(column string) (rest, unit string) {
	if at := clockNotation.FindStringIndex(column); at != nil && plain(column[:at[0]]) != "" {
		return plain(column[:at[0]]), ""
	}
	for _, letter := range letters {
		for _, suffix := range []string{"_" + letter.suffix, "(" + letter.suffix + ")", "[" + letter.suffix + "]"} {
			if rest, found := strings.CutSuffix(column, suffix); found && plain(rest) != "" {
				return plain(rest), letter.unit
			}
		}
	}
	name := plain(column)
	for _, h := range hints {
		if rest, found := strings.CutSuffix(name, h.suffix); found && rest != "" {
			return rest, h.unit
		}
	}
	return name, ""
}

// unitNames are names of durations that say nothing without a unit: "queue" is usually a partition, but "queue_ms" a
// wait. A column under such a name is a guess.
var unitNames = map[string][]string{"wait": {"queue", "queued", "inqueue"}, "time_limit": {"requested", "req"}}

// isUnitName reports whether a column has a name in unitNames with a unit.
func isUnitName(field, column string) bool {
	rest, unit := hinted(column)
	return unitsOf[aDuration][unit] != 0 && slices.Contains(unitNames[field], rest)
}

// place finds a column for each field. A field gets the column with the most reliable of the field's usual names. A
// column belongs to one field only.
func (p *proposal) place() {
	if p.unnamed {
		return
	}
	used := make(map[string]bool)
	for _, exact := range []bool{true, false} {
		for _, spec := range fieldSpecs {
			if p.fields[spec.name] != "" {
				continue
			}
			for _, alias := range spec.aliases {
				at := slices.IndexFunc(p.columns, func(column string) bool {
					name := plain(column)
					if !exact {
						name, _ = hinted(column)
					}
					if name != alias || used[column] || !p.suits(spec.kind, column) {
						return false
					}
					return exact || spec.kind != aText || !isUnitName("wait", column) || !p.suits(aDuration, column)
				})
				if at >= 0 {
					p.fields[spec.name] = p.columns[at]
					used[p.columns[at]] = true
					break
				}
			}
		}
	}
}

// placeUnitNames finds a column with a name in unitNames for each field that has no column yet.
func (p *proposal) placeUnitNames() {
	for field := range unitNames {
		at := slices.IndexFunc(p.columns, func(column string) bool {
			return isUnitName(field, column) && p.suits(aDuration, column)
		})
		if at >= 0 && p.fields[field] == "" {
			p.fields[field] = p.columns[at]
		}
	}
}

// placeWait finds a column of waits under the name of another field, such as "queue" for a wait in
// seconds. The column's values are the times between submission and start.
func (p *proposal) placeWait() {
	for name, column := range p.fields {
		if spec, _ := specOf(name); spec.kind != aText || !p.isWait(column) {
			continue
		}
		delete(p.fields, name)
		if p.fields["wait"] == "" {
			p.fields["wait"] = column
		}
		return
	}
}

// hostCounts are column names with two meanings: in some tables the names of a job's nodes, in others their number.
var hostCounts = []string{"hosts", "exechosts", "executionhosts", "allocatednodes"}

// placeHosts finds the number of nodes in a column that could have their names. It does nothing if another column has
// the number. Then the column has no place.
func (p *proposal) placeHosts() {
	if p.unnamed || p.fields["nodes"] != "" || p.fields["alloc_nodes"] != "" {
		return
	}
	for _, name := range hostCounts {
		at := slices.IndexFunc(p.columns, func(column string) bool { return plain(column) == name && p.countsHosts(column) })
		if at >= 0 {
			p.fields["nodes"] = p.columns[at]
			return
		}
	}
}

// countsHosts reports whether a column with a name in hostCounts has numbers of nodes: all values are whole numbers.
func (p *proposal) countsHosts(column string) bool {
	values := p.values[column]
	return slices.Contains(hostCounts, plain(column)) && len(values) > 0 && len(wholeNumbers(values)) == len(values)
}

// wholeNumbers returns the texts that are whole numbers.
func wholeNumbers(values []string) (whole []string) {
	for _, text := range values {
		if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n == math.Trunc(n) {
			whole = append(whole, text)
		}
	}
	return whole
}

// asked are column names with two meanings: in some systems' logs the time that a job asked for, in
// others the time that it ran.
var asked = []string{"walltime", "wallclock", "wallclocktime"}

// maybeAsked reports whether the name of a column is in asked, perhaps with a unit.
func maybeAsked(column string) bool {
	rest, _ := hinted(column)
	return slices.Contains(asked, plain(column)) || slices.Contains(asked, rest)
}

// placeLimit moves a column from run_time to time_limit if its name is in asked, and if other columns give the run
// times: start and end, or the submission with the wait and the end. The column stays where it is if its values are the
// times from start to end.
func (p *proposal) placeLimit() {
	column, has := p.fields["run_time"], func(field string) bool { return p.fields[field] != "" }
	started := has("start") || has("submit") && has("wait")
	if !maybeAsked(column) || !started || !has("end") || has("time_limit") || p.isRunTime(column) {
		return
	}
	delete(p.fields, "run_time")
	p.fields["time_limit"] = column
}

// isRunTime reports whether nine of ten values of a column are the times from start to end.
func (p *proposal) isRunTime(column string) bool {
	same, _, known := p.compareRunTimes(column)
	return known > 0 && 10*same >= 9*known
}

// compareRunTimes compares the values of a column, in the column's unit, with the times from start to end. It returns
// how many rows have both, in how many of them the two are the same, and in how many the value is longer. Values of
// minutes or hours may be rounded.
func (p *proposal) compareRunTimes(column string) (same, longer, known int) {
	unit := p.runTimeUnit(column)
	between, at := p.between("start", "end"), slices.Index(p.columns, column)
	for _, row := range p.rows {
		field, rounding := Field{Unit: unit}, max(1, unitsOf[aDuration][unit])
		if strings.Contains(row[at], ":") {
			field.Unit, rounding = "clock", 1
		}
		seconds, ok := between(row)
		told, err := field.duration(row[at])
		if !ok || seconds < 0 || err != nil || field.isUnknown(row[at], nil) {
			continue
		}
		known++
		switch over := told.Seconds() - seconds; {
		case told == hpc.Unlimited || over > rounding:
			longer++
		case over >= -rounding:
			same++
		}
	}
	return same, longer, known
}

// durationDoubt returns why a column of durations is a guess, apart from its unit, or "".
func (p *proposal) durationDoubt(field, column string) string {
	rest, _ := hinted(column)
	switch unsure := isUnitName(field, column); {
	case field == "time_limit" && maybeAsked(column):
		return "what the job asked for, not how long it ran"
	case field == "run_time":
		return p.runTimeDoubt(column)
	case field == "wait" && unsure:
		return "the wait before the start"
	case field == "time_limit" && (unsure || slices.Contains(unsureLimits, rest)):
		return "the limit of the run time"
	}
	return ""
}

// unsureLimits are names of time limits that may mean something else.
var unsureLimits = []string{"maxduration", "hrt"}

// runTimeDoubt returns why a column of run times is a guess, or "". Its name may mean a limit, or its values may be
// longer than the times from start to end.
func (p *proposal) runTimeDoubt(column string) string {
	_, longer, known := p.compareRunTimes(column)
	var doubts []string
	if maybeAsked(column) && !p.isRunTime(column) {
		doubts = append(doubts, "how long the job ran, not what it asked for")
	}
	if 10*longer > known {
		doubts = append(doubts, fmt.Sprintf("values longer than the time from start to end: %d of %d", longer, known))
	}
	return strings.Join(doubts, "; ")
}

// isWait reports whether nine of ten values of a column are the seconds from submission to start.
func (p *proposal) isWait(column string) bool {
	between := p.between("submit", "start")
	waitAt := slices.Index(p.columns, column)
	known, good, positive := 0, 0, false
	for _, row := range p.rows {
		waited, ok := between(row)
		wait, err := strconv.ParseFloat(row[waitAt], 64)
		if !ok || err != nil {
			continue
		}
		known++
		if math.Abs(waited-wait) <= 1 {
			good++
			positive = positive || wait > 0
		}
	}
	return positive && 10*good >= 9*known
}

// between returns a function that returns, for a row, the seconds from the instant in one field to the instant in
// another field. It returns false if one of these instants is not known.
func (p *proposal) between(from, to string) func(row []string) (float64, bool) {
	first, last := p.fields[from], p.fields[to]
	if first == "" || last == "" {
		return func([]string) (float64, bool) { return 0, false }
	}
	at := func(column string) (int, *clockReader) {
		read, _ := newClockReader(p.timeOf(append(p.values[column], "")), time.UTC, 0) // timeOf returns known formats
		return slices.Index(p.columns, column), read
	}
	firstAt, begin := at(first)
	lastAt, end := at(last)
	var none Field
	return func(row []string) (float64, bool) {
		if none.isUnknown(row[firstAt], nil) || none.isUnknown(row[lastAt], nil) {
			return 0, false
		}
		a, err := begin.parse(row[firstAt])
		b, err2 := end.parse(row[lastAt])
		return b.Sub(a).Seconds(), err == nil && err2 == nil
	}
}

// suits reports whether at least half of a column's values are valid for a kind.
func (p *proposal) suits(k kind, column string) bool {
	values := p.values[column]
	if len(values) == 0 {
		return true
	}
	if k == aNodeList && p.countsHosts(column) {
		return false
	}
	field := &Field{Times: 1} // so that counts may have fractions, as Kubernetes' CPUs do
	if k == anInstant || k == aState {
		field.Time = p.timeOf(values)
	}
	read, err := newClockReader(field.Time, time.UTC, 0)
	if err != nil {
		return false
	}
	good := 0
	for _, text := range values {
		var err error
		switch k {
		case aCount:
			_, err = field.count(text)
		case aDuration:
			_, err = field.duration(text)
		case aMemory:
			_, err = field.memory(text)
		case anInstant:
			_, err = read.parse(text)
		case someTRES:
			_, err = field.tres(text)
		case anExitCode:
			_, _, err = field.exitCode(text)
		case aState:
			_, instant := read.parse(text)
			_, number := strconv.ParseFloat(text, 64)
			if instant == nil && read.how != "relative" || number == nil && !numbersStates(column) {
				err = errState
			}
		case aText:
			if n, notNumber := strconv.ParseFloat(text, 64); notNumber == nil && n != math.Trunc(n) {
				err = errors.New("no name: a fraction")
			}
		}
		if err == nil {
			good++
		}
	}
	return 2*good >= len(values)
}

// numbersStates reports whether numbers in a column may be those of Slurm's states. Under a name such as Exit_status,
// numbers are exit codes. Under JobStatus, they are HTCondor's states.
func numbersStates(column string) bool {
	name := plain(column)
	return !strings.Contains(name, "exit") && name != "jobstatus"
}

// placeState removes a column of numbers from the field state if most rows with start and end have one of the first
// two numbers. For Slurm, these mean that a job waits or runs. Then the column has no place.
func (p *proposal) placeState() {
	column, ran := p.fields["state"], p.between("start", "end")
	at, ended, open := slices.Index(p.columns, column), 0, 0
	for _, row := range p.rows {
		if _, ok := ran(row); ok && at >= 0 {
			if ended++; row[at] == "0" || row[at] == "1" {
				open++
			}
		}
	}
	if 2*open > ended {
		delete(p.fields, "state")
	}
}

// timeOf returns how instants are written, in the notation of [Field.Time]. If the first value is a
// number, its size decides. Otherwise it is the usual order of day, month and year that fits most
// of the texts, or ISO 8601.
func (p *proposal) timeOf(values []string) string {
	n, err := strconv.ParseFloat(values[0], 64)
	switch {
	case err == nil && n >= 1e17:
		return "unix_ns"
	case err == nil && n >= 1e14:
		return "unix_us"
	case err == nil && n >= 1e11:
		return "unix_ms"
	case err == nil && n >= 1e8:
		return "unix"
	case err == nil:
		return "relative"
	}
	best, most := "", 0
	for _, how := range []string{
		"", "%Y-%m-%d %H:%M:%S %z", "%Y/%m/%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S",
		"%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%a %b %e %H:%M:%S %Y",
		"%Y%m%d%H%M%S", "%Y-%m-%d %H:%M:%S %Z",
	} {
		read, err := newClockReader(how, time.UTC, 0)
		if err != nil {
			continue
		}
		good := 0
		for _, text := range values {
			if _, err := read.parse(text); err == nil {
				good++
			}
		}
		if 2*good >= len(values) && good > most {
			best, most = how, good
		}
	}
	return best
}

// known returns the name of the first built-in map whose columns the table has, or "".
func (p *proposal) known() string {
	for _, name := range MapNames() {
		m, err := NamedMap(name)
		if err != nil {
			continue
		}
		all := true
		for _, f := range m.Fields {
			has := slices.ContainsFunc(f.Column, func(c string) bool {
				return slices.Contains(p.columns, c) || strings.ContainsAny(c, "*#") &&
					slices.ContainsFunc(p.columns, func(have string) bool {
						first, _, _ := strings.Cut(c, ".")
						return strings.HasPrefix(have, first+".")
					})
			})
			all = all && (has || f.Value != "")
		}
		if all {
			return name
		}
	}
	return ""
}

// write writes the proposal.
func (p *proposal) write(w io.Writer, name, fits string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# A map for %s, from the names of its columns and its first rows. Check it,\n# above all what is "+
		"marked as a guess.\n", name)
	if fits != "" {
		fmt.Fprintf(&b, "# The columns are those of the built-in map: --map %s\n", fits)
	}
	if t, ok := p.table.(*textTable); ok {
		fmt.Fprintf(&b, "delimiter: %s\n", strconv.Quote(t.delimiter))
		if p.unnamed {
			fmt.Fprintf(&b, "# The first row is not a header: name the columns.\nheader: false\ncolumns: [%s]\n",
				strings.Join(p.columns, ", "))
		}
	}
	if p.decimal != "" {
		fmt.Fprintf(&b, "decimal: %q # guess: %s\n", p.decimal, strings.Map(printable, p.shows))
	}
	b.WriteString("# zone: Europe/Zurich # of times without a zone, in place of that of --timezone (UTC)\nfields:\n")
	for _, spec := range fieldSpecs {
		if column := p.fields[spec.name]; column != "" {
			b.WriteString("  " + spec.name + ": " + p.field(spec, column) + "\n")
		}
	}
	p.missing(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// missing names the fields without a column, and the columns without a field.
func (p *proposal) missing(b *strings.Builder) {
	m := &Map{Fields: make(map[string]*Field)}
	used := make(map[string]bool)
	for field, column := range p.fields {
		m.Fields[field] = new(Field)
		used[column] = true
	}
	switch err := m.needs(); {
	case err != nil:
		fmt.Fprintf(b, "# Missing: %v.\n# The fields are: %s\n", err, strings.Join(fieldNames(), ", "))
	case !m.has("cpus", "alloc_cpus", "tasks_per_node", "req_tres", "alloc_tres"):
		b.WriteString("# Missing: no column has the processors of the jobs. Each job counts one CPU for each node.\n" +
			"# If a column has them, add the field cpus.\n")
	}
	var rest []string
	for _, column := range p.columns {
		if !used[column] {
			example := ""
			if values := p.values[column]; len(values) > 0 {
				example = " (" + strings.Map(printable, shorten(values[0])) + ")"
			}
			rest = append(rest, "#   "+strings.Map(printable, column)+example+p.notInstants(column))
		}
	}
	if len(rest) > 0 {
		fmt.Fprintf(b, "# Columns without a place:\n%s\n", strings.Join(rest, "\n"))
	}
}

// notInstants returns a note if an unused column has the name of an instant, but its values cannot
// be read as instants.
func (p *proposal) notInstants(column string) string {
	for _, spec := range fieldSpecs {
		if spec.kind == anInstant && p.fields[spec.name] == "" && slices.Contains(spec.aliases, plain(column)) {
			return fmt.Sprintf(": not instants (want 2024-03-05T10:00:00, or their format, such as %s: {column: %s, time: %q})",
				spec.name, strconv.Quote(column), "%d.%m.%Y %H:%M:%S")
		}
	}
	return ""
}

func shorten(text string) string {
	if runes := []rune(text); len(runes) > 40 {
		return string(runes[:40]) + "..."
	}
	return text
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// field writes a field: its column, and how its values are written.
func (p *proposal) field(spec fieldSpec, column string) string {
	parts, guess := []string{"column: " + strconv.Quote(column)}, ""
	values := p.values[column]
	digits := len(values) > 0 && strings.Trim(values[0], "0123456789") == ""
	_, unit := hinted(column)
	if _, known := unitsOf[spec.kind][unit]; !known {
		unit = ""
	}
	switch spec.kind {
	case anInstant:
		if len(values) > 0 {
			how := p.timeOf(values)
			if how != "" {
				parts = append(parts, "time: "+strconv.Quote(how))
			}
			if strings.Contains(how, "/") {
				guess = "guess: the order of day and month"
			}
		}
	case aDuration:
		unit, guess = p.unitOf(spec.name, column, unit)
		parts = append(parts, "unit: "+unit)
		if doubt := p.durationDoubt(spec.name, column); doubt != "" {
			_, unitGuess, _ := strings.Cut(guess, "guess: ")
			guess = strings.TrimSuffix("guess: "+doubt+"; "+unitGuess, "; ")
		}
	case aMemory:
		switch {
		case slices.ContainsFunc(values, func(text string) bool { return text[0] <= '9' && strings.ContainsAny(text, "KMGTkmgt") }):
			parts = append(parts, "unit: text")
		case unit == "":
			parts, guess = append(parts, "unit: MiB"), p.unknownUnit(spec.name, "kB, MiB or bytes")
		case slurmUnits[unit] != "":
			parts = append(parts, "unit: "+slurmUnits[unit])
			guess = fmt.Sprintf("guess: %s, because Slurm's units are powers of 1024; for powers of 1000 write unit: %s",
				slurmUnits[unit], unit)
		default:
			parts = append(parts, "unit: "+unit)
		}
	case aCount:
		var keys []string
		keys, guess = p.countOf(spec, column)
		parts = append(parts, keys...)
	case aNodeList:
		if whole := wholeNumbers(values); len(whole) > 0 {
			guess = fmt.Sprintf("guess: names of nodes; %d of the %d values are whole numbers, such as %s: if they count nodes, "+
				"use nodes in place of node_list", len(whole), len(values), strings.Map(printable, shorten(whole[0])))
		}
	case aState:
		if strange := p.strange(column); digits {
			parts, guess = append(parts, "unit: slurm"), "guess: the numbers of Slurm's states"
		} else if len(strange) > 0 {
			parts = append(parts, "values: {"+strings.Join(strange, ", ")+"}")
			guess = "guess: what these states mean"
		}
	case someTRES:
		if digits = len(values) > 0 && strings.Trim(values[0], "0123456789=,") == ""; digits {
			parts, guess = append(parts, `names: {"1": cpu, "2": mem, "4": node, "1001": gres/gpu}`), "guess: 1001"
		}
	case aText:
		if prefix := map[string]string{"user": "user", "group": "group", "account": "account", "partition": "partition",
			"qos": "qos"}[spec.name]; prefix != "" && digits {
			parts = append(parts, "prefix: "+prefix)
		}
	}
	text := "{" + strings.Join(parts, ", ") + "}"
	if len(parts) == 1 {
		text = strconv.Quote(column)
	}
	if guess != "" {
		text += " # " + guess
	}
	return text
}

// countOf returns the keys that a column of counts needs besides its name, and what is a guess.
func (p *proposal) countOf(spec fieldSpec, column string) (keys []string, guess string) {
	named, unit := hinted(column)
	switch {
	case unit == milli && !slices.Contains(spec.aliases, plain(column)):
		return []string{"times: 0.001"}, "guess: thousandths of " + named + ", rounded up"
	case slices.ContainsFunc(p.values[column], hasFraction):
		return []string{"times: 1"}, "guess: fractions are rounded up"
	case spec.name == "cpus" && slices.Contains(taskCounts, plain(column)):
		return nil, "guess: one CPU for each task"
	case spec.name == "nodes" && slices.Contains(hostCounts, plain(column)):
		return nil, "guess: numbers of nodes, and not their names (node_list)"
	}
	return nil, ""
}

// slurmUnits are the units of memory that Slurm's commands mean by MB and similar names. Most tables of HPC jobs are
// made from the output of such commands, though strictly these names mean powers of 1000.
var slurmUnits = map[string]string{"kB": "KiB", "MB": "MiB", "GB": "GiB"}

// taskCounts are the names of columns that count a job's tasks. A task may have several CPUs.
var taskCounts = []string{"tasks", "numtasks", "ntasks"}

// unknownUnit is the comment for a field whose unit neither the name nor the values of the column say.
func (p *proposal) unknownUnit(field, units string) string {
	p.unitless = append(p.unitless, field)
	return "guess: the unit; the table does not say whether it is " + units
}

// rawUnits are the units of sacct's columns of numbers.
var rawUnits = map[string]string{"elapsedraw": "seconds", "timelimitraw": "minutes"}

// unitOf returns the unit of a column of durations, and what is a guess. Most of the values decide
// whether they are clock times or numbers. named is the unit in the column's name, or "".
func (p *proposal) unitOf(field, column, named string) (unit, guess string) {
	var clocks, numbers []string
	short := true
	for _, text := range p.values[column] {
		if colons := strings.Count(text, ":"); colons > 0 {
			clocks = append(clocks, text)
			short = short && colons == 1 && !strings.ContainsAny(text, ".- ")
		} else if _, err := strconv.ParseFloat(text, 64); err == nil {
			numbers = append(numbers, text)
		}
	}
	var others []string
	switch {
	case len(clocks) == 0 || len(clocks) < len(numbers):
		others, unit = clocks, cmp.Or(named, rawUnits[plain(column)])
		if unit == "" {
			unit, guess = p.numberUnit(field, column)
		}
	case short:
		others, unit, guess = numbers, "clock", p.unknownUnit(field, "MM:SS, as the map reads it, or HH:MM (unit: HH:MM)")
	default:
		others, unit = numbers, "clock"
	}
	if len(others) > 0 {
		guess = cmp.Or(guess, "guess: the unit") + fmt.Sprintf("; not that of %d of the %d values, such as %s",
			len(others), len(clocks)+len(numbers), strings.Map(printable, shorten(others[0])))
	}
	return unit, guess
}

// numberUnit returns the unit of a column of numbers whose name does not say it, and what is a guess.
// It compares the values with the times between the instants of the table.
func (p *proposal) numberUnit(field, column string) (unit, guess string) {
	switch field {
	case "run_time":
		unit = p.sameAs(column, p.between("start", "end"))
	case "wait":
		unit = p.sameAs(column, p.between("submit", "start"))
	case "time_limit":
		unit, guess = p.limitUnit(column)
	}
	if unit == "" {
		return "seconds", p.unknownUnit(field, "seconds, minutes or hours")
	}
	return unit, guess
}

// sameAs compares a column with the seconds that the function want returns for a row. It returns the unit in which
// nine of ten values agree with these seconds; "" if there is no such unit.
func (p *proposal) sameAs(column string, want func(row []string) (float64, bool)) string {
	at := slices.Index(p.columns, column)
	for _, unit := range []string{"seconds", "ms", "minutes", "hours"} {
		factor, known, good := unitsOf[aDuration][unit], 0, 0
		for _, row := range p.rows {
			seconds, ok := want(row)
			n, err := strconv.ParseFloat(row[at], 64)
			if !ok || err != nil || seconds == 0 && n == 0 {
				continue
			}
			if known++; math.Abs(n*factor-seconds) <= max(1, factor) {
				good++
			}
		}
		if known > 0 && 10*good >= 9*known {
			return unit
		}
	}
	return ""
}

// manyRows is the number of rows that [proposal.limitUnit] needs to conclude that limits are in seconds. If the limits
// of so many jobs were in minutes, nearly all jobs would use less than 1/60 of their limits, which is unlikely.
const manyRows = 20

// limitUnit returns the shortest unit, of seconds, minutes and hours, in which few jobs ran longer than their limits.
// For seconds, few means at most a tenth of the jobs. For minutes and hours, few means at most a quarter, because
// limits may have been changed or not enforced. why says what supports the unit. limitUnit returns "" if no unit fits,
// or if too few jobs have both a limit and a run time.
func (p *proposal) limitUnit(column string) (unit, why string) {
	at, ran := slices.Index(p.columns, column), p.ran()
	exceed, few := "", 0.1
	for _, unit := range []string{"seconds", "minutes", "hours"} {
		longer, both := 0, 0
		for _, row := range p.rows {
			run, ok := ran(row)
			limit, err := strconv.ParseFloat(row[at], 64)
			if !ok || err != nil || math.IsNaN(limit) {
				continue
			}
			if both++; run > limit*unitsOf[aDuration][unit] {
				longer++
			}
		}
		switch {
		case float64(longer) > few*float64(both):
			exceed, few = fmt.Sprintf("guess: the unit; jobs that ran longer than so many %s: %d of %d", unit, longer, both), 0.25
		case exceed != "" || both >= manyRows:
			return unit, exceed
		default:
			return "", ""
		}
	}
	return "", ""
}

// runTimeUnit returns the unit of numbers in a column of run times, from its name or from the times between start and
// end; "" if neither says it.
func (p *proposal) runTimeUnit(column string) string {
	_, unit := hinted(column)
	if _, known := unitsOf[aDuration][unit]; known {
		return unit
	}
	return cmp.Or(p.sameAs(column, p.between("start", "end")), rawUnits[plain(column)])
}

// ran returns a function that reads a job's run time in seconds, from its start and end, or else from
// the field run_time.
func (p *proposal) ran() func(row []string) (float64, bool) {
	column := p.fields["run_time"]
	if column == "" {
		return p.between("start", "end")
	}
	field, at := Field{Unit: p.runTimeUnit(column)}, slices.Index(p.columns, column)
	return func(row []string) (float64, bool) {
		run, err := field.duration(row[at])
		return run.Seconds(), err == nil && run != hpc.Unlimited
	}
}

// strange returns the states that are not Slurm's words, each with a Slurm state that it could mean. The user must
// check them, because sites use words such as killed in several ways, and the letter F is FAILED to squeue, but
// finished to qstat. For jobs that wait or run, a table may have an expected end. But if the column of ends has the
// times at which Kubernetes deleted pods, strange proposes CANCELLED for the phases Running and Pending, provided that
// most pods in this phase were deleted.
func (p *proposal) strange(column string) (list []string) {
	var field Field
	at, end := slices.Index(p.columns, column), slices.Index(p.columns, p.fields["end"])
	deleted := map[string]int{} // by word: the number of rows with an end, less the number of rows without
	if strings.HasPrefix(plain(p.fields["end"]), "delet") {
		for _, row := range p.rows {
			if deleted[row[at]]--; !field.isUnknown(row[end], nil) {
				deleted[row[at]] += 2
			}
		}
	}
	for _, row := range p.rows {
		text, meaning := row[at], hpc.Failed
		state, err := field.state(text)
		_, other := stateWords[strings.ToLower(text)]
		switch {
		case (state == hpc.Running || state == hpc.Pending) && deleted[text] > 0:
			err, meaning = errState, hpc.Cancelled
		case err == nil && (other || len(text) <= len("OOM")):
			err, meaning = errState, state
		}
		entry := strconv.Quote(text) + ": " + string(meaning)
		if err != nil && !field.isUnknown(text, nil) && !slices.Contains(list, entry) && len(list) < 20 {
			list = append(list, entry)
		}
	}
	return list
}
