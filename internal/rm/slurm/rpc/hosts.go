package rpc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxHosts bounds how many names a host list may stand for: Slurm's own limit for one
// range (MAX_RANGE in hostlist.c) is 64 Ki.
const maxHosts = 1 << 16

// expandHosts gives the names that a host list stands for, sorted, each once, as
// hostlist_uniq does.
func expandHosts(list string) ([]string, error) {
	var all []string
	for list != "" {
		term, rest, err := cutTerm(list)
		if err != nil {
			return nil, err
		}
		list = rest
		if term == "" {
			continue
		}
		names, err := expandTerm(term)
		if err != nil {
			return nil, err
		}
		if all = append(all, names...); len(all) > maxHosts {
			return nil, fmt.Errorf("more than %d hosts", maxHosts)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no host is named")
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// cutTerm cuts a host list at its first comma outside brackets.
func cutTerm(list string) (term, rest string, err error) {
	inside := false
	for i := range len(list) {
		switch c := list[i]; {
		case c == '[' && !inside:
			inside = true
		case c == ']' && inside:
			inside = false
		case c == '[' || c == ']':
			return "", "", errors.New("the brackets do not match")
		case c == ',' && !inside:
			return list[:i], list[i+1:], nil
		}
	}
	if inside {
		return "", "", errors.New("the brackets do not match")
	}
	return list, "", nil
}

// Bounds on one term, so that a hostile list cannot take more memory than its hosts
// would: the length of the text around brackets, the number of brackets, and the digits of
// a number.
const (
	maxHostText = 255
	maxBrackets = 8
	maxDigits   = 18
)

// expandTerm expands "pre[1-3,7]mid[01-10]suf".
func expandTerm(term string) ([]string, error) {
	if strings.Count(term, "[") > maxBrackets {
		return nil, fmt.Errorf("more than %d brackets in one name", maxBrackets)
	}
	open := strings.IndexByte(term, '[')
	if open > maxHostText || open < 0 && len(term) > maxHostText {
		return nil, fmt.Errorf("a name is longer than %d characters", maxHostText)
	}
	if open < 0 {
		return []string{term}, nil
	}
	prefix, rest := term[:open], term[open+1:]
	shut := strings.IndexByte(rest, ']')
	if shut < 0 {
		return nil, errors.New("the brackets do not match")
	}
	tails, err := expandTerm(rest[shut+1:])
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range strings.Split(rest[:shut], ",") {
		lowText, highText, ranged := strings.Cut(r, "-")
		if !ranged {
			highText = lowText
		}
		if len(lowText) > maxDigits {
			return nil, fmt.Errorf("%q is no range of hosts", r)
		}
		low, err1 := strconv.ParseUint(lowText, 10, 63)
		high, err2 := strconv.ParseUint(highText, 10, 63)
		if err1 != nil || err2 != nil || high < low {
			return nil, fmt.Errorf("%q is no range of hosts", r)
		}
		if high-low >= maxHosts || (int(high-low)+1)*len(tails)+len(names) > maxHosts {
			return nil, fmt.Errorf("%q: more than %d hosts", r, maxHosts)
		}
		for n := low; n <= high; n++ {
			head := fmt.Sprintf("%s%0*d", prefix, len(lowText), n)
			for _, tail := range tails {
				names = append(names, head+tail)
			}
		}
	}
	return names, nil
}
