package experiment

import (
	"rmreplay/internal/compare"
	"rmreplay/internal/run"
)

// judge compares a complete run with the record of its workload. It returns nil for other runs and
// for a workload without a record. Users who react move their submissions, so that the waits are
// no longer those of the same queue.
func (p *Prepared) judge(record *run.Writer, state run.State, m *run.Manifest) *run.Verdict {
	if state != run.StateComplete || m.Feedback != nil {
		return nil
	}
	return compare.Judge(p.workload, record.Rows, m)
}
