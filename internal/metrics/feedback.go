package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// Feedback compares what reacting users did with what they had done when the workload was
// recorded. Its metrics are defined by Madon, Da Costa & Pierson, "Replay with Feedback", FGCS 155
// (2024), section 6. They are computed over submissions: a job array is one submission, and
// rejected jobs count.
//
// A user who is served faster submits the next job earlier, so the waits of rigid and of
// reacting users cannot be compared: a machine that a rigid workload overloads has waits of
// months, which no user would accept. Two machines differ in how much work users can do on them,
// and lateness measures that difference.
type Feedback struct {
	run.Feedback

	// SubmitMakespan is max(end) − min(submit) (equation 1), which the paper calls
	// makespan. The makespan of [Metrics] counts from the first start.
	SubmitMakespan Float `json:"submit_makespan_s"`
	Lateness
	// Users summarizes the users. ByUser has each user, in the order of their first
	// recorded submissions.
	Users  UserLateness   `json:"users"`
	ByUser []UserFeedback `json:"by_user"`
	// Inner is the use of the machine in a window without the beginning, when the machine fills, and without the end,
	// when it empties.
	Inner InnerWindow `json:"inner_window"`
	// Days counts by day, and Week by the hour of the week.
	Days []Day `json:"days"`
	Week Week  `json:"week"`
}

// Lateness describes the lateness ℓ(i) = â(i) − a(i) of a set of submissions: the submit time in the
// replay minus the recorded submit time (definition 13). Lateness is negative if the replay submits
// earlier.
type Lateness struct {
	Submissions int `json:"submissions"`
	// Mean is ℓ̄ = Σ ℓ(i) / n in seconds (equation 3). It grows with the length of the
	// workload, because a delay delays all later submissions of the user.
	Mean Float `json:"mean_lateness_s"`
	// Relative is 1 + ℓ̄ / (a(n−1) − a(0)) (equation 4): the factor by which the
	// submissions are stretched in time.
	Relative Float `json:"relative_lateness"`
	// Additional is δ = 2ℓ̄ / (n − 1) in seconds (equation 6): the lateness that each
	// submission adds, if all add the same. It hardly depends on the length of the workload
	// (section 7.6; see `tools/feedbackpaper --scalability`).
	Additional Float `json:"additional_lateness_s"`
}

// UserLateness is the distribution of lateness over users. Each user counts once (section
// 6.2.4, figures 4 and 5).
type UserLateness struct {
	Users int `json:"users"`
	// Mean and Additional are quantiles of the users' values. Users with one submission
	// have no additional lateness.
	Mean       Quantiles `json:"mean_lateness_s"`
	Additional Quantiles `json:"additional_lateness_s"`
}

// Quantiles are the 10th, 50th and 90th percentiles, of type 7 (see [Summarize]).
type Quantiles struct {
	P10    Float `json:"p10"`
	Median Float `json:"p50"`
	P90    Float `json:"p90"`
}

// UserFeedback is the lateness and the arrival of one user (figure 10).
type UserFeedback struct {
	User string `json:"user"`
	Lateness
	// RecordedArrival and Arrival are the user's first submission, as recorded and in the
	// replay; RFC 3339 in JSON.
	RecordedArrival time.Time `json:"recorded_arrival"`
	Arrival         time.Time `json:"arrival"`
}

// InnerWindow is the use of the machine in an interval without the beginning, when the machine fills, and without the
// end, when it empties (section 7.3.3, figure 9).
type InnerWindow struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// ThroughputPerDay is the number of jobs that ended in the window, divided by its
	// length in days.
	ThroughputPerDay Float `json:"throughput_jobs_per_day"`
	// MeanProcessors is the number of processors in use, averaged over the time of the
	// window. Utilization divides it by the machine's processors.
	MeanProcessors Float `json:"mean_processors"`
	Utilization    Float `json:"utilization"`
}

// Day counts recorded submissions, submissions in the replay, and ends on one day (figures
// 2 and 3). Days count from the first recorded submission.
type Day struct {
	Recorded  int `json:"recorded"`
	Submitted int `json:"submitted"`
	Ended     int `json:"ended"`
}

// Week counts submissions by the hour of the week, from Monday 0 h of [Options.Zone]
// (figure 8).
type Week struct {
	Recorded  [168]int `json:"recorded"`
	Submitted [168]int `json:"submitted"`
	// RecordedVariation and Variation are the coefficients of variation of the 168 counts: standard
	// deviation / mean. Think times move an evening's submissions into the night if jobs are late,
	// so a replay with feedback loses part of the weekly rhythm (section 7.3.2). The two numbers
	// show how much.
	RecordedVariation Float `json:"recorded_variation"`
	Variation         Float `json:"variation"`
}

