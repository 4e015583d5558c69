// Package policy has the scheduling policies of the simulator, each with its source.
//
// [New] finds a policy by its name on the command line. docs/SIMULATOR.md shows how to write a
// policy.
package policy

import (
	"fmt"
	"strings"

	"rmreplay/internal/predict/model"
	"rmreplay/internal/predict/online"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/spelling"
)

// named is a policy with its name on the command line.
type named struct {
	name, doc string
	ties      bool // the policy has the options of TieRules
	predicts  bool // the policy plans with expected run times only, so predictions can replace them
	make      func(TieRules) sim.NewPolicy
}

// all are the policies, in the order of the help.
func all() []named {
	only := func(p sim.NewPolicy) func(TieRules) sim.NewPolicy {
		return func(TieRules) sim.NewPolicy { return p }
	}
	list := []named{
		{"fcfs", "first come, first served: no job overtakes the first job of the queue", false, false, only(FCFS)},
		{"easy", "EASY backfilling by the rules of \"Replay with Feedback\" (FGCS 2024)", false, true, only(EASY)},
		{"easy-textbook", "EASY backfilling of Mu'alem and Feitelson (2001)", true, true, Textbook},
		{"easy-sjbf", "easy-textbook, but the shortest jobs are backfilled first", true, true, SJBF},
		{"easy++", "easy-sjbf:predict=last-two, of Tsafrir, Etsion and Feitelson (2007)", true, true, SJBF},
		{"conservative", "conservative backfilling: every job in the queue has a planned start", false, false, only(Conservative)},
	}
	for _, o := range orders {
		list = append(list, named{o.name, "EASY, sorted queue: " + o.doc, false, true, only(o.policy)})
	}
	for _, p := range ioPolicies {
		list = append(list, named{p.name, p.doc, false, false, only(WithFileSystem(p.options))})
	}
	return list
}

// Info has a policy's name and its description for the help.
type Info struct{ Name, Doc string }

// List describes the policies that [New] accepts.
func List() []Info {
	var list []Info
	for _, n := range all() {
		list = append(list, Info{n.name, n.doc})
	}
	return list
}

// Names returns the names that [New] accepts.
func Names() []string {
	var names []string
	for _, n := range all() {
		names = append(names, n.name)
	}
	return names
}

// New returns the policy with a name. Options may follow a colon. The policies easy-textbook,
// easy-sjbf and easy++ have the options of [TieRules]: "easy-textbook:extra=first,end=before". All
// policies of EASY can schedule by predictions, as [online.Options] describes:
// "easy-sjbf:predict=nag,correct=incremental". The policies that plan with a file system have the
// options of [ioaware.Planning]: "io-aware:track-nodes,estimate=x2".
func New(spec string) (sim.NewPolicy, error) {
	made, _, err := NewWith(spec, func(file string) (*model.Model, error) {
		return nil, fmt.Errorf("%s: a trained model is not possible here (want a policy without predict=model:)", file)
	})
	return made, err
}

// NewWith is [New] for policies that may also name a file with a trained model, such as
// "easy-sjbf:predict=model:FILE". The function read reads that file. NewWith also returns the
// model, or nil if the policy has none.
func NewWith(spec string, read func(file string) (*model.Model, error)) (sim.NewPolicy, *model.Model, error) {
	name, options, hasOptions := strings.Cut(spec, ":")
	for _, n := range all() {
		if n.name != name {
			continue
		}
		p, trained, err := n.with(options, hasOptions, read)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", spec, err)
		}
		return p, trained, nil
	}
	return nil, nil, Unknown(name)
}

// Unknown returns the error for a name that is not a policy. The list others has further names
// that the caller accepts. The error suggests the nearest name, or lists all names.
func Unknown(name string, others ...string) error {
	names := append(Names(), others...)
	if near := spelling.Nearest(strings.ToLower(name), max(1, len(name)/3), names); near != "" {
		return fmt.Errorf("%q: not a policy (did you mean %s?)", name, near)
	}
	return fmt.Errorf("%q: not a policy (want %s)", name, strings.Join(names, ", "))
}

// with returns the policy with the options in text. The parameter has says that a colon followed the name.
func (n *named) with(text string, has bool, read func(string) (*model.Model, error)) (made sim.NewPolicy,
	trained *model.Model, err error) {
	if defaults := ioOptions(n.name); has && defaults != nil {
		options, err := defaults.With(text)
		return WithFileSystem(options), nil, err
	}
	ties, learn, predicts := TieRules{}, online.Default(), n.name == "easy++"
	if predicts {
		_, _ = learn.Set("predict", "last-two") // the name is always known
	}
	if has && !n.predicts {
		return nil, nil, fmt.Errorf("policy %s has no options (want %s)", n.name, n.name)
	}
	for has {
		var option string
		option, text, has = strings.Cut(text, ",")
		if n.ties && ties.set(option) {
			continue
		}
		name, value, _ := strings.Cut(option, "=")
		known, err := learn.Set(name, value)
		if err != nil {
			return nil, nil, err
		}
		if !known {
			return nil, nil, fmt.Errorf("%q: not an option of %s (want %s)", option, n.name, n.wanted())
		}
		predicts = true
	}
	if err := learn.Check(predicts); err != nil {
		return nil, nil, err
	}
	plain := n.make(ties)
	if !predicts {
		return plain, nil, nil
	}
	if file := learn.File(); file != "" {
		if trained, err = read(file); err != nil {
			return nil, nil, err
		}
	}
	return func(m *sim.Machine) sim.Policy {
		m.Predict(learn.New(trained))
		return plain(m)
	}, trained, nil
}

// wanted lists the options of the policy.
func (n *named) wanted() string {
	list := online.Names()
	if n.ties {
		list = append([]string{"extra=all", "extra=first", "end=by", "end=before"}, list...)
	}
	return strings.Join(list, ", ")
}

// set sets a tie rule. It returns false if the option is not a tie rule.
func (t *TieRules) set(option string) bool {
	switch option {
	case "extra=first":
		t.ExtraFirst = true
	case "extra=all":
		t.ExtraFirst = false
	case "end=before":
		t.EndBefore = true
	case "end=by":
		t.EndBefore = false
	default:
		return false
	}
	return true
}
