package experiment

import (
	"rmreplay/internal/compare"
	"rmreplay/internal/run"
)

// judge compares a complete run with the record of its workload. It returns nil for other runs, for a workload
// without recorded starts, and for runs with feedback, because their submissions differ from the record.
func (p *Prepared) judge(record *run.Writer, state run.State, m *run.Manifest) *run.Verdict {
	if state != run.StateComplete || m.Feedback != nil {
		return nil
	}
	return compare.Judge(p.workload, record.Rows, m)
}
