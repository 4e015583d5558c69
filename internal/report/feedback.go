package report

import (
	"slices"
	"time"

	"rmreplay/internal/compare"
	"rmreplay/internal/figure"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
)

// feedback is the section on reacting users: the figures of Madon, Da Costa and Pierson
// (FGCS 155, 2024). It is empty for rigid replays.
func (r *Report) feedback() (Section, error) {
	s := Section{ID: "feedback", Title: "Users who react"}
	var sets []compare.Set // the sets with feedback
	var names []string
	for i, set := range r.Sets {
		if compare.Reacted(set.Runs[0].Manifest) {
			sets = append(sets, set)
			names = append(names, setName(i, set))
		}
	}
	if len(sets) == 0 {
		return s, nil
	}
	s.Blocks = append(s.Blocks, paragraph("Users of these replays submitted earlier or later than recorded, depending "+
		"on how soon their jobs ended. "+
		"Their waits are not comparable with those of a rigid replay. Compare machines by lateness: how much later than "+
		"recorded "+
		"a job was submitted. A negative lateness is earlier."))
	t := &Table{Head: []string{
		"set", "model", "submissions", "mean lateness", "relative", "additional lateness", "of users: 10 %", "50 %", "90 %",
		"variation over the week, recorded", "in the replay",
	}}
	first := make([]*metrics.Feedback, len(sets))
	for i, set := range sets {
		f := feedbackOf(&set.Runs[0], r.options.Zone)
		first[i] = f
		t.Rows = append(t.Rows, []string{
			names[i], f.Model + " " + f.Sessions, quantity.Count(f.Submissions), quantity.Duration(f.Mean),
			quantity.Decimal(f.Relative), quantity.Duration(f.Additional),
			quantity.Duration(f.Users.Additional.P10), quantity.Duration(f.Users.Additional.Median),
			quantity.Duration(f.Users.Additional.P90),
			quantity.Decimal(f.Week.RecordedVariation), quantity.Decimal(f.Week.Variation),
		})
	}
	t.Caption = "Lateness, in the first run of each set"
	s.Blocks = append(s.Blocks, Block{Table: t})
	submissions, err := figure.NewTimeline("submissions", "Submissions over time", "submissions so far",
		"Number of jobs submitted by each time, as recorded and in the replays. A line to the right of the record means lateness.",
		submissionLines(sets, names), r.options.Zone)
	if err != nil {
		return s, err
	}
	s.Blocks = append(s.Blocks, figureBlocks(submissions)...)
	figures := []struct {
		name, title, x, y, caption string
		lines                      []figure.Series
	}{
		{"lateness-cdf", "Distribution of lateness", "lateness [h]", "share of submissions",
			"Share of the submissions whose lateness is at most the value on the axis.", shares(names, sets, latenessHours)},
		{"user-lateness", "Additional lateness per user", "additional lateness [s]", "share of users",
			"Share of the users whose additional lateness with each submission is at most the value on the axis. Each user " +
				"counts once.", shares(names, sets, userLateness)},
		{"week", "Submissions over the week", "hour of the week, from Monday 0 h " + r.options.Zone.String(),
			"submissions an hour of the week",
			"If jobs end late, submissions move from the evening into the night, so replays lose part of the weekly rhythm.",
			weekLines(first, names)},
	}
	for _, f := range figures {
		figure, err := figure.NewLines(f.name, f.title, f.x, f.y, f.caption, f.lines)
		if err != nil {
			return s, err
		}
		s.Blocks = append(s.Blocks, figureBlocks(figure)...)
	}
	return s, nil
}

func feedbackOf(r *compare.Realization, zone *time.Location) *metrics.Feedback {
	return metrics.NewSummary(r.Rows, r.Manifest, metrics.Options{Zone: zone}).Feedback
}

// submitted returns the instants of a run's submissions, recorded and in the replay. A job
// array is one submission.
func submitted(r *compare.Realization) (recorded, at []hpc.Time) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.RecordedSubmit == 0 || row.Submit == 0 || i > 0 && row.Job == r.Rows[i-1].Job {
			continue
		}
		recorded, at = append(recorded, row.RecordedSubmit), append(at, row.Submit)
	}
	return recorded, at
}

