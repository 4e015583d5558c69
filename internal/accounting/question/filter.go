package question

// Filter chooses jobs. It is an [All], [Any], [Not], [Known], [Compare] or [Like]. A job without a
// value of a column matches no comparison with it.
type Filter interface{ filter() }

// All holds if each of its filters does.
type All []Filter

// Any holds if one of its filters does.
type Any []Filter

// Not holds if its filter does not.
type Not struct{ Of Filter }

// Known holds for jobs that have a value of a column.
type Known struct{ Column string }

// Compare holds if a column stands in a relation to a value: one of =, <, <=, > and >=. The value is
// a string, a float64 or a [time.Time], as the column is.
type Compare struct {
	Column string
	Op     string
	Value  any
}

// Like holds if a column's text matches a pattern, in which * stands for any characters, ? for one,
// and \ quotes a character.
type Like struct {
	Column  string
	Pattern string
	AnyCase bool
}

func (All) filter()     {}
func (Any) filter()     {}
func (Not) filter()     {}
func (Known) filter()   {}
func (Compare) filter() {}
func (Like) filter()    {}
