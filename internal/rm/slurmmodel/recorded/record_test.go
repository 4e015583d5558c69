package recorded

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// invalid is the exit status of a replay with a warning that affects the result; some cases have
// refused jobs.
const invalid = 3

// lead is the time before the epoch at which slurmctld starts.
const lead = 162914 * time.Millisecond

// record replays a case on real Slurm, and returns a line for each thing that slurmctld did.
// program is rmreplay, which runs the replay. slurm is the release.
func record(t *testing.T, c *txtar.Archive, program, slurm string) []byte {
	t.Helper()
	dir := t.TempDir()
	for _, f := range c.Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := filepath.Join(dir, "run")
	replay := exec.Command(program, "replay", filepath.Join(dir, "workload.jsonl"), "--cluster", filepath.Join(dir,
		"cluster"), "-o", run, "-q",
		"--lead", lead.String())
	if slurm != "22.05" {
		replay.Args = append(replay.Args, "--slurm", slurm)
	}
	if out, err := replay.CombinedOutput(); err != nil && replay.ProcessState.ExitCode() != invalid {
		t.Fatalf("%v: %v\n%s", replay.Args, err, out)
	}
	r := recorder{ends: map[string]time.Time{}, last: map[string]string{}}
	for _, log := range []struct {
		name string
		take func(text string)
	}{{"sacct.txt", r.jobs}, {"slurmctld.log", r.controller}, {"actions.log", r.shown}} {
		text, err := os.ReadFile(filepath.Join(run, "logs", log.name))
		if err != nil {
			t.Fatal(err)
		}
		log.take(string(text))
	}
	return r.text()
}

// recorder collects lines with their instants.
type recorder struct {
	lines []line
	// usage is the last usage that slurmctld logged for each association since its last run of the
	// decay thread, or the last end of a job.
	usage  map[string]string
	levels ranks
	last   map[string]string    // last line about each association's level
	ends   map[string]time.Time // ends of jobs that slurmctld has not charged yet
	// parts are the logged components of the next priority.
	parts []string
}

type line struct {
	at   time.Time
	text string
}

func (r *recorder) add(at time.Time, format string, args ...any) {
	r.lines = append(r.lines, line{at, fmt.Sprintf(format, args...)})
}

// text returns the lines in the order of their instants.
func (r *recorder) text() []byte {
	slices.SortStableFunc(r.lines, func(a, b line) int { return a.at.Compare(b.at) })
	var b strings.Builder
	for _, l := range r.lines {
		b.WriteString(l.text + "\n")
	}
	return []byte(b.String())
}

// jobs adds the jobs in the output of sacct.
func (r *recorder) jobs(text string) {
	var columns []string
	for row := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(row), "|")
		if columns == nil {
			columns = fields
			continue
		}
		f := func(name string) string { return cmp.Or(fields[slices.Index(columns, name)], "-") }
		r.ends[f("JobID")] = instant(f("End"))
		r.add(time.Time{}, "job %s name=%s user=%s account=%s partition=%s qos=%s limit=%s tres=%s nodes=%s end=%d",
			f("JobID"), f("JobName"), f("User"), f("Account"),
			f("Partition"), f("QOS"), f("Timelimit"), f("AllocTRES"), f("NodeList"), instant(f("End")).Unix())
	}
}

func instant(text string) time.Time {
	at, _ := time.Parse("2006-01-02T15:04:05.999", text) // a job without an end has the zero instant
	return at
}

var (
	runPattern    = regexp.MustCompile(`Decay factor over (\d+) seconds`)
	submitPattern = regexp.MustCompile(`initial priority for job (\d+) is (\d+)$`)
	startPattern  = regexp.MustCompile(`BillingWeight: JobId=(\d+)\S*(?: SLUID=\S+)? is either new`)
	endPattern    = regexp.MustCompile(`called for job (\d+)$`)
	levelPattern  = regexp.MustCompile(`_ft_debug: ( +)(=?)(\S+) \((\S+)\): +(\S+)$`)
	refusePattern = regexp.MustCompile(`exceeded association/QOS limit for user (\d+): (\S+)$`)
	factorPattern = regexp.MustCompile(`Fairshare priority of job (\d+) for user \S+ in acct \S+ is ` +
		`(?:2\*\*\(-(\S+)/(\S+)\) = )?(\S+)$`)
	sumPattern = regexp.MustCompile(`Job (\d+) priority: +(-?\d+) \+ +` + strings.Repeat(`(\S+) \+ +`, 6) +
		`(\S+) - +(-?\d+) = (\S+)$`)
	accruePattern = regexp.MustCompile(`Adding (\d+) to assoc_ptr`)
	eventPatterns = []*regexp.Regexp{runPattern, submitPattern, refusePattern, startPattern, endPattern, accruePattern}
)

