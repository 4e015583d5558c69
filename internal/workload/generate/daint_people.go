package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// people are the users of the machine, with their accounts and their activity.
type people struct {
	users    []person
	accounts []string
	activity []float64 // activity of each user
}

// person is a user. A person submits under one account and asks for few different time
// limits.
type person struct {
	name, account string
	uid, gid      int
	habits        []habit
}

// The numbers of people and accounts. A large centre has some hundred active users a day in
// fewer projects.
const (
	userCount    = 320
	accountCount = 84
	firstID      = 30001
)

// domains share the machine. Every account belongs to a domain.
var domains = []struct {
	name      string
	fairshare int
}{{"research", 60}, {"institutes", 25}, {"partners", 15}}

// newPeople invents people. Activity follows Zipf's law: the k-th user submits in proportion to
// 1/k^0.9.
func newPeople(rng *rand.Rand) *people {
	p := &people{}
	for i := range accountCount {
		p.accounts = append(p.accounts, fmt.Sprintf("p%03d", i+1))
	}
	rank := rng.Perm(userCount)
	for i := range userCount {
		account := i
		if i >= accountCount { // so that every account has a user
			account = int(float64(accountCount) * math.Pow(rng.Float64(), 1.6))
		}
		p.users = append(p.users, person{
			name: fmt.Sprintf("u%04d", i+1), account: p.accounts[account],
			uid: firstID + i, gid: firstID + account, habits: someHabits(rng, 3),
		})
		p.activity = append(p.activity, math.Pow(float64(rank[i]+1), -0.9))
	}
	return p
}

func someHabits(rng *rand.Rand, n int) []habit {
	weights := make([]float64, len(habits))
	for i, h := range habits {
		weights[i] = h.share
	}
	list := make([]habit, n)
	for i := range list {
		list[i] = habits[pick(rng, weights)]
	}
	return list
}

func (p *people) someone(rng *rand.Rand) *person { return &p.users[pick(rng, p.activity)] }

// limit returns the time limit that the person requests for a job that needs the given time:
// mostly one of the person's own limits, otherwise any common limit.
func (p *person) limit(rng *rand.Rand, need, longest time.Duration) time.Duration {
	own := rng.Float64() < 0.75
	for _, from := range [][]habit{p.habits, habits} {
		var fits []habit
		var weights []float64
		for _, h := range from {
			if h.limit >= need && h.limit <= longest {
				fits, weights = append(fits, h), append(weights, h.share)
			}
		}
		if len(fits) > 0 && (own || len(from) == len(habits)) {
			return fits[pick(rng, weights)].limit
		}
	}
	return longest
}

// usage returns the users' fair-share usage when the window begins: a week of the whole machine,
// divided among the users by their activity.
func (p *people) usage() []hpc.Usage {
	const week = 7 * 86400 * (gpuNodes*gpuNodeCPUs + mcNodes*mcNodeCPUs)
	total := 0.0
	for _, a := range p.activity {
		total += a
	}
	list := make([]hpc.Usage, len(p.users))
	for i, u := range p.users {
		list[i] = hpc.Usage{Account: u.account, User: u.name, Raw: math.Round(week * p.activity[i] / total)}
	}
	return list
}

// usersFile returns the users file of the cluster directory.
func (p *people) usersFile() string {
	var b strings.Builder
	b.WriteString("# name:uid:group:gid\n")
	for _, u := range p.users {
		fmt.Fprintf(&b, "%s:%d:%s:%d\n", u.name, u.uid, u.account, u.gid)
	}
	return b.String()
}

// accountsFile returns commands for sacctmgr. It has no comments, because sacctmgr exits with 1
// after a comment.
func (p *people) accountsFile() string {
	var b strings.Builder
	b.WriteString("modify qos where name=normal set priority=100\n")
	b.WriteString("add cluster name=daint fairshare=1 qos=normal\n")
	for _, d := range domains {
		fmt.Fprintf(&b, "add account name=%s description=%s organization=daint fairshare=%d\n", d.name, d.name, d.fairshare)
	}
	for i, a := range p.accounts {
		fmt.Fprintf(&b, "add account name=%s parent=%s description=%s organization=daint fairshare=%d\n",
			a, domains[i%len(domains)].name, a, 1+(i*7)%20)
	}
	for _, u := range p.users {
		fmt.Fprintf(&b, "add user name=%s account=%s defaultaccount=%s fairshare=1\n", u.name, u.account, u.account)
	}
	return b.String()
}
