package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
	"rmreplay/internal/quantity"
)

// Options are the choices of an [Evaluation].
type Options struct {
	Models []model.Kind // all if empty
	Seed   uint64
	// Growth and Every say when models are trained again: see [model.Options].
	Growth float64
	Every  time.Duration
	Window int
	// RandomSplit also trains each model on a random four fifths of the jobs that ran, and scores it on the other fifth. A
	// random split makes scores too good: see [model.RandomSplit].
	RandomSplit bool
	// AtOnce also measures each model as if the values of all earlier submissions were known: see [predict.Cases.AtOnce].
	// AtOnce shows how much knowledge about waiting and running jobs could improve the scores at most.
	AtOnce bool
	// Progress, if not nil, is called with the present model and the share of the jobs that it has
	// predicted.
	Progress func(k model.Kind, share float64)
}

// Evaluation is the measurement of several models on one workload.
type Evaluation struct {
	Source string `json:"source"`
	// Target is the predicted quantity, and Unit the unit of its values and of all errors.
	Target predict.Target `json:"target"`
	Unit   string         `json:"unit"`
	// Jobs counts the jobs of the workload, including each task of an array. Scored counts the jobs
	// that ran and have a value of the target. The other counts are as in [predict.Cases].
	Jobs     int     `json:"jobs"`
	Scored   int     `json:"scored"`
	NeverRan int     `json:"never_ran"`
	Unknown  int     `json:"end_unknown"`
	NoStart  int     `json:"start_unknown"`
	NoUser   int     `json:"no_user"`
	NoLimit  int     `json:"no_limit"`
	NoValue  int     `json:"no_value"`
	Users    int     `json:"users"`
	Mean     float64 `json:"mean"`
	// Growth, EveryS and Seed repeat the options.
	Growth float64  `json:"retrain_growth"`
	EveryS float64  `json:"retrain_every_s"`
	Seed   uint64   `json:"seed"`
	Models []Result `json:"models"`
	// Floor has the errors of oracles; see [Floor].
	Floor *Floor   `json:"floor"`
	Notes []string `json:"notes"`
}

// Result is the measurement of one model.
type Result struct {
	Model     model.Kind `json:"model"`
	Trainings int        `json:"trainings"`
	Scores    Scores     `json:"scores"`
	// Groups has the scores of jobs grouped by the number of the user's earlier submissions.
	Groups []Group `json:"groups"`
	// Curve are the scores of each tenth of the jobs, in the order of their submissions.
	Curve []Point `json:"curve"`
	// ClassMAE, NeighbourMAE and TwinMAE are the mean absolute errors for the jobs that the oracles
	// of [Floor] can predict: jobs that are not alone in their class, jobs with an earlier job in
	// their class, and twins.
	ClassMAE     float64 `json:"class_mae"`
	NeighbourMAE float64 `json:"neighbour_mae"`
	TwinMAE      float64 `json:"twin_mae"`
	// RandomSplit are the scores of a random split; nil if the options do not request it.
	RandomSplit *Scores `json:"random_split,omitempty"`
	// AtOnce are the scores of a model that knows the values of all earlier submissions; nil if the
	// options do not request it.
	AtOnce *Scores `json:"at_once,omitempty"`
}

// Group has the scores of one group's jobs.
type Group struct {
	Name   string `json:"name"`
	Scores Scores `json:"scores"`
}

// Point has the scores of a part of the log.
type Point struct {
	// Day is the time of the part's last submission, in days after the log's first submission.
	Day    float64 `json:"day"`
	Scores Scores  `json:"scores"`
}

const parts = 10

// experience names the groups of users: by the number of the user's earlier submissions.
var experience = []struct {
	name       string
	maxEarlier int
}{{"first 10 jobs of a user", 10}, {"jobs 11 to 100", 100}, {"jobs 101 to 1000", 1000}, {"later jobs", math.MaxInt}}

