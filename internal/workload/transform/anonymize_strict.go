package transform

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// Further kinds of names, in addition to the kinds of [Anonymizer.Step].
const (
	kindCluster = "cluster"
	kindWord    = "xword"
)

// collectNames notes all names that will be replaced. It does so before the first replacement,
// because [Anonymizer.scrub] needs all names.
func (a *Anonymizer) collectNames(w *workload.Workload, users []hpc.User) error {
	note := func(kind string, names ...string) {
		for _, list := range names {
			for name := range strings.SplitSeq(list, ",") {
				if name = strings.TrimLeft(name, "+-"); name != "" {
					a.note(kind, name)
				}
			}
		}
	}
	for _, job := range w.Jobs.All() {
		note(kindUser, job.User)
		note(kindGroup, job.Group)
		note(kindAccount, job.Account)
		note(kindWCKey, job.WCKey)
		note(kindMCS, job.MCSLabel)
		note(kindReservation, job.Reservation)
		if job.Name != "" {
			a.note(kindJobName, job.Name)
		}
	}
	for _, u := range append(slices.Clone(w.Users), users...) {
		note(kindUser, u.Name)
		note(kindGroup, append([]string{u.Group}, u.Groups...)...)
	}
	for _, u := range w.Usage {
		note(kindAccount, u.Account)
		note(kindUser, u.User)
	}
	for i := range w.Reservations {
		r := &w.Reservations[i]
		note(kindReservation, r.Name)
		note(kindUser, r.Users...)
		note(kindAccount, r.Accounts...)
	}
	if w.Completion != nil {
		for _, f := range w.Completion.Fields {
			a.rule(f.Field, f.Rule)
		}
	}
	note(kindCluster, strings.ToLower(a.with.Cluster))
	delete(a.originals, "root")
	_, err := a.accounts(string(a.with.Accounts))
	clear(a.scrubbed) // scrub did not have all names yet
	clear(a.shared)
	return err
}

// eachWord replaces the words of a text.
func eachWord(text string, replace func(word string) string) string {
	var out strings.Builder
	start := -1
	flush := func(end int) {
		if start >= 0 {
			out.WriteString(replace(text[start:end]))
			start = -1
		}
	}
	for i, r := range text {
		if isNameRune(r) {
			if start < 0 {
				start = i
			}
			continue
		}
		flush(i)
		out.WriteRune(r)
	}
	flush(len(text))
	return out.String()
}

// scrub replaces the words of a text that contain a replaced name, if the anonymizer is strict. The text has names
// of partitions, QOS, features, licenses, generic resources or file systems. Slurm's own words stay. A word gets the
// same replacement everywhere.
func (a *Anonymizer) scrub(text string) string { return eachWord(text, a.scrubWord) }

func (a *Anonymizer) scrubWord(word string) string {
	if known, ok := a.scrubbed[word]; ok {
		return known
	}
	replacement := word
	switch {
	case a.replaced[word]:
	case a.named(word) && (ours(word) || a.allowed(word)):
		a.shared[word] = true
	case a.with.Strict && a.contained(word, true) != "":
		replacement = a.replacement(kindWord, word)
	}
	a.scrubbed[word] = replacement
	return replacement
}

// keep returns a text of Slurm's own words unchanged: plugins, options, states and numbers. It notes the words that
// are also replaced names.
func (a *Anonymizer) keep(text string) string {
	return eachWord(text, func(word string) string {
		if a.named(word) {
			a.shared[word] = true
		}
		return word
	})
}

// made replaces the names in the fields that rules made: see [hpc.Job.Made].
func (a *Anonymizer) made(text string) string {
	if text == "" {
		return ""
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		field, rule, _ := strings.Cut(part, "=")
		rule = a.rule(workload.Field(field), strings.ReplaceAll(rule, "+", ","))
		parts[i] = field + "=" + strings.ReplaceAll(rule, ",", "+")
	}
	return strings.Join(parts, ",")
}

// ruleNames are the rules of the fields that can also have names for rules.
var ruleNames = map[workload.Field][]string{
	workload.FieldPartition: {"fitting"}, workload.FieldUser: {"bursts", "like"},
	workload.FieldAccount: {"users"}, workload.FieldQOS: {"fitting"},
}

// rule replaces the names in the rule of a field, which is the name of a rule, NAME or a list of NAME:WEIGHT.
func (a *Anonymizer) rule(field workload.Field, rule string) string {
	replace := a.scrub
	switch {
	case slices.Contains(ruleNames[field], rule):
		return rule
	case field == workload.FieldUser:
		replace = func(name string) string { return a.word(kindUser, name) }
	case field == workload.FieldAccount:
		replace = func(name string) string { return a.word(kindAccount, name) }
	case field != workload.FieldPartition && field != workload.FieldQOS:
		return rule
	}
	list := strings.Split(rule, ",")
	for i, part := range list {
		name, weight, weighted := strings.Cut(part, ":")
		if list[i] = replace(name); weighted {
			list[i] += ":" + weight
		}
	}
	return strings.Join(list, ",")
}

