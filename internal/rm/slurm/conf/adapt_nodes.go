package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/rm/slurm/conf/values"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// siteNodeAttributes are the attributes that the adaptation drops from NodeName lines, with reasons.
var siteNodeAttributes = []struct{ key, reason string }{
	{"NodeAddr", whySiteNodes}, {"NodeHostname", whySiteNodes}, {"BcastAddr", whySiteNodes}, {"Port", whySiteNodes},
	{"GresConf", whyNoSlurmd}, {"Parameters", whyNoSlurmd}, {"SuspendTime", whyPower},
}

const whySiteNodes = "where the site's nodes are"

// sitePartitionAttributes are the attributes that the adaptation drops from PartitionName lines, with the reasons.
var sitePartitionAttributes = map[string]string{
	"AllocNodes":      "jobs are submitted from this machine, which is not a host of the site",
	"PowerDownOnIdle": whyPower,
	"ResumeTimeout":   whyPower,
	"SuspendTime":     whyPower,
	"SuspendTimeout":  whyPower,
}

// objects returns the lines of nodes, followed by the node sets and partitions in the site's order.
func (a *adapter) objects() []string {
	lines := a.nodes()
	for _, s := range a.cluster.Statements {
		r := a.rule(s.Key)
		if r == nil || r.attributes == nil {
			continue
		}
		switch r.key {
		case "NodeSet":
			if _, node := a.cluster.nodeIndex[s.Value]; node && a.release.Since(slurmspec.R2411) {
				a.errs = append(a.errs, s.errorf("NodeSet=%s: a node has the same name, which slurmctld refuses since 24.11 (want another name)", s.Value))
			}
			lines = append(lines, canonical(s, grammarOf(r)).String())
		case "PartitionName":
			lines = append(lines, a.partition(s, r))
		case "DownNodes":
			if l := a.downNodes(s, r); l != "" {
				lines = append(lines, l)
			}
		case "FrontendName", "PowerAction":
			a.record(s, r, "", r.reason)
		}
	}
	return lines
}

// grammarOf returns the grammar of one object's line.
func grammarOf(r *rule) syntax.Grammar {
	return syntax.Grammar{strings.ToLower(r.key): {Name: r.key, Attributes: r.attributes}}
}

// nodes returns a line for each NodeName line of the site, with the values of the DEFAULT lines
// above it and the processors that slurmctld computes.
func (a *adapter) nodes() []string {
	var lines []string
	var addresses []string
	for _, l := range a.cluster.nodeLines {
		if err := values.CheckNode(l.hardware, a.out.SelectType, a.release); err != nil {
			a.errs = append(a.errs, l.statement.errorf("NodeName=%s %w", l.statement.Value, err))
		}
		mine := a.addresses(l)
		addresses = append(addresses, mine...)
		lines = append(lines, a.node(l, mine).String())
		for _, gone := range siteNodeAttributes {
			if from, ok := l.get(gone.key); ok && a.knowsAttribute("NodeName", gone.key) {
				a.out.Changes = append(a.out.Changes, Change{Key: "NodeName=" + l.statement.Value + " " + gone.key, From: from,
					Reason: gone.reason, File: l.statement.File, Line: l.statement.Line})
			}
		}
	}
	a.out.Changes = append(a.out.Changes, Change{Key: "NodeAddr", To: hostlist.Compress(addresses),
		Reason: "each node at a loopback address of its own, in the order of slurm.conf"})
	return lines
}

// knowsAttribute reports whether the release knows an attribute of an object's line.
func (a *adapter) knowsAttribute(object, key string) bool {
	return history.Attributes[object+" "+key].Includes(a.release)
}

// addresses returns the loopback addresses of the nodes of a line.
func (a *adapter) addresses(l nodeLine) []string {
	addresses := make([]string, l.count)
	for i := range addresses {
		addr := a.env.NodeAddress(l.first + i)
		if !addr.Is4() || !addr.IsLoopback() {
			a.errs = append(a.errs, l.statement.errorf("node %s: no loopback address is left for it", a.cluster.Nodes[l.first+i].Name))
			return nil
		}
		addresses[i] = addr.String()
	}
	return addresses
}

func (a *adapter) node(l nodeLine, addresses []string) Statement {
	h := l.hardware
	s := Statement{Key: "NodeName", Value: values.HostList(l.statement.Value, a.release)}
	add := func(key, value string) { s.Attributes = append(s.Attributes, Attribute{key, value}) }
	number := func(key string, n, otherwise int64) {
		if n != otherwise {
			add(key, strconv.FormatInt(n, 10))
		}
	}
	add("NodeAddr", hostlist.Compress(addresses))
	number("CPUs", int64(h.CPUs), -1)
	number("Boards", int64(h.Boards), 1)
	number("Sockets", int64(h.Sockets), -1)
	number("CoresPerSocket", int64(h.CoresPerSocket), -1)
	number("ThreadsPerCore", int64(h.ThreadsPerCore), -1)
	number("RealMemory", h.RealMemory, 1)
	number("TmpDisk", h.TmpDisk, 0)
	number("CoreSpecCount", int64(h.CoreSpecCount), 0)
	number("MemSpecLimit", h.MemSpecLimit, 0)
	number("Weight", int64(h.Weight), 1)
	if len(h.Features) > 0 {
		add("Feature", strings.Join(h.Features, ","))
	}
	for _, key := range []string{"CPUSpecList", "CpuBind", "Gres", "RestrictedCoresPerGPU", "Topology", "TRESWeights"} {
		v, ok := l.get(key)
		ok = ok && a.knowsAttribute("NodeName", key)
		if key == "TRESWeights" {
			v = a.weights("NodeName="+s.Value, key, v, l.statement)
		}
		if ok && v != "" {
			add(key, v)
		}
	}
	state := a.nodeState(l, h.State)
	if state != "" {
		add("State", state)
		if reason, ok := l.get("Reason"); ok {
			add("Reason", reason)
		} else if state != "FUTURE" {
			add("Reason", "State="+h.State+" in slurm.conf")
		}
	}
	return s
}

