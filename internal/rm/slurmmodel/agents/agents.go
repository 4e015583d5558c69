// Package agents models slurmctld's agents: threads that send messages to nodes (agent in agent.c).
// All agents together have at most 256 threads. If a pass starts many jobs, their launch messages
// therefore reach the nodes at several instants.
package agents

import (
	"slices"
	"time"

	"rmreplay/internal/hpc"
)

const (
	// Nap is how long an agent's watchdog sleeps before it first looks for answers (_wdog). An agent
	// has its threads at least for this time, even if the nodes answer at once.
	Nap = 5 * time.Millisecond
	// maxThreads is the largest number of threads of all agents together (MAX_SERVER_THREADS). An agent has threads
	// that send messages, at most as many as the constant fanout says (AGENT_THREAD_COUNT), and two further threads
	// (own).
	maxThreads, fanout, own = 256, 10, 2
	// many is the number of working agents above which slurmctld makes no pass when a node's message
	// arrives (LOTS_OF_AGENTS_CNT).
	many = 50
)

// Pool holds the agents at work. Its zero value is an empty pool.
type Pool struct {
	agents  []agent // sorted by end
	threads int
	latest  hpc.Time   // when the newest agent began
	ends    []hpc.Time // ends of the agents that were at work at the last Send
}

type agent struct {
	end     hpc.Time
	threads int
}

// Send sends a message to a number of nodes, and returns when the nodes get the message: now if enough
// threads are free, and otherwise when enough agents have ended.
func (p *Pool) Send(now hpc.Time, nodes int) hpc.Time {
	ended, _ := slices.BinarySearch(p.ends, now+1)
	p.ends = p.ends[ended:]
	threads := own + min(nodes, fanout)
	at := max(now, p.latest)
	p.end(at)
	for p.threads+threads > maxThreads {
		at = p.agents[0].end
		p.end(at)
	}
	p.agents = append(p.agents, agent{at.Add(Nap), threads})
	p.threads += threads
	p.latest = at
	p.ends = append(p.ends, at.Add(Nap))
	return at
}

// Many reports whether more than 50 agents are at work. If so, a node's message does not make slurmctld schedule at
// once; the background loop schedules later (LOTS_OF_AGENTS in agent.h).
func (p *Pool) Many(now hpc.Time) bool {
	n := 0
	for _, end := range p.ends {
		if end > now && end <= now.Add(Nap) {
			n++
		}
	}
	return n > many
}

// Launch starts a job on a number of nodes, and returns when the job's script begins. With a prolog, slurmctld first
// sends the prolog to all nodes, and then the script to the first node (select_nodes in node_scheduler.c).
func (p *Pool) Launch(now hpc.Time, nodes int, prolog bool) hpc.Time {
	if prolog {
		p.Send(now, nodes)
	}
	return p.Send(now, 1)
}

// end removes the agents that have ended by an instant.
func (p *Pool) end(by hpc.Time) {
	n := 0
	for ; n < len(p.agents) && p.agents[n].end <= by; n++ {
		p.threads -= p.agents[n].threads
	}
	p.agents = p.agents[n:]
}
