package associations

import (
	"slices"
	"strings"
)

// Setting is a value that a command for sacctmgr gives to an option of a QOS, an account, a user
// or a cluster.
type Setting struct {
	// Object is "qos high", "account physics", "user ada in physics", "user ada in physics on long" (a partition) or
	// "cluster vale". A command may change a user in all accounts: "user ada".
	Object string
	// Option is in lower case; "" if the command adds the object.
	Option string
	Value  string
}

// Settings returns what the commands of a file set, in the order of the commands. If commands set
// an option repeatedly, the last value counts; changes of a list (preempt+=low) are applied to the
// list. Commands that cannot be read are left out: [Read] reports their mistakes.
func Settings(commands []byte) []Setting {
	s := settings{at: map[Setting]int{}}
	for line := range strings.Lines(string(commands)) {
		text := strings.TrimSpace(line)
		if text == "" || text[0] == '#' {
			continue
		}
		words, err := split(text)
		if err != nil {
			continue
		}
		v, err := verbOf(words[0])
		if err != nil || !v.changes {
			continue
		}
		c, err := parseCommand(v, words)
		if err != nil || c.entity.options == nil || c.entity.name == "coordinator" {
			continue
		}
		for _, object := range c.objects() {
			s.apply(c, object)
		}
	}
	return s.list
}

// settings has settings in the order in which the commands make them. The map at has the index in the list for each
// option of each object.
type settings struct {
	list []Setting
	at   map[Setting]int
}

// objects returns the names of the objects that a command adds, changes or removes.
func (c *command) objects() (list []string) {
	for _, name := range c.list("names") {
		object := c.entity.name + " " + name
		accounts := c.list("accounts")
		if c.entity.name != "user" || len(accounts) == 0 {
			list = append(list, object)
			continue
		}
		on := ""
		if partitions := c.list("partitions"); len(partitions) > 0 {
			on = " on " + strings.Join(partitions, ",")
		}
		for _, account := range accounts {
			list = append(list, object+" in "+account+on)
		}
	}
	return list
}

// apply applies a command to the settings of an object.
func (s *settings) apply(c *command, object string) {
	if c.verb.name == "delete" {
		s.list = slices.DeleteFunc(s.list, func(o Setting) bool {
			return o.Object == object || strings.HasPrefix(o.Object, object+" in ") || strings.HasPrefix(o.Object, object+" on ")
		})
		clear(s.at)
		for i, o := range s.list {
			s.at[Setting{Object: o.Object, Option: o.Option}] = i
		}
		return
	}
	if c.verb.name == "add" {
		s.put(object, "", assignment{})
	}
	for _, a := range c.set {
		switch option, _, _ := c.entity.options.find(a.word); option {
		case "names", "clusters", "accounts", "partitions":
		default:
			s.put(object, option, a)
		}
	}
}

func (s *settings) put(object, option string, a assignment) {
	key := Setting{Object: object, Option: option}
	i, ok := s.at[key]
	if !ok {
		i, s.at[key] = len(s.list), len(s.list)
		s.list = append(s.list, key)
	}
	if a.sign != 0 {
		a.value = strings.Join(changed(splitLower(s.list[i].Value), a), ",")
	}
	s.list[i].Value = a.value
}