var (
	stamp    = regexp.MustCompile(`^\[([^\]]+)\] (.*)$`)
	patterns = []struct {
		re   *regexp.Regexp
		take func(r *recorder, at time.Time, m []string)
	}{
		{regexp.MustCompile(`slurmctld version (\S+) started on cluster`), func(r *recorder, at time.Time,
			m []string) {
			r.add(at, "boot %d", at.Unix())
		}},
		{runPattern, func(r *recorder, at time.Time, m []string) { r.add(at, "run %d %s", at.Unix(), m[1]) }},
		{submitPattern, func(r *recorder, at time.Time, m []string) { r.priority(at, "submit", m) }},
		{startPattern, func(r *recorder, at time.Time, m []string) { r.add(at, "start %d %s", at.Unix(), m[1]) }},
		{refusePattern, func(r *recorder, at time.Time, m []string) { r.add(at, "refuse %d %s", at.Unix(), m[2]) }},
		{accruePattern, func(r *recorder, at time.Time, m []string) { r.add(at, "accrue %d %s", at.Unix(), m[1]) }},
		{endPattern, func(r *recorder, at time.Time, m []string) {
			r.add(at, "end %d %s", at.Unix(), m[1])
			delete(r.ends, m[1])
		}},
		{regexp.MustCompile(`Adding \S+ new usage to assoc \d+ \((\S+)/(\S+)/(\S+)\) raw usage is now (\S+)\. ` +
			`Group wall added \S+ making it (\S+)\.`),
			func(r *recorder, at time.Time, m []string) {
				name := strings.ReplaceAll(m[1]+"/"+m[2]+"/"+m[3], "/(null)/(null)", "/")
				r.usage[strings.ReplaceAll(name, "/(null)", "")] = m[4] + " " + m[5]
			}},
		{levelPattern, func(r *recorder, at time.Time, m []string) {
			r.levels = append(r.levels, level{len(m[1]), m[2] != "", m[3], m[4], m[5]})
		}},
		{factorPattern, func(r *recorder, at time.Time, m []string) {
			r.parts = []string{"factor=" + m[4]}
			if m[2] != "" {
				r.parts = append(r.parts, "effective="+m[2])
			}
		}},
		{sumPattern,
			func(r *recorder, at time.Time, m []string) {
				for i, name := range []string{"site", "age", "assoc", "fairshare", "size", "partition", "qos", "tres", "nice",
					"sum"} {
					if value := m[2+i]; strings.Trim(value, "0.") != "" {
						r.parts = append(r.parts, name+"="+value)
					}
				}
			}},
		{regexp.MustCompile(`multi-partition\S* priorities: (.*)$`), func(r *recorder, at time.Time, m []string) {
			r.parts = append(r.parts, "partitions="+strings.ReplaceAll(strings.ReplaceAll(m[1], ", ", ","), "=", ":"))
		}},
		{regexp.MustCompile(`priority for job (\d+) is now (\d+)$`), func(r *recorder, at time.Time,
			m []string) {
			r.priority(at, "priority", m)
		}},
	}
)

// controller adds the events in slurmctld's log, written with DebugFlags=Priority at level debug2.
func (r *recorder) controller(text string) {
	r.usage = map[string]string{}
	for row := range strings.Lines(text) {
		m := stamp.FindStringSubmatch(strings.TrimSpace(row))
		if m == nil {
			continue
		}
		at := instant(m[1])
		for _, p := range patterns {
			if found := p.re.FindStringSubmatch(m[2]); found != nil {
				r.flush(p.re)
				p.take(r, at, found)
				break
			}
		}
	}
	r.flush(nil)
	for _, id := range slices.Sorted(maps.Keys(r.ends)) {
		if at := r.ends[id]; !at.IsZero() {
			r.add(at, "end %d %s", at.Unix(), id)
		}
	}
}

// priority adds an event with a priority and its components.
func (r *recorder) priority(at time.Time, event string, m []string) {
	r.add(at, "%s %d %s %s %s", event, at.Unix(), m[1], m[2], strings.Join(r.parts, " "))
	r.parts = nil
}

