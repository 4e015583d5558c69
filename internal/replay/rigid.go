package replay

import "rmreplay/internal/workload"

// NewRigid makes the controller that submits every job at its recorded instant.
func NewRigid(w *workload.Workload) Controller { return rigid{w} }

type rigid struct{ w *workload.Workload }

// Begin implements [Controller].
func (r rigid) Begin() Decisions {
	all := make([]Submission, r.w.Jobs.Len())
	for i := range all {
		all[i] = Submission{Job: i, At: r.w.Jobs.Submit(i)}
	}
	return Decisions{Submit: all}
}

// Event implements [Controller].
func (rigid) Event(*Event) Decisions { return Decisions{} }
