package conf

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/rm/slurm/conf/values"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// translation rewrites a site's slurm.conf for another release. It changes only text that the
// release would refuse, ignore or misread. Changes that a replay needs are made elsewhere.
type translation struct {
	a *adapter
	// findings are the changes that the site itself must make for the release.
	findings []Change
	// moved are options of PreemptParameters that the release reads from other keys. The keys of the map are these other
	// keys.
	moved map[string][]string
	out   []Statement
}

// translate replaces the cluster by a copy with statements that the release understands.
func (a *adapter) translate() {
	t := &translation{a: a, moved: make(map[string][]string)}
	for _, s := range a.cluster.Statements {
		t.statement(s)
	}
	t.topology()
	t.append("SchedulerParameters")
	t.append("SlurmctldParameters")
	t.defaults()
	t.refusals()
	translated := *a.cluster
	translated.Statements = t.out
	a.cluster = &translated
	a.out.Upgrade = append(a.out.Upgrade, t.findings...)
	a.out.SelectType, _ = translated.Get("SelectType")
}

// find adds a finding. The parameters from and to are the old and the new value; if to is empty, the key must be
// removed.
func (t *translation) find(s Statement, key, from, to, reason string) {
	t.findings = append(t.findings, Change{Key: key, From: from, To: to, Reason: reason, File: s.File, Line: s.Line})
}

func (t *translation) statement(s Statement) {
	r := rulesByKey[strings.ToLower(s.Key)]
	release := t.a.release
	switch {
	case r == nil: // impossible: the parser has refused it
	case !r.known.Includes(release):
		t.find(s, r.key, shown(r, s.Value), "", unknownTo(release, r.key, r.known))
		t.missing(s, r)
	case history.Defunct[r.key] != slurmspec.Release{} && release.Since(history.Defunct[r.key]):
		t.find(s, r.key, shown(r, s.Value), "", fmt.Sprintf("ignored since %s", history.Defunct[r.key]))
	case r.attributes != nil:
		s = t.attributes(s, r)
	default:
		s = t.value(s, r)
	}
	t.out = append(t.out, s)
}

// shown returns a value for a report, without passwords.
func shown(r *rule, value string) string {
	if r.secret {
		return hidden
	}
	return value
}

// missing handles a key that the release does not know. The adaptation drops it. If the release reads some of the key's
// options from another key, missing moves these options there. missing warns of a loss that changes scheduling.
func (t *translation) missing(s Statement, r *rule) {
	switch r.key {
	case "PreemptParameters":
		t.preemptParameters(s)
	case "MaxBatchRequeue":
		if s.Value != "5" {
			t.a.warn("%s", s.warningf("MaxBatchRequeue=%s: %s holds a batch job after 5 requeues", s.Value, t.a.release.Series()))
		}
	case "LicenseParameters":
		t.a.warn("%s", s.warningf("LicenseParameters=%s: unknown to %s: jobs must give the exact names of remote licences", s.Value, t.a.release.Series()))
	}
}

func (t *translation) preemptParameters(s Statement) {
	for _, option := range syntax.List(s.Value) {
		if key := history.PreemptOptions[history.OptionName(option)]; key != "" {
			t.moved[key] = append(t.moved[key], "preempt_"+option)
		} else {
			t.a.warn("%s", s.warningf("PreemptParameters=%s: %s has no such option, so it has no effect", option, t.a.release.Series()))
		}
	}
}

// append adds the moved options to the last statement of a key.
func (t *translation) append(key string) {
	options := t.moved[key]
	if len(options) == 0 {
		return
	}
	s := Statement{Key: key}
	for i, old := range slices.Backward(t.out) {
		if strings.EqualFold(old.Key, key) {
			s = old
			t.out = slices.Delete(t.out, i, i+1)
			break
		}
	}
	from := s.Value
	s.Value = strings.Join(append(syntax.List(s.Value), options...), ",")
	t.out = append(t.out, s)
	t.change(s, key, from, s.Value, "the options of PreemptParameters, where "+t.a.release.Series().String()+" reads them")
}

// change records a change of a key that the replay keeps.
func (t *translation) change(s Statement, key, from, to, reason string) {
	t.a.out.Changes = append(t.a.out.Changes, Change{Key: key, From: from, To: to, Reason: reason, File: s.File, Line: s.Line})
	t.a.translated[key] = true
}

// value translates the value of a key that stands alone on its line.
func (t *translation) value(s Statement, r *rule) Statement {
	to, reasons := s.Value, []string(nil)
	if list, ok := history.Options[r.key]; ok {
		to, reasons = t.options(s, r.key, r.action == keep, list)
	} else if life, ok := history.Plugins[strings.ToLower(s.Value)]; ok && !life.Includes(t.a.release) {
		reasons = []string{unknownTo(t.a.release, s.Value, life.Lifetime)}
		to = life.Instead
		if to == "" && r.plugin != "" {
			t.a.errs = append(t.a.errs, s.errorf("%s=%s: %s", r.key, s.Value, reasons[0]))
		}
	}
	if to == s.Value {
		return s
	}
	reason := strings.Join(reasons, "; ")
	t.find(s, r.key, s.Value, to, reason)
	if r.action == keep {
		t.change(s, r.key, s.Value, to, reason)
		s.Value = to
	}
	return s
}

