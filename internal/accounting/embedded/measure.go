package embedded

import (
	"fmt"

	"rmreplay/internal/accounting/question"
	"rmreplay/internal/accounting/rollup"
)

// aggregate is a call of an aggregate function over jobs, and a cast of the result.
type aggregate struct{ call, cast string }

// where returns the SQL of the aggregate over the jobs that match a filter.
func (a aggregate) where(f part) part {
	switch {
	case f.text == "":
		return part{text: a.call + a.cast}
	case a.cast == "":
		return part{a.call + " FILTER (" + f.text + ")", f.args}
	}
	return part{"(" + a.call + " FILTER (" + f.text + "))" + a.cast, f.args}
}

// sumOf returns the sum of a column. For integers the result is cast to DOUBLE.
func sumOf(f *question.Field, sql string) aggregate {
	if f.Type == question.Integer {
		return aggregate{"sum(" + sql + ")", "::DOUBLE"}
	}
	return aggregate{"sum(" + sql + ")", ""}
}

// moment returns a sum over jobs: the seconds between two instants, multiplied by the SQL
// expression times. since is the SQL of the first instant, in microseconds since 1970. The second
// instant is the value of the column.
func moment(column, times, since string) aggregate {
	return aggregate{fmt.Sprintf("sum(%s::DOUBLE * ((%s - %s) / 1e6))", times, micros(column), since), ""}
}

// operands returns the SQL, over jobs, of the columns that a measure uses.
func (c columns) operands(m question.Measure) (column, times string, f *question.Field, err error) {
	switch m.Kind {
	case question.Count, question.Unused:
		return "", "", nil, nil
	case question.Moment:
		if times, err = c.column(m.Times); err != nil {
			return "", "", nil, err
		}
	}
	column, err = c.column(m.Column)
	return column, times, question.Fields[m.Column], err
}

// measure returns the SQL of a measure over jobs.
func (c columns) measure(m question.Measure) (part, error) {
	var where part
	if m.Where != nil {
		var err error
		if where, err = c.filter(m.Where); err != nil {
			return part{}, err
		}
	}
	column, times, field, err := c.operands(m)
	if err != nil {
		return part{}, err
	}
	switch m.Kind {
	case question.Count:
		return aggregate{"count(*)", ""}.where(where), nil
	case question.Distinct:
		return aggregate{"count(DISTINCT " + column + ")", ""}.where(where), nil
	case question.Sum:
		return sumOf(field, column).where(where), nil
	case question.Mean:
		return aggregate{"avg(" + column + ")", ""}.where(where), nil
	case question.Unused:
		return aggregate{"sum(" + rollup.Unused + ")", ""}.where(where), nil
	case question.Moment:
		return moment(column, times, fmt.Sprint(m.Since.UnixMicro())).where(where), nil
	case question.Least, question.Most:
		p := aggregate{extreme(m.Kind) + "(" + column + ")", ""}.where(where)
		return part{number1970(field, p.text), p.args}, nil
	}
	return part{}, fmt.Errorf("compiling a measure: the kind %d is not known", m.Kind)
}

func extreme(k question.Kind) string {
	if k == question.Least {
		return "min"
	}
	return "max"
}

// number1970 returns SQL that converts a field to a number; instants become milliseconds since
// 1970.
func number1970(f *question.Field, sql string) string {
	if f.Type == question.Instant {
		return "epoch_ms(" + sql + ")::DOUBLE"
	}
	return "(" + sql + ")::DOUBLE"
}