// Found is a word that contains a replaced name.
type Found struct {
	Word string `json:"word"`
	// Name is the original name, and Kind says what has it: "user", "job", "account".
	Name string `json:"name"`
	Kind string `json:"kind"`
	// New is the word's replacement; "" if the word stays.
	New string `json:"new,omitempty"`
}

// Renamed returns the words that would normally stay, but were replaced because they contain a
// name.
func (a *Anonymizer) Renamed() []Found {
	return a.found(func(word, replacement string) bool { return word != replacement })
}

// Remaining returns the names of partitions, QOS, features, licenses, generic resources and file systems that stay
// although they contain a replaced name.
func (a *Anonymizer) Remaining() []Found {
	return a.found(func(word, replacement string) bool { return word == replacement && !a.replaced[word] })
}

func (a *Anonymizer) found(want func(word, replacement string) bool) (list []Found) {
	for word, replacement := range a.scrubbed {
		if !want(word, replacement) || a.shared[word] {
			continue
		}
		name := a.contained(word, true)
		if name == "" {
			continue
		}
		f := Found{Word: word, Name: a.index[name].name, Kind: a.index[name].kind}
		if f.Kind == kindJobName {
			f.Kind = "job"
		}
		if word != replacement {
			f.New = replacement
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(x, y Found) int { return strings.Compare(x.Word, y.Word) })
	return list
}

// Shared returns the words of Slurm that stay and are also replaced names. Nobody can tell whether a word that is also
// a name stands for the name.
func (a *Anonymizer) Shared() []string { return sortedKeys(a.shared) }

// LeftOut returns the keys and attributes of the cluster's files that were left out.
func (a *Anonymizer) LeftOut() []string { return sortedKeys(a.leftOut) }

// Replaced returns how many names were replaced.
func (a *Anonymizer) Replaced() int { return len(a.originals) }

// The lengths from which a name is also found within a longer word: shorter names occur in words by chance. Names
// of jobs, reservations and nodes are often common words.
const (
	longName   = 6
	longPerson = 3 // for users, groups, accounts, WCKeys, MCS labels and the cluster
)

func longFrom(kind string) int {
	switch kind {
	case kindUser, kindGroup, kindAccount, kindWCKey, kindMCS, kindCluster:
		return longPerson
	}
	return longName
}

// indexed is what the index has about a name.
type indexed struct {
	name string // in its original spelling
	kind string
	long int  // the length from which the name is found within a longer word
	ours bool // it is also a word of Slurm, or allowed, and is not searched
}

// unit finds a quantity with a unit, which contains no name.
var unit = regexp.MustCompile(`^[0-9.]+[kmgtpKMGTP]?[iI]?[bB]?$`)

// contained returns the longest replaced name that a word contains, in lower case: the name may be the whole word, a
// part between digits and punctuation, or, if the name is long, any part. isName says that the word is itself a name
// and not, for example, an option. Then shorter names of people and projects are found, too.
func (a *Anonymizer) contained(word string, isName bool) (found string) {
	if unit.MatchString(word) {
		return ""
	}
	a.indexOriginals()
	word = strings.ToLower(word)
	see := func(part string, within bool) {
		if len(part) <= max(1, len(found)) {
			return
		}
		known, ok := a.index[part]
		if ok && !known.ours && (!within || len(part) >= longName || isName && len(part) >= known.long) {
			found = part
		}
	}
	see(word, false)
	for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return r < 'a' || r > 'z' && r < 128 }) {
		see(part, false)
	}
	for _, n := range a.lengths {
		for i := 0; i+n <= len(word); i++ {
			see(word[i:i+n], true)
		}
	}
	return found
}

// named reports whether a word is a replaced name.
func (a *Anonymizer) named(word string) bool {
	a.indexOriginals()
	_, ok := a.index[strings.ToLower(word)]
	return ok
}

func (a *Anonymizer) allowed(word string) bool {
	return slices.ContainsFunc(a.with.Allow, func(n string) bool { return strings.EqualFold(n, word) })
}

