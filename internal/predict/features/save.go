package features

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"rmreplay/internal/hpc"
)

// maxSaved is the maximum number of saved groups of each kind, so that a model's file stays below 20
// MB. The groups whose last job ended longest ago are left out.
const maxSaved = 40000

// maxKept is the number of groups of each kind that remain in memory after [History.forget]. When
// there are twice as many groups, the groups whose last job ended longest ago are removed.
const maxKept = 50000

// saved is the form in which a history is saved. Open jobs are left out, because their ends will
// not be reported.
type saved struct {
	Groups []savedGroup `json:"groups"`
	Users  []savedCrowd `json:"users"`
	All    group        `json:"all"`
	Past   []savedPast  `json:"past"`
}

// savedPast has a user's ended jobs.
type savedPast struct {
	User string `json:"u"`
	Jobs []past `json:"jobs"`
}

// maxSavedPast is the largest number of jobs that are saved one by one. The maximum keeps the file small. If there are
// more jobs, the jobs of the users whose last job ended longest ago are left out.
const maxSavedPast = 200000

type savedKey struct {
	Kind   uint8   `json:"k"`
	User   string  `json:"u,omitempty"`
	Name   string  `json:"n,omitempty"`
	Size   float64 `json:"p,omitempty"`
	Limit  float64 `json:"l,omitempty"`
	Manual string  `json:"m,omitempty"`
	Queue  string  `json:"q,omitempty"`
}

type savedGroup struct {
	Key   savedKey `json:"key"`
	Group group    `json:"group"`
}

type savedCrowd struct {
	Key     savedKey `json:"key"`
	Submit  hpc.Time `json:"submit"`
	Submits float64  `json:"submits"`
}

func (k key) saved() savedKey {
	return savedKey{k.kind, k.user, k.name, k.size, k.limit, k.manual, k.queue}
}

func (k savedKey) key() key {
	return key{k.Kind, k.User, k.Name, k.Size, k.Limit, k.Manual, k.Queue}
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.user, b.user), cmp.Compare(a.name, b.name),
		cmp.Compare(a.size, b.size),
		cmp.Compare(a.limit, b.limit), cmp.Compare(a.manual, b.manual), cmp.Compare(a.queue, b.queue))
}

// MarshalJSON writes the history. Equal histories give equal texts. MarshalJSON leaves out open jobs. If a kind has
// more than maxSaved groups, MarshalJSON leaves out the groups whose last job ended longest ago.
func (h *History) MarshalJSON() ([]byte, error) {
	s := saved{All: h.all}
	kept := h.latest(maxSaved)
	s.Past = h.savedPast(kept)
	// In this order the groups of one job are next to each other. The contents of neighbouring groups are similar, so the
	// compressed file is a third smaller than with groups sorted by name.
	for _, k := range kept {
		s.Groups = append(s.Groups, savedGroup{k.saved(), *h.groups[k]})
		if c := h.users[k]; c != nil {
			s.Users = append(s.Users, savedCrowd{k.saved(), c.Submit, c.Submits})
		}
	}
	return json.Marshal(s)
}

// latest returns the groups in descending order of their latest ends of jobs, with at most maxGroups
// groups of each kind.
func (h *History) latest(maxGroups int) (kept []key) {
	type named struct {
		key
		end hpc.Time
	}
	latest := make([]named, 0, len(h.groups))
	for k, g := range h.groups {
		latest = append(latest, named{k, g.End})
	}
	slices.SortFunc(latest, func(a, b named) int { return cmp.Or(cmp.Compare(b.end, a.end), compareKeys(a.key, b.key)) })
	var count [kinds]int
	for _, k := range latest {
		if count[k.kind]++; count[k.kind] <= maxGroups {
			kept = append(kept, k.key)
		}
	}
	return kept
}

// forget keeps only h.maxGroups groups of each kind, and only the data of these groups and of open jobs, so the memory
// of a service stays bounded, even if its users use ever new names.
func (h *History) forget() {
	groups := map[key]*group{}
	h.counts = [kinds]int{}
	for _, k := range h.latest(h.maxGroups) {
		groups[k] = h.groups[k]
		h.counts[k.kind]++
	}
	h.groups, h.places = groups, map[string]*place{}
	h.forgot++
	maps.DeleteFunc(h.users, func(k key, c *crowd) bool { return groups[k] == nil && c.waiting == 0 && c.count == 0 })
	maps.DeleteFunc(h.past, func(user string, _ *ended) bool { return groups[key{kind: ofUser, user: user}] == nil })
	h.maxCrowds = max(2*len(crowds)*h.maxGroups, 2*len(h.users))
}

// savedPast returns the ended jobs of the users that have a group in the list, in the order of the
// list.
func (h *History) savedPast(groups []key) (saved []savedPast) {
	room := maxSavedPast
	for _, k := range groups {
		if k.kind != ofUser {
			continue
		}
		var jobs []past
		if e := h.past[k.user]; e != nil {
			jobs = e.byEnd()
		}
		if room -= len(jobs); room < 0 {
			break
		}
		saved = append(saved, savedPast{k.user, jobs})
	}
	return saved
}

// UnmarshalJSON reads a history that MarshalJSON wrote.
func (h *History) UnmarshalJSON(text []byte) error {
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	*h = *New(h.target)
	h.all = s.All
	for _, g := range s.Groups {
		if g.Key.Kind >= kinds {
			return fmt.Errorf("a group has the kind %d (want at most %d)", g.Key.Kind, kinds-1)
		}
		h.group(g.Key.key(), &g.Group)
	}
	for _, c := range s.Users {
		h.users[c.Key.key()] = &crowd{Submit: c.Submit, Submits: c.Submits}
	}
	for _, p := range s.Past {
		e := new(ended)
		for _, job := range p.Jobs {
			if !(job.Seconds >= 0 && math.Abs(job.Size) <= 1000 && math.Abs(job.Limit) <= 1000) {
				return fmt.Errorf("an ended job of user %q has an impossible run time, size or limit", p.User)
			}
			e.add(&job.traits, job.Seconds)
		}
		if len(p.Jobs) > 0 {
			h.past[p.User] = e
		}
	}
	return nil
}