// submission has the data of a row that the metrics need.
type submission struct {
	user         string
	recorded, at hpc.Time
}

// NewFeedback computes the metrics of a run with feedback. The parameter opts gives the inner
// window. By default the window begins after 5 % of the time between the first and the last recorded
// submission, and ends after 75 % of that time.
func NewFeedback(rows []run.Row, how run.Feedback, opts Options) *Feedback {
	return NewFeedbackOf(all(rows), how, opts)
}

// NewFeedbackOf is [NewFeedback] for rows that are not in a slice. It iterates over them
// more than once.
func NewFeedbackOf(rows iter.Seq[*run.Row], how run.Feedback, opts Options) *Feedback {
	f := &Feedback{Feedback: how}
	list := submissions(rows)
	var sum lateSum
	for i := range list {
		sum.add(&list[i])
	}
	f.Lateness = sum.lateness()
	f.ByUser = byUser(list)
	f.Users = sumUp(f.ByUser)
	if len(list) == 0 {
		f.SubmitMakespan = Float(math.NaN())
		f.Inner = innerWindow(rows, opts, 0, 0)
		return f
	}
	f.SubmitMakespan = submitMakespan(rows)
	f.Inner = innerWindow(rows, opts, sum.first, sum.last)
	f.Days = days(list, rows, sum.first)
	f.Week = week(list, opts.Zone)
	return f
}

// submissions returns one submission for each job of the workload. The tasks of an array
// follow each other in the rows.
func submissions(rows iter.Seq[*run.Row]) []submission {
	var list []submission
	before, none := "", true
	for r := range rows {
		again := !none && r.Job == before
		before, none = r.Job, false
		if r.RecordedSubmit == 0 || r.Submit == 0 || again {
			continue
		}
		if len(list) == cap(list) { // append alone would grow a long list by a quarter at a time
			list = slices.Grow(list, len(list)+64)
		}
		list = append(list, submission{r.User, r.RecordedSubmit, r.Submit})
	}
	return list
}

// lateSum sums up the lateness of submissions for equations 3, 4 and 6.
type lateSum struct {
	n           int
	seconds     float64
	first, last hpc.Time // recorded
	firstAt     hpc.Time
}

func (l *lateSum) add(s *submission) {
	if l.n == 0 {
		l.first, l.last, l.firstAt = s.recorded, s.recorded, s.at
	}
	l.n++
	l.seconds += s.at.Sub(s.recorded).Seconds()
	l.first, l.last, l.firstAt = min(l.first, s.recorded), max(l.last, s.recorded), min(l.firstAt, s.at)
}

// lateness returns the three figures; NaN without submissions.
func (l *lateSum) lateness() Lateness {
	if l.n == 0 {
		nan := Float(math.NaN())
		return Lateness{Mean: nan, Relative: nan, Additional: nan}
	}
	mean := l.seconds / float64(l.n)
	return Lateness{
		Submissions: l.n,
		Mean:        Float(mean),
		Relative:    1 + ratio(mean, l.last.Sub(l.first).Seconds()),
		Additional:  ratio(2*l.seconds/float64(l.n), float64(l.n)-1),
	}
}

// byUser sums up the submissions of each user.
func byUser(list []submission) []UserFeedback {
	of := make(map[string]*lateSum)
	for i := range list {
		s := &list[i]
		sum := of[s.user]
		if sum == nil {
			sum = new(lateSum)
			of[s.user] = sum
		}
		sum.add(s)
	}
	users := make([]UserFeedback, 0, len(of))
	for name, sum := range of {
		users = append(users, UserFeedback{User: name, Lateness: sum.lateness(), RecordedArrival: sum.first.Std(),
			Arrival: sum.firstAt.Std()})
	}
	slices.SortFunc(users, func(a, b UserFeedback) int {
		return cmp.Or(a.RecordedArrival.Compare(b.RecordedArrival), cmp.Compare(a.User, b.User))
	})
	return users
}

func sumUp(users []UserFeedback) UserLateness {
	var means, additional []float64
	for _, u := range users {
		means = append(means, float64(u.Mean))
		if u.Additional.Known() {
			additional = append(additional, float64(u.Additional))
		}
	}
	return UserLateness{Users: len(users), Mean: quantilesOf(means), Additional: quantilesOf(additional)}
}

func quantilesOf(values []float64) Quantiles {
	if len(values) == 0 {
		nan := Float(math.NaN())
		return Quantiles{nan, nan, nan}
	}
	slices.Sort(values)
	return Quantiles{Float(Quantile(values, 0.1)), Float(Quantile(values, 0.5)), Float(Quantile(values, 0.9))}
}

