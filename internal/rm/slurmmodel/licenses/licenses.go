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

// Request is what a job asks for: all licences of List or, with Any, the first that is free.
type Request struct {
	List []License
	Any  bool
}

// Read reads a list of licences such as "matlab:2,ansys" from Licenses in slurm.conf or --licenses. In newer releases
// jobs may give alternatives, such as "matlab:2|octave". A number that cannot be read counts as 1. The value 1 does not
// matter, because slurmctld refuses such a list.
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

// Names reports whether the job asks for a licence of the list (license_list_overlap).
func (r Request) Names(list []License) bool {
	return slices.ContainsFunc(list, func(l License) bool {
		return slices.ContainsFunc(r.List, func(own License) bool { return own.Name == l.Name })
	})
}

// Pool counts the licences of a cluster.
type Pool struct {
	total, used map[string]int
}

// New reads Licenses of slurm.conf and returns a pool in which all licences are free.
func New(text string) *Pool {
	p := &Pool{total: map[string]int{}, used: map[string]int{}}
	for _, l := range Read(text).List {
		p.total[l.Name] += l.Count
	}
	return p
}

// Choose returns the licences that a job would get now, and whether they are free
// (license_job_test). An empty request is always free.
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

// Return frees the licences of a job (license_job_return).
func (p *Pool) Return(list []License) {
	for _, l := range list {
		p.used[l.Name] -= l.Count
	}
}
