package online

import (
	"fmt"
	"strings"

	"rmreplay/internal/predict"
	"rmreplay/internal/predict/model"
)

// Options choose a predictor and a correction by their names. With the zero value, there are no
// predictions.
type Options struct {
	predictor  string
	file       string // of predict=model:FILE
	correction Correction
	loss       Loss
	history    History
	learner    bool // an option of [Regression] was set
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

func predictor(name string) choice {
	return choice{name, func(o *Options) { o.predictor, o.file = name, "" }}
}

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
	{"predict", []choice{
		predictor("requested"), predictor("last-two"), predictor("clairvoyant"), predictor("nag"),
		predictor(string(model.Class)), predictor(string(model.Forest)), predictor(string(model.Boost)),
	}},
	{"correct", []choice{correction("incremental", Incremental), correction("doubling", Doubling),
		correction("requested", ToLimit)}},
	{"over", []choice{
		learner("linear", func(o *Options) { o.loss.OverSquared = false }),
		learner("square", func(o *Options) { o.loss.OverSquared = true }),
	}},
	{"under", []choice{
		learner("linear", func(o *Options) { o.loss.UnderSquared = false }),
		learner("square", func(o *Options) { o.loss.UnderSquared = true }),
	}},
	{"weight", []choice{
		weight("constant", Constant), weight("short-wide", ShortWide), weight("long-narrow", LongNarrow),
		weight("small-area", SmallArea), weight("large-area", LargeArea),
	}},
	{"history", []choice{
		learner("since-submit", func(o *Options) { o.history = SinceSubmit }),
		learner("run-times", func(o *Options) { o.history = RunTimes }),
	}},
}

// Default returns options without a predictor. Their loss is [ELoss], and their correction
// [Incremental].
func Default() Options { return Options{correction: Incremental, loss: ELoss} }

// fromFile is the prefix of a value of predict that names the file of a trained model.
const fromFile = "model:"

// Set sets an option. It reports whether the option exists, and returns an error for an unknown
// value. "predict=model:FILE" uses a trained model.
func (o *Options) Set(name, value string) (bool, error) {
	if file, ok := strings.CutPrefix(value, fromFile); ok && name == "predict" && file != "" {
		o.predictor, o.file = fromFile, file
		return true, nil
	}
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
		if name == "predict" {
			names = append(names, fromFile+"FILE")
		}
		return true, fmt.Errorf("%s=%s: not a value of %s (want %s)", name, value, name, strings.Join(names, ", "))
	}
	return false, nil
}

// Check returns an error if an option is set that has no effect. The parameter set says whether
// any option was set.
func (o *Options) Check(set bool) error {
	switch {
	case set && o.predictor == "":
		return fmt.Errorf("predict is missing (want predict=%s)", strings.Join(Values("predict"), ", predict="))
	case o.learner && o.predictor != "nag":
		return fmt.Errorf("predict=%s does not have the options over, under, weight and history (want predict=nag)",
			o.predictor+o.file)
	}
	return nil
}

// Names returns the options, each with its values: "predict=requested|last-two".
func Names() []string {
	var names []string
	for _, op := range options {
		values := Values(op.name)
		if op.name == "predict" {
			values = append(values, fromFile+"FILE")
		}
		names = append(names, op.name+"="+strings.Join(values, "|"))
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

// File returns the file of the trained model that the options name, or "".
func (o *Options) File() string { return o.file }

// retrain is the growth of the number of ended jobs after which a model that learns during a
// simulation is trained again ([model.Options]). The value 1 means that the number has doubled.
const retrain = 1

// New returns a predictor, and the correction. Both results are nil if the options predict nothing. If the options name
// a file, trained must be its model, and the predictor begins with the model's history; otherwise the predictor begins
// without jobs. Models without a file are trained on the jobs that end, as in `predict evaluate`.
func (o *Options) New(trained *model.Model) (predict.Predictor, Correction) {
	switch o.predictor {
	case "":
		return nil, nil
	case "requested":
		return Requested{}, o.correction
	case "last-two":
		return NewLastTwo(), o.correction
	case "clairvoyant":
		return NewClairvoyant(), o.correction
	case "nag":
		return NewRegression(o.loss, o.history), o.correction
	case fromFile:
		return trained.Online(), o.correction
	}
	return model.NewOnline(model.Options{Kind: model.Kind(o.predictor), Seed: 1, Growth: retrain}), o.correction
}