// submitMakespan returns max(end) − min(submit) of the accepted jobs.
func submitMakespan(rows iter.Seq[*run.Row]) Float {
	var first, last hpc.Time
	for r := range rows {
		if r.State == hpc.Rejected || r.Submit == 0 {
			continue
		}
		if first == 0 || r.Submit < first {
			first = r.Submit
		}
		last = max(last, r.End)
	}
	if last < first || last == 0 {
		return Float(math.NaN())
	}
	return Float(last.Sub(first).Seconds())
}

func innerWindow(rows iter.Seq[*run.Row], opts Options, first, last hpc.Time) InnerWindow {
	span := last.Sub(first)
	from, to := opts.From, opts.To
	if from == 0 {
		from = first.Add(span / 20)
	}
	if to == 0 {
		to = first.Add(span / 4 * 3)
	}
	ended, used := 0, area{}
	for r := range rows {
		if r.State != hpc.Rejected && r.Start != 0 && r.End >= from && r.End < to {
			ended++
		}
		for _, s := range r.Held() {
			end := s.End
			if end == 0 || end > to {
				end = to
			}
			used.add(end.Sub(max(s.Start, from)), s.Processors)
		}
	}
	length := to.Sub(from).Seconds()
	w := InnerWindow{From: from.Std(), To: to.Std()}
	w.ThroughputPerDay = ratio(float64(ended)*86400, length)
	w.MeanProcessors = ratio(used.seconds(), length)
	w.Utilization = ratio(float64(w.MeanProcessors), float64(opts.Processors))
	return w
}

func days(list []submission, rows iter.Seq[*run.Row], first hpc.Time) []Day {
	var out []Day
	day := func(t hpc.Time) *Day {
		i := int(t.Sub(first) / (24 * time.Hour))
		for i >= len(out) {
			out = append(out, Day{})
		}
		return &out[max(i, 0)] // jitter may move a submission before the first recorded one
	}
	for _, s := range list {
		day(s.recorded).Recorded++
		day(s.at).Submitted++
	}
	for r := range rows {
		if r.State != hpc.Rejected && r.Start != 0 && r.End != 0 {
			day(r.End).Ended++
		}
	}
	return out
}

func week(list []submission, zone *time.Location) Week {
	if zone == nil {
		zone = time.UTC
	}
	var w Week
	for _, s := range list {
		w.Recorded[hourOfWeek(s.recorded, zone)]++
		w.Submitted[hourOfWeek(s.at, zone)]++
	}
	w.RecordedVariation, w.Variation = variation(w.Recorded[:]), variation(w.Submitted[:])
	return w
}

// hourOfWeek returns the hour of the week, counted from Monday 0 h in a time zone.
func hourOfWeek(t hpc.Time, zone *time.Location) int {
	date := t.Std().In(zone)
	return (int(date.Weekday())+6)%7*24 + date.Hour() // [time.Weekday] begins with Sunday
}

// variation returns the standard deviation divided by the mean.
func variation(counts []int) Float {
	sum, squares := 0.0, 0.0
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	n := float64(len(counts))
	mean := sum / n
	return ratio(math.Sqrt(max(0, squares/n-mean*mean)), mean)
}

// render writes the section of the summary that runs with feedback have.
func (f *Feedback) render(b *bytes.Buffer, zone *time.Location) {
	if f == nil {
		return
	}
	fmt.Fprintf(b, "\nusers        %s", f.Model)
	if f.Sessions != "" {
		fmt.Fprintf(b, ", sessions by %s", f.Sessions)
	}
	if f.Jitter > 0 {
		fmt.Fprintf(b, ", submissions moved by up to %s s", number(Float(f.Jitter)))
	}
	fmt.Fprintf(b, "\nlateness     %s on average, relative %s, additional %s s a submission\n",
		clock(f.Mean), number(f.Relative), number(f.Additional))
	fmt.Fprintf(b, "makespan     %s from the first submission\n", duration(f.SubmitMakespan))
	fmt.Fprintf(b, "inner window %s to %s\n", f.Inner.From.In(zone).Format(time.DateTime),
		f.Inner.To.In(zone).Format(time.DateTime))
	fmt.Fprintf(b, "             %s jobs end a day, %s of processors used\n", number(f.Inner.ThroughputPerDay),
		percent(f.Inner.Utilization))
	fmt.Fprintf(b, "week         variation of the hours %s, recorded %s\n", number(f.Week.Variation),
		number(f.Week.RecordedVariation))
	mean, a, table := f.Users.Mean, f.Users.Additional, quantity.NewTable(27, 14, 14, 14)
	table.Row("over "+quantity.Regular(f.Users.Users, "user"), "p10", "median", "p90")
	table.Row("mean lateness", clock(mean.P10), clock(mean.Median), clock(mean.P90))
	table.Row("additional lateness (s)", number(a.P10), number(a.Median), number(a.P90))
	b.WriteString("\n" + table.String())
}