// flush adds the collected levels when Fair Tree has visited all associations, and the collected
// usage before the next event.
func (r *recorder) flush(next *regexp.Regexp) {
	if len(r.levels) > 0 && next != levelPattern {
		for _, l := range r.levels.lines() {
			name := strings.Fields(l)[1]
			if r.last[name] != l { // only levels that have changed
				r.add(r.lines[len(r.lines)-1].at, "%s", l)
			}
			r.last[name] = l
		}
		r.levels = nil
	}
	if len(r.usage) > 0 && (next == nil || slices.Contains(eventPatterns, next)) {
		for _, name := range slices.Sorted(maps.Keys(r.usage)) {
			r.add(r.lines[len(r.lines)-1].at, "usage %s %s", name, r.usage[name])
		}
		clear(r.usage)
	}
}

// level is an association that Fair Tree visits.
type level struct {
	indent              int
	tied                bool
	name, account, text string
}

type ranks []level

// lines returns the levels with the users' ranks, which count from the last user.
func (l ranks) lines() (list []string) {
	times := map[string]int{}
	for _, at := range l {
		times[at.account+"/"+at.name]++
	}
	users := func(at level) bool { return at.name != at.account || at.text != "parent" && at.name == "root" }
	rank, untied := 0, 0
	for _, at := range l {
		name := at.account + "/"
		if users(at) {
			if name += at.name; !at.tied {
				rank = untied
			}
			untied++
			if times[name] == 1 { // the log does not name the partition of an association
				list = append(list, fmt.Sprintf("level %s %s %d", name, at.text, rank))
			}
		} else {
			list = append(list, fmt.Sprintf("level %s %s", name, at.text))
		}
	}
	return list
}

var (
	shownHead = regexp.MustCompile(`^ClusterName=\S+ Account=(\S+) UserName=([^( ]*)\S* Partition=(\S*) `)
	shownQOS  = regexp.MustCompile(`^QOS=([^(]+)\(`)
	amounts   = regexp.MustCompile(`([a-z][a-z/:0-9]*)=[^(]*\((\d+)\)`)
	rawUsage  = regexp.MustCompile(`UsageRaw(?:/Norm/Efctv)?=([\d.]+)`)
	counts    = regexp.MustCompile(`(GrpWall|Grp\w*Jobs\w*|Max\w*Jobs\w*P[AU])=[^( ]*\(([\d.]+)\)`)
	resources = regexp.MustCompile(`^ *(GrpTRES|GrpTRESMins|GrpTRESRunMins|MaxTRESP[AU]|MaxTRESRunMinsP[AU])=(.*)$`)
)

// shown adds the counts that scontrol show assoc_mgr shows. It leaves out counts that are 0.
func (r *recorder) shown(text string) {
	var at time.Time
	var name, part string
	pending := false
	for row := range strings.Lines(text) {
		row = strings.TrimRight(row, "\n")
		if m := stamp.FindStringSubmatch(row); m != nil {
			at, _ = time.Parse(time.RFC3339Nano, m[1])
			name, part, pending = "", "", strings.HasPrefix(m[2], "squeue")
			if strings.Contains(m[2], "show assoc_mgr") {
				r.add(at, "shown %d", at.Unix())
			} else if pending {
				r.add(at, "pending %d", at.Unix())
			}
			continue
		}
		if pending {
			r.add(at, "waits %s", row)
		}
		switch m, q := shownHead.FindStringSubmatch(row), shownQOS.FindStringSubmatch(row); {
		case m != nil:
			name, part = m[1]+"/"+m[2]+strings.TrimSuffix("/"+m[3], "/"), ""
		case q != nil:
			name, part = "qos:"+q[1], ""
		case strings.HasPrefix(row, "      ") && !strings.Contains(row, "="):
			part = ":" + strings.TrimSpace(row)
		case name != "":
			r.counts(at, name+part, row)
		}
	}
}

// counts adds the values of a row that are not 0.
func (r *recorder) counts(at time.Time, name, row string) {
	var found []string
	put := func(key, value string) {
		if strings.Trim(value, "0.") != "" {
			found = append(found, key+"="+value)
		}
	}
	if m := rawUsage.FindStringSubmatch(row); m != nil {
		put("UsageRaw", m[1])
	}
	for _, m := range counts.FindAllStringSubmatch(row, -1) {
		put(m[1], m[2])
	}
	if m := resources.FindStringSubmatch(row); m != nil {
		for _, a := range amounts.FindAllStringSubmatch(m[2], -1) {
			put(m[1]+":"+a[1], a[2])
		}
	}
	if last := len(r.lines) - 1; len(found) > 0 && strings.HasPrefix(r.lines[last].text, "count "+name+" ") {
		r.lines[last].text += " " + strings.Join(found, " ")
	} else if len(found) > 0 {
		r.add(at, "count %s %s", name, strings.Join(found, " "))
	}
}
