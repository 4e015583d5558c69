package admission

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc"
)

// feature is one name of a constraint, with its group, its operator and its count.
type feature struct {
	name string
	// group numbers the parentheses or brackets around the name; 0 for none. bracket is set in
	// brackets [], where the operators join counts or alternatives.
	group   int
	bracket bool
	op      byte // the operator after the name: '&' or '|', or 0 at the end
	count   int
}

var errConstraint = errors.New("malformed constraint")

// parseFeatures reads a constraint as slurmctld does (build_feature_list and _feature_string2list
// in job_scheduler.c): names with & or |, at most one level of parentheses, at most one pair of
// brackets, and counts.
func parseFeatures(text string) ([]feature, error) {
	text = strings.ReplaceAll(text, ",", "&")
	var list []feature
	var now feature // the name that is being read
	var paren, bracket, brackets bool
	groups, started := 0, -1
	add := func(op byte) error {
		if now.name == "" {
			return errConstraint
		}
		now.op = op
		list = append(list, now)
		now = feature{}
		return nil
	}
	end := func(i int) {
		if started >= 0 {
			now.name, now.bracket, started = text[started:i], bracket, -1
			if paren || bracket {
				now.group = groups
			}
		}
	}
	for i := 0; i < len(text); i++ {
		if strings.IndexByte("*&|[]()", text[i]) < 0 {
			if started < 0 {
				if now.name != "" {
					continue // slurmctld skips text after a count or a closing bracket
				}
				started = i
			}
			continue
		}
		end(i)
		switch at := text[i]; at {
		case '*':
			digits := i + 1
			for digits < len(text) && '0' <= text[digits] && text[digits] <= '9' {
				digits++
			}
			n, err := strconv.Atoi(text[i+1 : digits])
			if now.name == "" || err != nil || n <= 0 || paren {
				return nil, errConstraint
			}
			now.count, i = n, digits-1
		case '&', '|':
			if err := add(at); err != nil {
				return nil, err
			}
		case '[':
			if now.name != "" || brackets {
				return nil, errConstraint
			}
			bracket, brackets, groups = true, true, groups+1
		case ']':
			if now.name == "" || !bracket {
				return nil, errConstraint
			}
			bracket = false
		case '(':
			if now.name != "" || paren {
				return nil, errConstraint
			}
			paren, groups = true, groups+1
		case ')':
			if now.name == "" || !paren {
				return nil, errConstraint
			}
			paren = false
		}
	}
	end(len(text))
	if now.name != "" {
		_ = add(0)
	}
	if paren || bracket {
		return nil, errConstraint
	}
	return list, nil
}

// allFeatures checks that the constraint and the preferred features are well formed, and that the
// cluster has the features in them.
func (s *Site) allFeatures(j *rpc.JobDesc) *Finding {
	for _, f := range []struct {
		option, text string
		skip, prefer bool
	}{{"--constraint", j.Features, s.anyFeature, false}, {"--prefer", j.Prefer, s.anyPrefer, true}} {
		errno := errFeature
		if f.prefer {
			errno = errPrefer
		}
		if f.text == "" {
			continue
		}
		list, err := parseFeatures(f.text)
		if err != nil {
			return reject(errno, RuleFeatures, f.option+" is malformed: "+f.text, "correct the expression (sbatch(1), "+f.option+
				")")
		}
		for _, one := range list {
			if !s.features[one.name] && !f.skip {
				return reject(errno, RuleFeatures, "no node has the feature "+one.name,
					"add "+one.name+" to Features of nodes in slurm.conf, or take "+f.option+" out of the jobs")
			}
		}
	}
	return nil
}

// meets reports whether a node can meet a constraint. Operators apply from left to right, without
// precedence; a constraint with counts excludes no single node (valid_feature_counts).
func meets(list []feature, n *hpc.Node) bool {
	if slices.ContainsFunc(list, func(f feature) bool { return f.count > 0 }) {
		return true
	}
	total, op := true, byte('&')
	for i := 0; i < len(list); {
		end := i + 1
		for list[i].group > 0 && end < len(list) && list[end].group == list[i].group {
			end++
		}
		group := list[i:end]
		met := slices.Contains(n.Features, group[0].name)
		for k := 1; k < len(group); k++ {
			has := slices.Contains(n.Features, group[k].name)
			if group[k-1].op == '|' || group[k-1].bracket {
				met = met || has
			} else {
				met = met && has
			}
		}
		if op == '|' {
			total = total || met
		} else {
			total = total && met
		}
		op, i = group[len(group)-1].op, end
	}
	return total
}
