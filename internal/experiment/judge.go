package experiment

import (
	"rmreplay/internal/compare"
	"rmreplay/internal/run"
)

// judge compares a complete run with the record of its workload. It returns nil for other runs and for a workload
// without a record. If users react, they submit at other times: their waits cannot be compared.
func (p *Prepared) judge(record *run.Writer, state run.State, m *run.Manifest) *run.Verdict {
	if state != run.StateComplete || m.Feedback != nil {
		return nil
	}
	return compare.Judge(p.workload, record.Rows, m)
}