// indexOriginals prepares the data that [Anonymizer.contained] searches.
func (a *Anonymizer) indexOriginals() {
	if a.index != nil && a.counted == len(a.originals) {
		return
	}
	a.index, a.lengths, a.counted = map[string]indexed{}, nil, len(a.originals)
	seen := map[int]bool{}
	for _, original := range sortedKeys(a.originals) {
		name, kind := strings.ToLower(original), a.originals[original]
		if strings.Trim(name, "0123456789") == "" {
			continue // a number is not a name
		}
		known, again := a.index[name]
		if again && known.long <= longFrom(kind) {
			continue
		}
		known = indexed{original, kind, longFrom(kind), ours(name) || a.allowed(name)}
		a.index[name] = known
		if n := len(name); n >= known.long && !known.ours && !seen[n] {
			seen[n] = true
			a.lengths = append(a.lengths, n)
		}
	}
}

// completion returns a completion without names. The error says that a host list is wrong.
func (a *Anonymizer) completion(c *workload.Completion) (*workload.Completion, error) {
	out := *c
	var err error
	out.Fields = slices.Clone(c.Fields)
	for i := range out.Fields {
		out.Fields[i].Rule = a.rule(out.Fields[i].Field, out.Fields[i].Rule)
	}
	out.Site.Partitions = slices.Clone(c.Site.Partitions)
	for i := range out.Site.Partitions {
		p := &out.Site.Partitions[i]
		p.Name = a.scrub(p.Name)
		if p.NodeList, err = a.nodes(p.NodeList); err != nil {
			return nil, err
		}
		p.QOS = slices.Clone(p.QOS)
		for k := range p.QOS {
			p.QOS[k] = a.scrub(p.QOS[k])
		}
	}
	out.Site.QOS = slices.Clone(c.Site.QOS)
	for i := range out.Site.QOS {
		out.Site.QOS[i].Name = a.scrub(out.Site.QOS[i].Name)
	}
	if c.Like != nil {
		like := *c.Like
		like.Source = "anonymous"
		out.Like = &like
	}
	return &out, nil
}

// Remainder is a replaced name that a file still has.
type Remainder struct {
	File string `json:"file"`
	Word string `json:"word"`
	Name string `json:"name"`
}

// Inventory looks through all words of a file for replaced names. It skips keys, Slurm's
// own words, and the replacements themselves. It returns the first occurrence of each word.
func (a *Anonymizer) Inventory(file string, text []byte) (left []Remainder) {
	seen := map[string]bool{}
	look := func(key, words string) {
		names := holdsNames(key)
		for word := range strings.FieldsFuncSeq(words, func(r rune) bool { return !isNameRune(r) }) {
			if a.replaced[word] || ours(word) || a.isNode(word) || strings.Trim(word, "0123456789-_.TZ") == "" ||
				!names && fixed[strings.ToLower(word)] || seen[word] {
				continue
			}
			seen[word] = true
			if name := a.contained(word, false); name != "" {
				left = append(left, Remainder{file, word, name})
			}
		}
	}
	for line := range strings.Lines(string(text)) {
		if eachText(line, look) {
			continue
		}
		for _, word := range splitQuoted(strings.TrimSpace(line)) {
			key, value, ok := strings.Cut(word, "=")
			if !ok {
				key, value = "", word
			}
			look(strings.ToLower(strings.TrimRight(key, "+-")), value)
		}
	}
	return left
}

// isNode reports whether a word is a node's replacement name, or the beginning of such a name in a
// host list.
func (a *Anonymizer) isNode(word string) bool {
	const length = len("n000abcdef")
	return len(word) >= length && a.nodeNames()[word[:length]] && strings.Trim(word[length:], "0123456789x-") == ""
}

func (a *Anonymizer) nodeNames() map[string]bool {
	if a.newNodes == nil {
		a.newNodes = map[string]bool{}
		for _, name := range a.patterns {
			a.newNodes[name] = true
		}
	}
	return a.newNodes
}

// eachText calls look for each text in a line of JSON, with its key. ok is false if the line is not JSON.
func eachText(line string, look func(key, text string)) (ok bool) {
	if !strings.HasPrefix(line, "{") {
		return false
	}
	var object any
	if err := json.Unmarshal([]byte(line), &object); err != nil {
		return false
	}
	var walk func(string, any)
	walk = func(key string, v any) {
		switch v := v.(type) {
		case string:
			look(key, v)
		case []any:
			for _, x := range v {
				walk(key, x)
			}
		case map[string]any:
			for name, x := range v {
				walk(name, x)
			}
		}
	}
	walk("", object)
	return true
}

// ErrRemains makes an error of the names that an inventory found.
func ErrRemains(left []Remainder) error {
	if len(left) == 0 {
		return nil
	}
	first := left[0]
	return fmt.Errorf("%d words still contain a name that must be replaced; the first is %s in %s, with the name %s",
		len(left), first.Word, first.File, first.Name)
}
