// Package agents models the threads with which slurmctld sends messages to nodes (agent in agent.c). There are
// at most 256, so the launches of a pass that starts many jobs reach their nodes at several instants.
package agents

import (
	"slices"
	"time"

	"rmreplay/internal/hpc"
)

const (
	// Nap is how long an agent's watchdog sleeps before it looks for answers the first time (_wdog). If
	// nodes answer at once, an agent keeps its threads that long.
	Nap = 5 * time.Millisecond
	// most is the number of threads of all agents (MAX_SERVER_THREADS), fanout the number of threads with
	// which one agent sends (AGENT_THREAD_COUNT), and own the number of its other threads.
	most, fanout, own = 256, 10, 2
	// many is the number of agents up to which messages of nodes cause passes (LOTS_OF_AGENTS_CNT).
	many = 50
)

// Pool has the agents that are at work. The zero value has none.
type Pool struct {
	agents  []agent // by end
	threads int
	latest  hpc.Time   // when the last agent began
	ends    []hpc.Time // of the agents that had not ended at the last call
}

type agent struct {
	end     hpc.Time
	threads int
}

// Send sends a message to a number of nodes, and returns when they get it: now, or when enough agents
// have ended for the pool to have threads for a further agent.
func (p *Pool) Send(now hpc.Time, nodes int) hpc.Time {
	ended, _ := slices.BinarySearch(p.ends, now+1)
	p.ends = p.ends[ended:]
	threads := own + min(nodes, fanout)
	at := max(now, p.latest)
	p.end(at)
	for p.threads+threads > most {
		at = p.agents[0].end
		p.end(at)
	}
	p.agents = append(p.agents, agent{at.Add(Nap), threads})
	p.threads += threads
	p.latest = at
	p.ends = append(p.ends, at.Add(Nap))
	return at
}

// Many reports whether many agents are at work. Then slurmctld makes no pass when a node tells that it
// is free, but leaves the pass to the background loop (LOTS_OF_AGENTS in agent.h).
func (p *Pool) Many(now hpc.Time) bool {
	n := 0
	for _, end := range p.ends {
		if end > now && end <= now.Add(Nap) {
			n++
		}
	}
	return n > many
}

// Launch starts a job on a number of nodes, and returns when its script begins. A prolog is sent to all of them
// before the script is sent to the first (select_nodes in node_scheduler.c).
func (p *Pool) Launch(now hpc.Time, nodes int, prolog bool) hpc.Time {
	if prolog {
		p.Send(now, nodes)
	}
	return p.Send(now, 1)
}

// end takes off the agents that have ended by an instant.
func (p *Pool) end(by hpc.Time) {
	n := 0
	for ; n < len(p.agents) && p.agents[n].end <= by; n++ {
		p.threads -= p.agents[n].threads
	}
	p.agents = p.agents[n:]
}