// Run measures models on a workload. It returns an error if no job ran, if a training fails, or
// the context's error.
func Run(ctx context.Context, source string, cases *predict.Cases, o Options) (*Evaluation, error) {
	if err := cases.Check(); err != nil {
		return nil, fmt.Errorf("evaluating predictions: %s: %w", source, err)
	}
	e := &Evaluation{
		Source: source, Target: cmp.Or(cases.Target, predict.RunTime), Unit: cases.Target.Unit(), NoValue: cases.NoValue,
		Jobs: len(cases.List), NeverRan: cases.NeverRan, Unknown: cases.Unknown, NoStart: cases.NoStart,
		NoUser: cases.NoUser, NoLimit: cases.NoLimit, Growth: o.Growth, EveryS: o.Every.Seconds(), Seed: o.Seed,
	}
	if len(o.Models) == 0 {
		o.Models = model.Kinds()
	}
	users := map[string]bool{}
	var values moments
	for i := range cases.List {
		if c := &cases.List[i]; c.Observed() {
			values.add(c.Value())
			if c.Request.User != "" {
				users[c.Request.User] = true
			}
		}
	}
	e.Scored, e.Users, e.Mean = int(values.count), len(users), values.mean
	if e.Scored == 0 {
		return nil, fmt.Errorf("evaluating predictions: %s: no job with a %s among %d %s", source, e.Target.What(),
			e.Jobs, quantity.Plural(e.Jobs, "job", "jobs"))
	}
	if made := cases.MadeNote(); made != "" {
		e.Notes = append(e.Notes, made)
	}
	e.note(values.squares == 0)
	for _, rule := range slices.Sorted(maps.Keys(cases.LeftOut)) {
		e.Notes = append(e.Notes, fmt.Sprintf("records of the whole source that are not jobs, by the rule %s: %d", rule,
			cases.LeftOut[rule]))
	}
	var err error
	if e.Floor, err = floor(ctx, cases); err != nil {
		return nil, err
	}
	for _, k := range o.Models {
		r, err := measure(ctx, cases, k, o, e.Floor)
		if err != nil {
			return nil, fmt.Errorf("evaluating predictions: %s: %s: %w", source, k, err)
		}
		if o.RandomSplit && k.Trained() {
			if r.RandomSplit, err = randomSplit(ctx, cases, k, o.Seed); err != nil {
				return nil, fmt.Errorf("evaluating predictions: %s: %s: random split: %w", source, k, err)
			}
		}
		if o.AtOnce {
			known, err := measure(ctx, cases.AtOnce(), k, o, new(Floor))
			if err != nil {
				return nil, fmt.Errorf("evaluating predictions: %s: %s: known at once: %w", source, k, err)
			}
			r.AtOnce = &known.Scores
		}
		e.Models = append(e.Models, *r)
	}
	return e, nil
}

// Ran returns a text about how many jobs ran and, if users are known, to how many users they belong.
func (e *Evaluation) Ran() string {
	text := fmt.Sprintf("%d %s", e.Scored, quantity.Plural(e.Scored, "job", "jobs"))
	if e.Users == 0 {
		return text + " that ran"
	}
	return fmt.Sprintf("%s that ran of %d %s", text, e.Users, quantity.Plural(e.Users, "user", "users"))
}

