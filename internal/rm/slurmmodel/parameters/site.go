package parameters

// Site is a slurm.conf that slurmctld reads while it runs. Each scheduler takes over its parameters
// when it runs next. The zero value changes nothing.
type Site struct {
	par     *Parameters
	waiting bool // backfill has not taken over its parameters yet
}

// Change sets the new parameters.
func (s *Site) Change(to *Parameters) { s.par, s.waiting = to, true }

// Main returns the parameters with which the main scheduler runs now. The parameter before has its
// earlier parameters.
func (s *Site) Main(before *Parameters) *Parameters {
	if s.par == nil {
		return before
	}
	par := *s.par
	if s.waiting {
		par.BF = before.BF
		par.BF.MinAge, par.BF.MinPriority = s.par.BF.MinAge, s.par.BF.MinPriority
	}
	return &par
}

// Backfill changes par to the parameters with which backfill runs now.
func (s *Site) Backfill(par *Parameters) {
	if s.waiting {
		s.waiting, par.BF = false, s.par.BF
	}
}
