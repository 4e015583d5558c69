package swf

import (
	"strconv"
	"strings"
)

// names maps names to their numbers in a log, and back.
type names struct {
	users, groups, executables, queues, partitions numberedNames
}

func newNames() *names {
	return &names{
		users: newNumberedNames("user"), groups: newNumberedNames("group"), executables: newNumberedNames("app"),
		queues: newNumberedNames("queue"), partitions: newNumberedNames("partition"),
	}
}

// comment reads a comment of the header such as "Queue: 1 express".
func (n *names) comment(key, value string) {
	table := map[string]*numberedNames{"Queue": &n.queues, "Partition": &n.partitions}[key]
	if table == nil {
		return
	}
	if words := strings.Fields(value); len(words) >= 2 {
		if number, err := strconv.ParseInt(words[0], 10, 31); err == nil && number >= 0 {
			table.set(number, words[1])
		}
	}
}

// numberedNames are the names of one kind. A number without a name gets a name from the prefix and
// the number.
type numberedNames struct {
	prefix   string
	byNumber map[int64]string
	byName   map[string]int64
	small    []string // names of small numbers that were already used
}

func newNumberedNames(prefix string) numberedNames {
	return numberedNames{prefix: prefix, byNumber: make(map[int64]string), byName: make(map[string]int64)}
}

// set gives a number a name, unless the number or the name is taken.
func (t *numberedNames) set(number int64, name string) {
	_, numberKnown := t.byNumber[number]
	_, nameKnown := t.byName[name]
	if !numberKnown && !nameKnown {
		t.byNumber[number], t.byName[name] = name, number
	}
}

// name returns the name of a number, or "" for a negative number, which means "unknown".
func (t *numberedNames) name(number int64) string {
	switch {
	case number < 0:
		return ""
	case number < int64(len(t.small)) && t.small[number] != "":
		return t.small[number]
	}
	name, ok := t.byNumber[number]
	if !ok {
		name = t.prefix + strconv.FormatInt(number, 10)
		t.set(number, name)
	}
	if number < 1<<16 {
		if grow := number + 1 - int64(len(t.small)); grow > 0 {
			t.small = append(t.small, make([]string, grow)...)
		}
		t.small[number] = name
	}
	return name
}

// number returns the number of a name, or -1 for the name "". The result ok is false if the name has no number.
func (t *numberedNames) number(name string) (number int64, ok bool) {
	if name == "" {
		return -1, true
	}
	if number, ok = t.byName[name]; ok {
		return number, true
	}
	digits, ok := strings.CutPrefix(name, t.prefix)
	number, err := strconv.ParseInt(digits, 10, 63)
	return number, ok && err == nil && number >= 0 && strconv.FormatInt(number, 10) == digits
}