// nodeState returns the state in which the nodes of a line start, and reports a change.
func (a *adapter) nodeState(l nodeLine, site string) string {
	state := a.startState(site)
	names := a.cluster.Nodes[l.first : l.first+l.count]
	for i := range names {
		if names[i].State == site { // no DownNodes line sets another state
			a.out.Nodes[l.first+i].State = state
		}
	}
	if state == site {
		if state == "FUTURE" {
			a.warn("%s", l.statement.warningf("NodeName=%s State=FUTURE: the nodes do not exist in the replay", l.statement.Value))
		}
		return state
	}
	reason := "with the site's ReturnToService=2 the node comes into service when it registers"
	to := state
	if site == "CLOUD" {
		reason, to = whyPower, "UNKNOWN"
		a.warn("%s", l.statement.warningf("NodeName=%s State=CLOUD: the nodes are always on; jobs never wait for them to boot", l.statement.Value))
	}
	from, _ := l.get("State")
	a.out.Changes = append(a.out.Changes, Change{Key: "NodeName=" + l.statement.Value + " State", From: from, To: to,
		Reason: reason, File: l.statement.File, Line: l.statement.Line})
	return state
}

// startState returns the state in which a node starts. A node that the site takes out of service
// stays out, unless ReturnToService=2 returns it to service when it registers.
func (a *adapter) startState(site string) string {
	switch {
	case site == "CLOUD":
		return ""
	case site == "DOWN" && a.cluster.is("ReturnToService", "2"):
		return ""
	}
	return site
}

// downNodes returns a DownNodes line, or "" for a line that Slurm ignores.
func (a *adapter) downNodes(s Statement, r *rule) string {
	written := "DOWN"
	if v, ok := s.Get("State"); ok {
		written = v
	}
	site, err := values.NodeState(written)
	if err != nil {
		a.record(s, r, "", "Slurm ignores it: no such state")
		return ""
	}
	state := a.startState(site)
	names, err := hostlist.Expand(s.Value)
	if err != nil {
		a.record(s, r, "", "Slurm ignores it: not a host list")
		return ""
	}
	for _, name := range names {
		if i, ok := a.cluster.Node(name); ok {
			a.out.Nodes[i].State = state
		}
	}
	if state != site {
		a.out.Changes = append(a.out.Changes, Change{Key: fmt.Sprintf("DownNodes=%s State", s.Value), From: written,
			To: state, Reason: "with the site's ReturnToService=2 the node comes into service when it registers", File: s.File, Line: s.Line})
	}
	if state == "" {
		return ""
	}
	reason, ok := s.Get("Reason")
	if !ok {
		reason = "DownNodes in slurm.conf"
	}
	return Statement{Key: "DownNodes", Value: s.Value, Attributes: []Attribute{{"State", state}, {"Reason", reason}}}.String()
}

// weights adapts the weights of an object's line.
func (a *adapter) weights(object, key, from string, s Statement) string {
	to := a.tresWeights(from)
	if to != from {
		a.out.Changes = append(a.out.Changes, Change{Key: object + " " + key, From: from, To: to, Reason: whyTRES, File: s.File, Line: s.Line})
	}
	return to
}

func (a *adapter) partition(s Statement, r *rule) string {
	s = canonical(s, grammarOf(r))
	for i, attribute := range s.Attributes {
		if attribute.Key == "TRESBillingWeights" {
			s.Attributes[i].Value = a.weights("PartitionName="+s.Value, attribute.Key, attribute.Value, s)
		}
	}
	s.Attributes = slices.DeleteFunc(s.Attributes, func(attribute Attribute) bool {
		return attribute.Key == "TRESBillingWeights" && attribute.Value == ""
	})
	s.Attributes = slices.DeleteFunc(s.Attributes, func(attribute Attribute) bool {
		reason, gone := sitePartitionAttributes[attribute.Key]
		if !gone && !a.out.Accounting && a.release.Since(slurmspec.R2511) && slices.Contains([]string{"AllowQos", "DenyQos", "QOS"}, attribute.Key) {
			reason, gone = "QOS need slurmdbd, and since 25.11 slurmctld refuses names of QOS that do not exist", true
		}
		if gone {
			a.out.Changes = append(a.out.Changes, Change{Key: "PartitionName=" + s.Value + " " + attribute.Key,
				From: attribute.Value, Reason: reason, File: s.File, Line: s.Line})
		}
		return gone
	})
	return s.String()
}