// note adds notes about properties of the log that limit the meaning of the scores.
func (e *Evaluation) note(constant bool) {
	add := func(when bool, format string, args ...any) {
		if when {
			e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
		}
	}
	what, jobs := e.Target.What(), quantity.Regular(e.Jobs, "job")
	add(e.NoValue > 0, "the %s of %d %s not scored, and no model learns from %s", what, e.NoValue,
		quantity.Plural(e.NoValue, "job that ran is not recorded; it is", "jobs that ran is not recorded; they are"),
		quantity.Plural(e.NoValue, "it", "them"))
	add(constant && e.Target.Measured(), "the %s is the same for all jobs, so R² has no meaning and is 0", what)
	add(constant && !e.Target.Measured(), "all run times are equal, so R² has no meaning and is 0")
	add(e.NoUser == e.Jobs, "no job has a user, so histories of users are not known")
	add(e.NoUser > 0 && e.NoUser < e.Jobs, "%d of %s %s no user; jobs without a user count as the jobs of "+
		"one user", e.NoUser, jobs, quantity.Plural(e.NoUser, "has", "have"))
	add(e.Users == 1 && e.NoUser == 0, "all jobs have the same user")
	asked := "a time limit"
	switch e.Target {
	case predict.Memory:
		asked = "requested memory"
	case predict.IO:
		asked = "requested I/O"
	}
	add(e.NoLimit == e.Jobs, "no job has %s; the model limit predicts the mean %s of ended jobs instead", asked, what)
	add(e.NoLimit > 0 && e.NoLimit < e.Jobs, "%d of %s %s no %s", e.NoLimit, jobs,
		quantity.Plural(e.NoLimit, "has", "have"), strings.TrimPrefix(asked, "a "))
	add(e.NoStart > 0, "%s", predict.NoStartNote(e.NoStart))
	add(e.NeverRan > 0, "%d %s not scored", e.NeverRan,
		quantity.Plural(e.NeverRan, "job never ran and is", "jobs never ran and are"))
	add(e.Unknown > 0, "the %s not scored", quantity.Plural(e.Unknown, "end of 1 job is not known; it is",
		"ends of "+quantity.Regular(e.Unknown, "job")+" are not known; they are"))
	add(e.Scored < 1000, "%d %s few: the scores depend on chance", e.Scored,
		quantity.Plural(e.Scored, "job is", "jobs are"))
}

// measure computes the scores of one model. The parameter f says which jobs the oracles can predict.
func measure(ctx context.Context, cases *predict.Cases, k model.Kind, o Options, f *Floor) (*Result, error) {
	online := model.NewOnline(model.Options{Kind: k, Target: cases.Target, Seed: o.Seed, Growth: o.Growth, Every: o.Every,
		Window: o.Window})
	var all, class, neighbour, twin sums
	var curve [parts]sums
	days := [parts]float64{}
	groups := make([]sums, len(experience))
	before := map[string]int{}
	done := 0
	err := predict.Play(ctx, cases.List, online, func(c *predict.Case, p predict.Prediction) {
		part := done * parts / len(cases.List)
		if done++; o.Progress != nil && done%1000 == 0 {
			o.Progress(k, float64(done)/float64(len(cases.List)))
		}
		days[part] = c.At.Sub(cases.List[0].At).Hours() / 24
		earlier := before[c.Request.User]
		before[c.Request.User]++
		if !c.Observed() {
			return
		}
		y := c.Value()
		all.add(p, y)
		in := f.in[c.Number]
		for s, is := range map[*sums]bool{&class: in.class, &neighbour: in.neighbour, &twin: in.twin} {
			if is {
				s.add(p, y)
			}
		}
		curve[part].add(p, y)
		groups[slices.IndexFunc(experience, func(g struct {
			name       string
			maxEarlier int
		}) bool {
			return earlier < g.maxEarlier
		})].add(p, y)
	})
	if err == nil {
		err = online.Err()
	}
	if err != nil {
		return nil, err
	}
	r := &Result{Model: k, Trainings: online.Trainings(), Scores: all.scores(), ClassMAE: class.scores().MAE,
		NeighbourMAE: neighbour.scores().MAE, TwinMAE: twin.scores().MAE}
	for i, g := range experience {
		if groups[i].jobs > 0 {
			r.Groups = append(r.Groups, Group{g.name, groups[i].scores()})
		}
	}
	for i := range curve {
		if curve[i].jobs > 0 {
			r.Curve = append(r.Curve, Point{days[i], curve[i].scores()})
		}
	}
	return r, nil
}

// randomSplit returns the scores of a random split.
func randomSplit(ctx context.Context, cases *predict.Cases, k model.Kind, seed uint64) (*Scores, error) {
	var all sums
	if err := model.RandomSplit(ctx, cases, k, seed, func(c *predict.Case,
		p predict.Prediction) {
		all.add(p, c.Value())
	}); err != nil {
		return nil, err
	}
	scores := all.scores()
	return &scores, nil
}
