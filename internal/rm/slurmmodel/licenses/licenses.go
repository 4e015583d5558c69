// Package licenses counts the local licences of a cluster that jobs hold (src/slurmctld/licenses.c).
package licenses

import (
	"slices"
	"strconv"
	"strings"
)

// License is a number of licences of one name.
type License struct {
	Name  string
	Count int
}

// Request is what a job asks for: all licences of the list, or with Any the first of them that are free.
type Request struct {
	List []License
	Any  bool
}

// Read reads Licenses of slurm.conf or --licenses: "matlab:2,ansys". Jobs of newer releases may name
// alternatives: "matlab:2|octave". A number that cannot be read counts as 1, because slurmctld refuses such a list.
func Read(text string) (r Request) {
	r.Any = strings.Contains(text, "|")
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(",;|", c) }) {
		one := License{Name: word, Count: 1}
		if at := strings.IndexAny(word, ":="); at >= 0 {
			one.Name = word[:at]
			if n, err := strconv.Atoi(word[at+1:]); err == nil {
				one.Count = n
			}
		}
		if at := slices.IndexFunc(r.List, func(l License) bool { return l.Name == one.Name }); at >= 0 {
			r.List[at].Count += one.Count
			continue
		}
		r.List = append(r.List, one)
	}
	return r
}

// Pool are the licences of a cluster.
type Pool struct {
	total, used map[string]int
}

// New returns the licences of slurm.conf, which nobody holds.
func New(text string) *Pool {
	p := &Pool{total: map[string]int{}, used: map[string]int{}}
	for _, l := range Read(text).List {
		p.total[l.Name] += l.Count
	}
	return p
}

// Choose returns the licences that a job gets now, and whether they are free (license_job_test). A job that asks
// for none always gets them.
func (p *Pool) Choose(r Request) (list []License, ok bool) {
	free := func(l License) bool { return p.used[l.Name]+l.Count <= p.total[l.Name] }
	if !r.Any {
		return r.List, !slices.ContainsFunc(r.List, func(l License) bool { return !free(l) })
	}
	if at := slices.IndexFunc(r.List, free); at >= 0 {
		return r.List[at : at+1], true
	}
	return nil, len(r.List) == 0
}

// Free reports whether the licences that a job asks for are free.
func (p *Pool) Free(r Request) bool {
	_, free := p.Choose(r)
	return free
}

// Take gives licences to a job (license_job_get).
func (p *Pool) Take(list []License) {
	for _, l := range list {
		p.used[l.Name] += l.Count
	}
}

// Return takes the licences of a job back (license_job_return).
func (p *Pool) Return(list []License) {
	for _, l := range list {
		p.used[l.Name] -= l.Count
	}
}
