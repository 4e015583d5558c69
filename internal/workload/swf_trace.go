package workload

import (
	"fmt"
	"strings"

	"rmreplay/internal/hpc"
)

// swfFieldsKept is hpc.SWF as a part of a job's line in a trace. What the job itself
// gives is not written: it follows from the job when the line is read.
type swfFieldsKept struct {
	Record int            `json:"record,omitempty"`
	Fields map[int]string `json:"fields,omitempty"` // the numbers as the log has them
}

func newSWFFieldsKept(swf *hpc.SWF) *swfFieldsKept {
	if swf == nil {
		return nil
	}
	k := &swfFieldsKept{Record: swf.Record}
	if len(swf.Kept) > 0 {
		k.Fields = make(map[int]string, len(swf.Kept))
	}
	for _, n := range swf.Kept {
		k.Fields[n.Field] = string(appendDecimal(nil, n.Read))
	}
	return k
}

// record returns the fields in their order, without what the job gives for them. A
// text that is no number is left for [deriveSWF] to refuse.
func (k *swfFieldsKept) record() *hpc.SWF {
	if k == nil {
		return nil
	}
	swf := &hpc.SWF{Record: k.Record}
	for _, field := range sortedKeys(k.Fields) {
		n, ok := parseDecimal([]byte(k.Fields[field]))
		if !ok {
			field = 0
		}
		swf.Kept = append(swf.Kept, hpc.SWFNumber{Field: field, Read: n})
	}
	return swf
}

// deriveSWF completes the numbers that a trace has kept of an SWF log with what the
// jobs give for them, as the log's reader did.
func deriveSWF(w *Workload) error {
	var names *swfNames
	for i, job := range w.Jobs.All() {
		if job.SWF == nil || len(job.SWF.Kept) == 0 {
			continue
		}
		if names == nil {
			names = newSWFNames()
			for _, text := range w.Header {
				if key, value, found := strings.Cut(text, ":"); found {
					names.comment(strings.TrimSpace(key), value)
				}
			}
		}
		derived := names.record(job, w.Epoch)
		for k := range job.SWF.Kept {
			kept := &job.SWF.Kept[k]
			if kept.Field < 1 || kept.Field > swfFields {
				return fmt.Errorf("job %s: swf: fields: want numbers by field, from 1 to %d", job.ID, swfFields)
			}
			kept.Derived = derived[kept.Field-1]
		}
		w.Jobs.Set(i, job)
	}
	return nil
}

// unusableRecord is a record of the source that is no job, as a line of a trace.
type unusableRecord struct {
	Type   string `json:"type"`
	Record int    `json:"record"`
	Rule   string `json:"rule"`
	Text   string `json:"text"`
}

func (t *traceReader) unusable(line []byte) error {
	var r unusableRecord
	if err := decodeStrict(line, &r); err != nil {
		return err
	}
	t.w.Unusable = append(t.w.Unusable, Unusable{Record: r.Record, Rule: r.Rule, Text: r.Text})
	return nil
}
