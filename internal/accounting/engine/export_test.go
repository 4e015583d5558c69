package engine

// Processes returns the process ids of the engines.
func (p *Pool) Processes() (list []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.live {
		list = append(list, e.cmd.Process.Pid)
	}
	return list
}

// Memory returns the number of bytes of anonymous memory of all engines.
func (p *Pool) Memory() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.live {
		n += e.memory.Anonymous()
	}
	return n
}

// Slow returns the number of questions in the slow lane, and the number of questions that wait for
// it.
func (p *Pool) Slow() (taken, waiting int) {
	p.lanes.mu.Lock()
	defer p.lanes.mu.Unlock()
	return p.lanes.takenSlow, len(p.lanes.slowLine)
}

// Options returns the options in force.
func (p *Pool) Options() Options { return p.opts }