// options splits a list into the options that the release knows, and the reasons for leaving out all others. If
// effective is set, options warns about changes of scheduling.
func (t *translation) options(s Statement, key string, effective bool, list history.OptionList) (to string, reasons []string) {
	var kept []string
	release := t.a.release
	for _, option := range syntax.List(s.Value) {
		life, ok := list.Some[history.OptionName(option)]
		switch {
		case !ok || life.Includes(release):
			kept = append(kept, option)
		default:
			verdict := "ignores it"
			if list.Refused || life.Refused {
				verdict = "refuses it"
			}
			reasons = append(reasons, fmt.Sprintf("%s: %s; slurmctld %s %s", option, life.Absence(release), release.Series(), verdict))
			if life.Instead != "" {
				kept = append(kept, replaceName(option, life.Instead))
			}
			if life.Effect != "" && effective {
				t.a.warn("%s", s.warningf("%s=%s: unknown to %s: %s", key, option, release.Series(), life.Effect))
			}
		}
	}
	if reasons == nil {
		return s.Value, nil
	}
	return strings.Join(kept, ","), reasons
}

// replaceName replaces the name of an option and keeps its value.
func replaceName(option, name string) string {
	if _, value, ok := strings.Cut(option, "="); ok {
		return name + "=" + value
	}
	return name
}

// hosts translates a host list of a line. slurmctld before 23.11 accepts no text after a name's last bracket.
func (t *translation) hosts(s Statement, key, list string) string {
	to := values.HostList(list, t.a.release)
	if to != list {
		reason := t.a.release.Series().String() + " does not read a name with text behind its brackets (new in 23.11)"
		t.find(s, key, list, to, reason)
		t.change(s, key, list, to, reason)
	}
	return to
}

// attributes translates the line of an object.
func (t *translation) attributes(s Statement, r *rule) Statement {
	if r.key == "NodeName" || r.key == "DownNodes" {
		s.Value = t.hosts(s, r.key, s.Value)
	}
	kept := make([]Attribute, 0, len(s.Attributes))
	for _, attribute := range s.Attributes {
		key := r.attributes.Canonical(attribute.Key)
		life, ok := history.Attributes[r.key+" "+key]
		switch {
		case r.key == "PartitionName" && (key == "SelectTypeParameters" || key == "PreemptMode"):
			kept = append(kept, t.partitionOptions(s, key, attribute.Value)...)
		case key == "Nodes":
			kept = append(kept, Attribute{key, t.hosts(s, r.key+"="+s.Value+" Nodes", attribute.Value)})
		case !ok || life.Includes(t.a.release):
			kept = append(kept, attribute)
		default:
			instead, value, effect := values.Instead(key, attribute.Value, t.a.release)
			object := r.key + "=" + s.Value + " " + key
			reason := unknownTo(t.a.release, key, life)
			to := ""
			if instead != "" {
				kept = append(kept, Attribute{instead, value})
				to = instead + "=" + value
			}
			t.find(s, object, attribute.Value, to, reason)
			t.change(s, object, attribute.Value, to, reason)
			if effect != "" {
				t.a.warn("%s", s.warningf("%s=%s: unknown to %s: %s", object, attribute.Value, t.a.release.Series(), effect))
			}
		}
	}
	s.Attributes = kept
	return s
}

// partitionOptions translates a partition's attribute that has the same options as a key of slurm.conf.
func (t *translation) partitionOptions(s Statement, key, from string) []Attribute {
	object := "PartitionName=" + s.Value + " " + key
	to, reasons := t.options(Statement{File: s.File, Line: s.Line, Value: from}, object, true, history.Options[key])
	if to != from {
		reason := strings.Join(reasons, "; ")
		t.find(s, object, from, to, reason)
		t.change(s, object, from, to, reason)
	}
	if to == "" {
		return nil
	}
	return []Attribute{{key, to}}
}

// refusals reports the values that keep slurmctld of the release from starting. For a repeated key, refusals checks the
// last value.
func (t *translation) refusals() {
	translated := Cluster{Statements: t.out}
	refuse := func(s Statement, key, value string, err error) {
		if err != nil {
			t.a.errs = append(t.a.errs, s.errorf("%s=%s: %w", key, value, err))
		}
	}
	seen := make(map[string]bool)
	for _, s := range slices.Backward(t.out) {
		r := t.a.rule(s.Key)
		if r == nil || r.action == drop || r.attributes == nil && seen[r.key] {
			continue
		}
		seen[r.key] = true
		refuse(s, r.key, s.Value, values.Check(r.key, s.Value))
		for _, attribute := range s.Attributes {
			if r.key == "PartitionName" {
				key := r.attributes.Canonical(attribute.Key)
				refuse(s, "PartitionName="+s.Value+" "+key, attribute.Value, values.CheckPartition(key, attribute.Value))
			}
		}
	}
	if len(t.a.errs) > 0 {
		return
	}
	for _, refusal := range values.Together(translated.Get, t.a.release) {
		s, _ := translated.statement(refusal.Key)
		refuse(s, refusal.Key, s.Value, refusal.Err)
	}
}

// defaults handles keys that the site does not set and whose defaults differ between releases. It
// sets each of them to the default of the site's release. If the configuration does not show the
// site's release, defaults uses the run's release.
func (t *translation) defaults() {
	from, to := t.a.cluster.Releases()
	for _, d := range history.Defaults {
		if _, set := t.a.cluster.Get(d.Key); set {
			continue
		}
		value := d.At(t.a.release, from, to)
		reason := fmt.Sprintf("the default since %s; before, it was %s", d.Since, d.Before)
		if value == d.Before {
			reason = fmt.Sprintf("the default before %s; since then, it is %s", d.Since, d.After)
		}
		switch {
		case d.In(from) != d.In(to):
			reason += "; the configuration does not tell which release the site runs"
		case value != d.In(t.a.release):
			reason = fmt.Sprintf("the default of the site's release; the default of %s is %s: %s", t.a.release.Series(), d.In(t.a.release), d.Effect)
			t.find(Statement{}, d.Key, "", value, reason)
		}
		t.out = append(t.out, Statement{Key: d.Key, Value: value})
		t.change(Statement{}, d.Key, "", value, reason)
	}
}
