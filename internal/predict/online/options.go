package online

import (
	"fmt"
	"strings"
)

// Options choose a predictor and a correction by their names. The zero value predicts nothing.
type Options struct {
	predictor  string
	correction Correction
	loss       Loss
	history    History
	learner    bool // an option of the learner was set
}

// choice is a value of an option.
type choice struct {
	name string
	set  func(*Options)
}

// option is an option with its values, in the order of the help.
type option struct {
	name   string
	values []choice
}

func predictor(name string) choice { return choice{name, func(o *Options) { o.predictor = name }} }

func correction(name string, c Correction) choice {
	return choice{name, func(o *Options) { o.correction = c }}
}

// learner is a choice that only [Regression] has.
func learner(name string, set func(*Options)) choice {
	return choice{name, func(o *Options) { set(o); o.learner = true }}
}

func weight(name string, w Weight) choice {
	return learner(name, func(o *Options) { o.loss.Weight = w })
}

var options = []option{
	{"predict", []choice{predictor("requested"), predictor("last-two"), predictor("clairvoyant"), predictor("nag")}},
	{"correct", []choice{correction("incremental", Incremental), correction("doubling", Doubling), correction("requested", ToLimit)}},
	{"over", []choice{
		learner("linear", func(o *Options) { o.loss.OverSquared = false }), learner("square", func(o *Options) { o.loss.OverSquared = true }),
	}},
	{"under", []choice{
		learner("linear", func(o *Options) { o.loss.UnderSquared = false }), learner("square", func(o *Options) { o.loss.UnderSquared = true }),
	}},
	{"weight", []choice{
		weight("constant", Constant), weight("short-wide", ShortWide), weight("long-narrow", LongNarrow),
		weight("small-area", SmallArea), weight("large-area", LargeArea),
	}},
	{"history", []choice{
		learner("since-submit", func(o *Options) { o.history = SinceSubmit }), learner("run-times", func(o *Options) { o.history = RunTimes }),
	}},
}

// Default are the options with which no prediction is made. The learner has the loss [ELoss], and
// corrections are incremental.
func Default() Options { return Options{correction: Incremental, loss: ELoss} }

// Set sets an option. It reports whether there is such an option, and returns an error for a value
// that it does not have.
func (o *Options) Set(name, value string) (bool, error) {
	for _, op := range options {
		if op.name != name {
			continue
		}
		var names []string
		for _, c := range op.values {
			if c.name == value {
				c.set(o)
				return true, nil
			}
			names = append(names, c.name)
		}
		return true, fmt.Errorf("%s=%s: not a value of %s (want %s)", name, value, name, strings.Join(names, ", "))
	}
	return false, nil
}

// Check returns an error if options are set that have no effect. set says that any was set.
func (o *Options) Check(set bool) error {
	switch {
	case set && o.predictor == "":
		return fmt.Errorf("predict is missing (want predict=%s)", strings.Join(Values("predict"), ", predict="))
	case o.learner && o.predictor != "nag":
		return fmt.Errorf("predict=%s has none of the options over, under, weight and history (want predict=nag)", o.predictor)
	}
	return nil
}

// Names returns the options, each with its values: "predict=requested|last-two".
func Names() []string {
	var names []string
	for _, op := range options {
		names = append(names, op.name+"="+strings.Join(Values(op.name), "|"))
	}
	return names
}

// Values returns the values of an option.
func Values(name string) []string {
	var names []string
	for _, op := range options {
		for _, c := range op.values {
			if op.name == name {
				names = append(names, c.name)
			}
		}
	}
	return names
}

// New returns a predictor that knows no job, and the correction. Both are nil if the options predict
// nothing.
func (o *Options) New() (Predictor, Correction) {
	switch o.predictor {
	case "requested":
		return Requested{}, o.correction
	case "last-two":
		return NewLastTwo(), o.correction
	case "clairvoyant":
		return Clairvoyant{}, o.correction
	case "nag":
		return NewRegression(o.loss, o.history), o.correction
	}
	return nil, nil
}