// submissionLines returns the cumulative numbers of submissions; the recorded submissions come
// first.
func submissionLines(sets []compare.Set, names []string) []figure.Series {
	var first, last hpc.Time
	for _, s := range sets {
		for i := range s.Runs {
			recorded, at := submitted(&s.Runs[i])
			for _, t := range append(recorded, at...) {
				if first == 0 || t < first {
					first = t
				}
				last = max(last, t)
			}
		}
	}
	x := make([]float64, bins)
	for i := range x {
		x[i] = first.Seconds() + last.Sub(first).Seconds()*float64(i)/(bins-1)
	}
	count := func(list []hpc.Time) []float64 {
		slices.Sort(list)
		line := make([]float64, bins)
		for i := range line {
			until := first.Add(last.Sub(first) / (bins - 1) * time.Duration(i))
			if i == bins-1 {
				until = last
			}
			n, _ := slices.BinarySearch(list, until+1) // the number of submissions by that time
			line[i] = float64(n)
		}
		return line
	}
	recorded, _ := submitted(&sets[0].Runs[0])
	lines := []figure.Series{figure.NewSeries("as recorded", x, [][]float64{count(recorded)})}
	for k, s := range sets {
		var runs [][]float64
		for i := range s.Runs {
			_, at := submitted(&s.Runs[i])
			runs = append(runs, count(at))
		}
		lines = append(lines, figure.NewSeries(names[k], x, runs))
	}
	return lines
}

// shares returns the cumulative shares of values over a linear axis. The axis leaves out the lowest
// and the highest hundredth of the values.
func shares(names []string, sets []compare.Set, values func(*compare.Realization) []float64) []figure.Series {
	var all []float64
	of := make([][][]float64, len(sets))
	for k, s := range sets {
		for i := range s.Runs {
			list := values(&s.Runs[i])
			slices.Sort(list)
			of[k] = append(of[k], list)
			all = append(all, list...)
		}
	}
	if len(all) < 2 {
		return nil
	}
	slices.Sort(all)
	low, high := metrics.Quantile(all, 0.01), metrics.Quantile(all, 0.99)
	if low == high {
		low, high = low-1, high+1
	}
	x := make([]float64, bins)
	for i := range x {
		x[i] = low + (high-low)*float64(i)/(bins-1)
	}
	var out []figure.Series
	for k := range sets {
		var lines [][]float64
		for _, list := range of[k] {
			if len(list) > 0 {
				lines = append(lines, cumulative(list, x))
			}
		}
		if len(lines) > 0 {
			out = append(out, figure.NewSeries(names[k], x, lines))
		}
	}
	return out
}

// latenessHours returns the lateness of each submission in hours.
func latenessHours(r *compare.Realization) []float64 {
	recorded, at := submitted(r)
	list := make([]float64, len(at))
	for i := range at {
		list[i] = at[i].Sub(recorded[i]).Hours()
	}
	return list
}

// userLateness returns the additional lateness of each user with at least two submissions,
// in seconds.
func userLateness(r *compare.Realization) []float64 {
	var list []float64
	for _, u := range feedbackOf(r, time.UTC).ByUser {
		if u.Additional.Known() {
			list = append(list, float64(u.Additional))
		}
	}
	return list
}

// weekLines returns the submissions by the hour of the week, as recorded and in the first
// run of each set.
func weekLines(first []*metrics.Feedback, names []string) []figure.Series {
	line := func(name string, counts [168]int) figure.Series {
		s := figure.Series{Name: name}
		for h, n := range counts {
			s.X, s.Mean = append(s.X, float64(h)), append(s.Mean, float64(n))
		}
		s.Low, s.High = s.Mean, s.Mean
		return s
	}
	list := []figure.Series{line("as recorded", first[0].Week.Recorded)}
	for i, f := range first {
		list = append(list, line(names[i], f.Week.Submitted))
	}
	return list
}
