package tune

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Kind says which values a parameter can have.
type Kind string

// The kinds of parameters.
const (
	Integer     Kind = "integer"
	Real        Kind = "real"
	Categorical Kind = "values" // a value of a list that has no order
)

// Parameter is one dimension of the space. Its name is the name of an option of simulate, or of a
// parameter that an edit of a sweep can set.
type Parameter struct {
	Name   string
	Kind   Kind
	Low    float64 // the ends of a number's range, both included
	High   float64
	Log    bool     // whether values are drawn on a logarithmic scale
	Values []string // the values of a categorical parameter
	// Now is the site's own value, near which a search begins; empty if it is not known.
	Now string
	// When, if not nil, is the condition under which the parameter has an effect. If the condition is
	// not fulfilled, the parameter has the site's value.
	When *Condition

	line int // the line in the file
}

// Condition is fulfilled if an earlier parameter has one of the given values.
type Condition struct {
	Parameter int // its index in the space
	Values    []string
}

// Space holds the parameters, in the order of the file.
type Space []Parameter

// Setting has a value for each parameter of a space, as text. An empty value means the site's own
// value. A nil Setting is the site's own setting.
type Setting []string

// Own reports whether the setting is the site's own setting.
func (s Setting) Own() bool {
	return !slices.ContainsFunc(s, func(v string) bool { return v != "" })
}

// Name returns a name for the setting's directory. The name depends only on the parameters and their values. A later
// search in the same directory therefore finds the runs of the same setting.
func (sp Space) Name(s Setting) string {
	if s.Own() {
		return "site"
	}
	h := sha256.New()
	for i, value := range s {
		if value != "" {
			_, _ = fmt.Fprintf(h, "%q=%q\n", sp[i].Name, value)
		}
	}
	return "set-" + hex.EncodeToString(h.Sum(nil))[:10]
}

// digits is the number of significant digits of a number that a search proposes.
// PriorityWeightAge=13877 has practically the same effect as 13900.
const digits = 3

// at returns the value at a position from 0 to 1 of the parameter's range.
func (p *Parameter) at(u float64) string {
	u = min(max(u, 0), 1)
	switch p.Kind {
	case Categorical:
		return p.Values[min(int(u*float64(len(p.Values))), len(p.Values)-1)]
	case Integer:
		// Each whole number, also the last, has an equal share of the range.
		v := math.Floor(p.scale(u, p.Low, p.High+1))
		return strconv.FormatFloat(p.clamp(math.Round(rounded(v))), 'f', -1, 64)
	}
	return strconv.FormatFloat(p.clamp(rounded(p.scale(u, p.Low, p.High))), 'f', -1, 64)
}

func (p *Parameter) scale(u, low, high float64) float64 {
	if p.Log {
		return math.Exp(math.Log(low) + u*(math.Log(high)-math.Log(low)))
	}
	return low + u*(high-low)
}

func (p *Parameter) clamp(v float64) float64 { return min(max(v, p.Low), p.High) }

// rounded returns a number with at most digits significant digits.
func rounded(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// position returns the position of a value in the range of a number, from 0 to 1. An empty value
// means the site's own value. The result ok is false for a text that is not a number, and for a
// categorical parameter.
func (p *Parameter) position(value string) (u float64, ok bool) {
	if value == "" {
		value = p.Now
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || p.Kind == Categorical {
		return 0, false
	}
	v, low, high := p.clamp(v), p.Low, p.High
	if p.Kind == Integer {
		v, high = v+0.5, high+1 // the middle of the value's share of the range
	}
	if p.Log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return (v - low) / (high - low), true
}

// same reports whether two values have the same effect.
func (p *Parameter) same(a, b string) bool {
	x, xerr := strconv.ParseFloat(a, 64)
	y, yerr := strconv.ParseFloat(b, 64)
	return a == b || p.Kind != Categorical && xerr == nil && yerr == nil && x == y
}

// normalize empties each value that equals the site's own value, and each value of a parameter whose condition is not
// fulfilled, so two settings with the same effect are equal.
func (sp Space) normalize(s Setting) Setting {
	for i := range sp {
		if sp[i].same(s[i], sp[i].Now) {
			s[i] = ""
		}
		if !sp.used(s, i) {
			s[i] = ""
		}
	}
	return s
}

// used reports whether the condition of a parameter is fulfilled.
func (sp Space) used(s Setting, parameter int) bool {
	c := sp[parameter].When
	if c == nil {
		return true
	}
	value := sp[c.Parameter].Now
	if s != nil && s[c.Parameter] != "" {
		value = s[c.Parameter]
	}
	return slices.Contains(c.Values, value)
}

// Describe returns the values that a setting changes: A=1, B=2.
func (sp Space) Describe(s Setting) string {
	var parts []string
	for i, value := range s {
		if value != "" {
			parts = append(parts, sp[i].Name+"="+value)
		}
	}
	if len(parts) == 0 {
		return "the site's own"
	}
	return strings.Join(parts, ", ")
}

// hypercube returns n settings in which each parameter's values are spread evenly over its range
// (McKay, Beckman and Conover, Technometrics 21(2), 1979).
func (sp Space) hypercube(n int, random *rand.Rand) []Setting {
	settings := make([]Setting, n)
	for i := range settings {
		settings[i] = make(Setting, len(sp))
	}
	for p := range sp {
		for i, place := range random.Perm(n) {
			settings[i][p] = sp[p].at((float64(place) + random.Float64()) / float64(n))
		}
	}
	for i := range settings {
		settings[i] = sp.normalize(settings[i])
	}
	return settings
}

// near draws a setting near a parent. Numbers are normally distributed around the parent's value,
// within the range. The parameter deviation is the standard deviation as a share of the range. A
// parameter whose values have no order has the parent's value with the probability keep, and
// otherwise a random value. A number whose present value is not known has a random value.
func (sp Space) near(parent Setting, deviation, keep float64, random *rand.Rand) Setting {
	child := make(Setting, len(sp))
	for i := range sp {
		p := &sp[i]
		value := ""
		if parent != nil {
			value = parent[i]
		}
		at, known := p.position(value)
		switch {
		case known:
			child[i] = p.at(truncatedNormal(at, deviation, random))
		case p.Kind == Categorical && random.Float64() < keep:
			child[i] = value
		default:
			child[i] = p.at(random.Float64())
		}
	}
	return sp.normalize(child)
}

// truncatedNormal draws from the normal distribution around a mean within [0, 1].
func truncatedNormal(mean, deviation float64, random *rand.Rand) float64 {
	for range 100 {
		if u := mean + deviation*random.NormFloat64(); u >= 0 && u <= 1 {
			return u
		}
	}
	return mean
}
